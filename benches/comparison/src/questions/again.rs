//! The owner acquires what it holds: a process whose code calls itself, or forgot.

use std::time::Duration;

use crate::Failure;
use crate::clock::now;
use crate::event::Order;
use crate::finding::{Finding, Question};
use crate::stage::Stage;
use crate::statistics::duration;

/// In which another would get a free lock.
const WATCHED: Duration = Duration::from_secs(1);

pub(super) async fn ask(stage: &Stage<'_>) -> Result<Finding, Failure> {
    let lease = stage.settings.lease();
    let place = stage.place(lease);
    let [mut owner, mut other] = stage.hire(&place).await?;
    owner.acquire().await?;
    let asked = owner.ask_for(Order::Acquire).await?.at;
    let window = lease + lease / 2;
    let answer = owner.held(window).await;
    let finding = |brief: &str, seen: String| Finding::new(Question::Again, stage.way, brief, seen);
    let got = match answer {
        Err(error) => return Ok(finding("refused", format!("refused: {error}"))),
        Ok(Some((got, _))) => got,
        Ok(None) => {
            let seen = format!("waits for itself: nothing within {window:?}");
            let mut found = finding("waits for itself", seen);
            owner.tell(Order::Reenter).await?;
            let begun = now();
            if let Ok(Some((at, _))) = owner.held(WATCHED).await {
                let taken = duration(at.saturating_sub(begun));
                found.seen += &format!("; `reenter` on what it holds: once more after {taken}");
                found.brief = Some("waits; `reenter` for that".to_owned());
            }
            return Ok(found);
        }
    };
    let taken = duration(got - asked);
    if stage.way.is_optimistic() {
        return Ok(finding("reads again", format!("reads again, {taken}")));
    }
    if got - asked > lease / 2 {
        let seen =
            format!("waits for itself, and holds anew {taken} later, when its own lease was over");
        return Ok(finding("waits for its lease", seen));
    }
    owner.release().await?.1?;
    other.ask_for(Order::Acquire).await?;
    let is_free = other.held(WATCHED).await?.is_some();
    let (brief, count) = match is_free {
        true => ("re-enters, not counted", "the first release frees it for others"),
        false => ("re-enters", "the first release leaves it held"),
    };
    Ok(finding(brief, format!("re-enters after {taken}; {count}")))
}
