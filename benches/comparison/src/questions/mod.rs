//! What is asked of each way to lock.

mod again;
mod cost;
mod death;
mod forgotten;
mod hand_over;
mod pause;
mod redlock_amnesia;
mod restart;
mod row_timeouts;
mod row_without_expiry;
mod waiting;

use std::time::Duration;

use tokio::time::sleep;

use crate::Failure;
use crate::finding::{Finding, Question};
use crate::stage::Stage;
use crate::ways::WayName;

pub(crate) use self::cost::{Circumstances, cost};

/// Until a waiter has sent its first request, which it tells nobody.
const SETTLED: Duration = Duration::from_millis(300);

/// All but the cost, which is asked under several circumstances.
pub(crate) async fn ask(
    question: Question,
    stage: &mut Stage<'_>,
) -> Result<Vec<Finding>, Failure> {
    match question {
        Question::Death => death::ask(stage).await.map(|found| vec![found]),
        Question::Pause => pause::ask(stage).await.map(|found| vec![found]),
        Question::Restart => restart::ask(stage).await,
        Question::Forgotten => forgotten::ask(stage).await.map(|found| vec![found]),
        Question::Again => again::ask(stage).await.map(|found| vec![found]),
        Question::Waiting => waiting::ask(stage).await.map(|found| vec![found]),
        Question::HandOver => hand_over::ask(stage).await.map(|found| vec![found]),
        Question::Cost => Ok(Vec::new()),
        Question::Besides => match stage.way {
            WayName::Redlock => redlock_amnesia::ask(stage).await.map(|found| vec![found]),
            WayName::ForUpdate => row_timeouts::ask(stage).await,
            WayName::UniqueRow => row_without_expiry::ask(stage).await.map(|found| vec![found]),
            _ => Ok(Vec::new()),
        },
    }
}

/// At no fixed distance from a renewal or a look.
async fn some_time(most: Duration) {
    sleep(most.mul_f64(fastrand::f64())).await;
}
