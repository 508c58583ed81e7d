//! The holder lives, and does not release. For how long is the lock stuck?

use crate::Failure;
use crate::event::Order;
use crate::finding::{Finding, Question};
use crate::stage::Stage;
use crate::statistics::duration;

pub(super) async fn ask(stage: &Stage<'_>) -> Result<Finding, Failure> {
    let lease = stage.settings.lease();
    let place = stage.place(lease);
    let [mut holder, mut other] = stage.hire(&place).await?;
    let (held, _) = holder.acquire().await?;
    other.ask_for(Order::Acquire).await?;
    let window = lease * 3;
    let Some((got, _)) = other.held(window).await? else {
        let seen = format!("still held after {window:?}: as long as its process lives");
        return Ok(Finding::new(Question::Forgotten, stage.way, "while it lives", seen)
            .with("watched_ms", window.as_secs_f64() * 1e3));
    };
    if stage.way.is_optimistic() {
        let seen = "there is nothing to release: the other read and wrote at once".to_owned();
        return Ok(Finding::new(Question::Forgotten, stage.way, "nothing is held", seen));
    }
    let (first, second) = holder.belief().zip(other.belief()).ok_or("nobody held")?;
    let both = first.overlap(&second);
    let belief = match both {
        Some(both) => format!("both believed that they hold for {}", duration(both)),
        None => "the holder knew before, by its clock".to_owned(),
    };
    let seen = format!("the other held {} after the holder did; {belief}", duration(got - held));
    Ok(Finding::new(Question::Forgotten, stage.way, "its lease", seen)
        .with("stuck_ms", (got - held).as_secs_f64() * 1e3))
}
