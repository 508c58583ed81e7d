//! Eight wait. What do they ask the server while nothing happens, and are they served in the order in which they came?

use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::time::sleep;

use super::SETTLED;
use crate::Failure;
use crate::clock::now;
use crate::event::{Order, What};
use crate::finding::{Finding, Question};
use crate::hand::Hand;
use crate::stage::{Meter, Stage};
use crate::statistics::{duration, overtakings};
use crate::ways::Place;

const WAITERS: usize = 8;
const PAIRS: usize = WAITERS * (WAITERS - 1) / 2;
/// Between two arrivals: more than it takes to send a request.
const APART: Duration = Duration::from_millis(100);
/// Until the last is served.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) async fn ask(stage: &Stage<'_>) -> Result<Finding, Failure> {
    let finding =
        |brief: &str, seen: String| Finding::new(Question::Waiting, stage.way, brief, seen);
    if stage.way.is_optimistic() {
        let seen = "nobody waits: of those who read the same version one writes, and the others read again";
        return Ok(finding("nobody waits", seen.to_owned()));
    }
    // The holder's must not end meanwhile where it is not renewed; the waiters' is the usual one.
    let place = stage.place(stage.settings.lease());
    let patient = Place { lease: Duration::from_secs(60), ..place.clone() };
    let [mut holder] = stage.hire(&patient).await?;
    holder.acquire().await?;
    let window = stage.settings.window();
    let alone = Meter::start(stage).await?;
    sleep(window).await;
    let alone = alone.read(stage).await?;
    let mut waiters: [Hand; WAITERS] = stage.hire(&place).await?;
    for waiter in &mut waiters {
        waiter.ask_for(Order::Pass).await?;
        sleep(APART).await;
    }
    sleep(SETTLED).await;
    let crowded = Meter::start(stage).await?;
    let begun = now();
    sleep(window).await;
    let crowded = crowded.read(stage).await?;
    let seconds = (now() - begun).as_secs_f64();
    let each = crowded.saturating_sub(alone) as f64 / seconds / WAITERS as f64;
    let serving = Meter::start(stage).await?;
    let (released, _) = holder.release().await?;
    let served = try_join_all(waiters.iter_mut().enumerate().map(|(number, waiter)| async move {
        let held = waiter.held(PATIENCE).await?.ok_or("a waiter was never served")?.0;
        waiter.within(PATIENCE, |what| matches!(what, What::Released(_))).await;
        Ok::<_, Failure>((held, number))
    }));
    let mut served = served.await?;
    let requests = serving.read(stage).await?;
    served.sort_unstable();
    let order: Vec<usize> = served.iter().map(|(_, number)| *number).collect();
    let overtaken = overtakings(&order);
    let all = served.last().map(|(at, _)| *at - released).unwrap_or_default();
    let fairness = match overtaken {
        0 => "in the order they came".to_owned(),
        many => format!("out of order: {many} of {PAIRS} pairs overtaken"),
    };
    let seen = format!(
        "each waiter sends {each:.1} requests a second; served {fairness}, all eight {} after the release, for {requests} requests",
        duration(all),
    );
    let order = if overtaken == 0 { "in order" } else { "out of order" };
    let asking = match each {
        nothing if nothing < 0.05 => "ask nothing".to_owned(),
        each => format!("{each:.1} requests/s each"),
    };
    Ok(finding(&format!("{order}, {asking}"), seen)
        .with("requests_per_waiter_per_second", each)
        .with("pairs_overtaken", overtaken as f64)
        .with("all_served_ms", all.as_secs_f64() * 1e3)
        .with("requests_to_serve_all", requests as f64))
}
