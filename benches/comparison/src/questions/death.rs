//! The holder's process is killed while it holds. When does the next get the lock?

use nix::sys::signal::Signal;
use tokio::time::sleep;

use super::{SETTLED, some_time};
use crate::Failure;
use crate::event::Order;
use crate::finding::{Finding, Question};
use crate::stage::Stage;
use crate::statistics::Summary;

pub(super) async fn ask(stage: &Stage<'_>) -> Result<Finding, Failure> {
    let lease = stage.settings.lease();
    let mut waits = Vec::new();
    for _ in 0..stage.settings.rounds {
        let place = stage.place(lease);
        let [mut holder, mut next] = stage.hire(&place).await?;
        let (held, _) = holder.acquire().await?;
        next.ask_for(Order::Acquire).await?;
        sleep(SETTLED).await;
        some_time(lease / 3).await;
        let killed = holder.signal(Signal::SIGKILL)?;
        let Some((got, _)) = next.held(lease * 4).await? else {
            let seen = format!("not within {:?} of the kill", lease * 4);
            return Ok(Finding::new(Question::Death, stage.way, "not at all", seen));
        };
        if got < killed {
            let seen = "the next did not wait: it read the same version as the dead, and wrote; nothing was left behind";
            return Ok(Finding::new(Question::Death, stage.way, "at once", seen.to_owned()));
        }
        waits.push((got - killed, got - held));
    }
    let after = Summary::of_times(waits.iter().map(|both| both.0)).ok_or("no rounds")?;
    let since = Summary::of_times(waits.iter().map(|both| both.1)).ok_or("no rounds")?;
    let seen = format!(
        "the next held {} after the kill, {} after the dead one had got the lock",
        after.text(),
        since.text()
    );
    Ok(Finding::new(Question::Death, stage.way, &after.short(), seen)
        .with("after_kill_median_ms", after.median)
        .with("after_kill_least_ms", after.least)
        .with("after_kill_most_ms", after.most)
        .with("after_acquisition_median_ms", since.median))
}
