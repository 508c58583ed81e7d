//! One process releases, another waits: from the call of the release until the other holds.

use std::mem::swap;
use std::time::Duration;

use super::{SETTLED, some_time};
use crate::Failure;
use crate::event::Order;
use crate::finding::{Finding, Question};
use crate::stage::Stage;
use crate::statistics::Summary;

/// As long as the pauses of those who poll, so that a release comes at any time of one.
const SPREAD: Duration = Duration::from_millis(400);
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) async fn ask(stage: &Stage<'_>) -> Result<Finding, Failure> {
    if stage.way.is_optimistic() {
        let seen = "there is none: nobody waits for anybody".to_owned();
        return Ok(Finding::new(Question::HandOver, stage.way, "-", seen));
    }
    let place = stage.place(stage.settings.lease());
    let [mut holder, mut next] = stage.hire(&place).await?;
    holder.acquire().await?;
    let mut times = Vec::new();
    for _ in 0..stage.settings.hand_overs() {
        next.ask_for(Order::Acquire).await?;
        tokio::time::sleep(SETTLED).await;
        some_time(SPREAD).await;
        let (released, _) = holder.release().await?;
        let (held, _) = next.held(PATIENCE).await?.ok_or("the next never held")?;
        times.push(held.saturating_sub(released));
        swap(&mut holder, &mut next);
    }
    let time = Summary::of_times(times).ok_or("no hand-overs")?;
    let seen = format!("{} over {} hand-overs", time.text(), stage.settings.hand_overs());
    Ok(Finding::new(Question::HandOver, stage.way, &time.short(), seen)
        .with("hand_over_median_ms", time.median)
        .with("hand_over_least_ms", time.least)
        .with("hand_over_most_ms", time.most))
}
