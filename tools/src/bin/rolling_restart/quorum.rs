//! When the servers had no quorum, by their own words: no client can do anything meanwhile.

use std::convert::Infallible;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zookeeper_testkit::{Member, Role, TestEnsemble};

use crate::event::now;

const INTERVAL: Duration = Duration::from_millis(20);
/// One that is ending may not answer.
const ANSWER: Duration = Duration::from_millis(100);

/// The stretches without a quorum.
#[derive(Debug, Default)]
pub(crate) struct Outages {
    pub(crate) count: u32,
    pub(crate) total: Duration,
    pub(crate) longest: Duration,
}

impl Outages {
    /// Looks again and again, for ever.
    pub(crate) async fn watch(&mut self, ensemble: &TestEnsemble) -> Infallible {
        let mut since = None;
        loop {
            let at = now();
            let mut roles = Vec::new();
            for member in ensemble.members() {
                roles.push(role(member).await);
            }
            let count = |wanted| roles.iter().filter(|role| **role == Some(wanted)).count();
            let serve =
                count(Role::Leader) == 1 && count(Role::Follower) >= ensemble.members().len() / 2;
            match since {
                Some(began) if serve => {
                    let length = at.saturating_sub(began);
                    self.count += 1;
                    self.total += length;
                    self.longest = self.longest.max(length);
                    since = None;
                }
                None if !serve => since = Some(at),
                _ => {}
            }
            sleep(INTERVAL).await;
        }
    }
}

async fn role(member: &Member) -> Option<Role> {
    timeout(ANSWER, member.role()).await.ok()?.ok()
}
