//! The row as it is often written first, without a time in it: its holder is killed.

use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::time::sleep;

use super::SETTLED;
use crate::Failure;
use crate::event::Order;
use crate::finding::{Finding, Question};
use crate::stage::Stage;

/// As good as none.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub(super) async fn ask(stage: &Stage<'_>) -> Result<Finding, Failure> {
    let place = stage.place(DAY);
    let [mut holder, mut other] = stage.hire(&place).await?;
    holder.acquire().await?;
    other.ask_for(Order::Acquire).await?;
    sleep(SETTLED).await;
    holder.signal(Signal::SIGKILL)?;
    let window = stage.settings.lease() * 3;
    let got = other.held(window).await?.is_some();
    let seen = match got {
        true => "the next held: its row was not there".to_owned(),
        false => format!(
            "still held {window:?} after the kill: the row stays until somebody deletes it by hand"
        ),
    };
    Ok(Finding::new(Question::Besides, stage.way, "", seen)
        .under("a row without an expiry, its holder killed"))
}
