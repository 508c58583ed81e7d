//! The server is restarted while somebody holds: in order, or killed. Is the lock still held, by two, or lost?

use std::time::Duration;

use nix::sys::signal::Signal;

use super::pause::outcome;
use crate::Failure;
use crate::clock::now;
use crate::event::{Order, What};
use crate::finding::{Finding, Question};
use crate::server::Durability;
use crate::stage::Stage;
use crate::statistics::duration;

/// Longer than any restart, so that no lease ends by itself.
const LEASE: Duration = Duration::from_secs(12);
/// In which another tries, once the server serves again; more than a third of the lease, after which it is renewed.
const WATCHED: Duration = Duration::from_secs(5);

pub(super) async fn ask(stage: &mut Stage<'_>) -> Result<Vec<Finding>, Failure> {
    let [asked_to_end, killed] = match stage.way.kind().is_durable() {
        true => ["ended in order", "killed"],
        false => ["ended in order, snapshots (the default)", "killed, snapshots (the default)"],
    };
    let mut found = vec![
        once(stage, Signal::SIGTERM).await?.under(asked_to_end).without_brief(),
        once(stage, Signal::SIGKILL).await?.under(killed),
    ];
    if !stage.way.kind().is_durable() {
        let root = stage.settings.disk();
        let mut durable =
            Stage::set(stage.way, stage.settings, Durability::EachWrite, &root).await?;
        let seen = once(&mut durable, Signal::SIGKILL).await?;
        found.push(seen.under("killed, `appendfsync always`").without_brief());
    }
    Ok(found)
}

async fn once(stage: &mut Stage<'_>, signal: Signal) -> Result<Finding, Failure> {
    let place = stage.place(LEASE);
    let [mut holder] = stage.hire(&place).await?;
    holder.acquire().await?;
    let begun = now();
    stage.restart(signal).await?;
    let served = now();
    let [mut other] = stage.hire(&place).await?;
    other.ask_for(Order::Acquire).await?;
    let got = other.held(WATCHED).await?;
    let finding = |brief: &str, seen: String| {
        let seen = format!("served again after {}; {seen}", duration(served - begun));
        Finding::new(Question::Restart, stage.way, brief, seen)
            .with("restart_ms", (served - begun).as_secs_f64() * 1e3)
    };
    if stage.way.is_optimistic() {
        let (_, released) = holder.release().await?;
        let seen = format!("the write from before the restart: {}", outcome(&released));
        return Ok(finding("nothing to lose", seen));
    }
    let Some((at, _)) = got else {
        let lost = holder.log().iter().any(|event| event.what == What::Lost);
        let (_, released) = holder.release().await?;
        let released = outcome(&released);
        let next = other.held(LEASE * 2).await?.is_some();
        let next = if next { "then the other held" } else { "but the other never held" };
        let (brief, belief) = match lost {
            true => ("held, but its holder gave up", "the holder gave it up"),
            false => ("still held", "still held, and its holder knew no other"),
        };
        return Ok(finding(brief, format!("{belief}; its release: {released}, {next}")));
    };
    let after = duration(at - served);
    // Long enough for a renewal to find out.
    let told = holder.within(WATCHED, |what| *what == What::Lost).await;
    let (_, asked) = holder.ask().await?;
    let (first, second) = holder.belief().zip(other.belief()).ok_or("nobody held")?;
    let Some(both) = first.overlap(&second) else {
        let seen = format!("lost: another held {after} later, and the holder knew before");
        return Ok(finding("lost, the holder knew", seen));
    };
    let numbers = |finding: Finding| finding.with("both_believed_ms", both.as_secs_f64() * 1e3);
    if let Err(error) = asked {
        let seen = format!(
            "lost: another held {after} later; the holder had nothing to look at, and its next statement failed ({error})"
        );
        return Ok(numbers(finding("lost; its next statement fails", seen)));
    }
    let end = match told {
        Some(_) => "until it was told",
        None => "as long as it was watched; it learns it if it asks",
    };
    let seen = format!(
        "HELD BY TWO: another held {after} later, and the holder believed on for {}, {end}",
        duration(both),
    );
    Ok(numbers(finding("held by two", seen)))
}
