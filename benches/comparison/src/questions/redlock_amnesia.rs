//! Redlock: one of the majority restarts without its data. Two get a majority, as the page on it says under "Performance,
//! crash recovery and fsync".

use std::time::Duration;

use nix::sys::signal::Signal;

use crate::Failure;
use crate::event::Order;
use crate::finding::{Finding, Question};
use crate::stage::Stage;
use crate::statistics::duration;

const LEASE: Duration = Duration::from_secs(10);
const WATCHED: Duration = Duration::from_secs(3);

pub(super) async fn ask(stage: &mut Stage<'_>) -> Result<Finding, Failure> {
    let place = stage.place(LEASE);
    let [mut first, mut second] = stage.hire(&place).await?;
    // Two are down while the first acquires: it has the other three. (Had they only been slow, they would take its
    // key as soon as they are not.)
    for server in &mut stage.servers[3..] {
        server.end(Signal::SIGTERM).await?;
    }
    let (held, _) = first.acquire().await?;
    for server in &mut stage.servers[3..] {
        server.start_again().await?;
    }
    // One of the three restarts, with the default snapshots: it has forgotten.
    stage.servers[2].end(Signal::SIGKILL).await?;
    stage.servers[2].start_again().await?;
    second.ask_for(Order::Acquire).await?;
    let got = second.held(WATCHED).await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let beliefs = first.belief().zip(second.belief());
    let both = beliefs.and_then(|(first, second)| first.overlap(&second));
    let seen = match (got, both) {
        (Some((at, _)), Some(both)) => format!(
            "HELD BY TWO: two of five were down while the first acquired the other three; they came back, one of the three was killed and came back with what was on its disk; {} after the first a second held; both believed for the {} that they were watched, of a lease of {LEASE:?}",
            duration(at - held),
            duration(both),
        ),
        _ => "held by one: nobody else got it".to_owned(),
    };
    Ok(Finding::new(Question::Besides, stage.way, "", seen)
        .under("one of the majority restarts without its data")
        .with("both_believed_ms", both.unwrap_or_default().as_secs_f64() * 1e3))
}
