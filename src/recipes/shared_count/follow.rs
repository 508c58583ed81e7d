//! The task that follows the node of a count, from session to session.
//!
//! The task reads the node again when a one-shot watch fires, and after every reconnect, because the client may have missed an
//! event while it was disconnected. Without a watch (the node does not exist, or the session has no room for its path) the
//! task polls. It does not keep the session lease renewed.

use std::future::pending;
use std::sync::Arc;

use super::latest::LatestCount;
use crate::client::Failure;
use crate::error::Error;
use crate::metrics::{self, Operation};
use crate::recipes::shared::observation::{self, Feed, Follow};
use crate::session::follower::NodeFollower;
use crate::session::{Connection, Session};

/// Follows the node until no handle and no watch is left, or the `Curator` is closed.
pub(super) fn follow(connection: &Arc<Connection>, latest: &Arc<LatestCount>) {
    let task = CountTask { latest: latest.clone(), is_later_session: false };
    observation::follow(latest.feed.clone(), connection, task);
}

struct CountTask {
    latest: Arc<LatestCount>,
    is_later_session: bool,
}

impl Follow<i32> for CountTask {
    /// Follows the node in one session, until that ends. In a later session and after a reconnect, watches report the first value
    /// that is read, even if it is the same.
    async fn follow_in(&mut self, session: &Session, feed: &Feed<i32>) -> Error {
        let latest = &self.latest;
        let mut again = self.is_later_session;
        self.is_later_session = true;
        // About as often as the session lease is renewed.
        let pause = session.timeout() / 6;
        let Ok(mut link) = session.client().map(|client| client.watch_link()) else {
            // The supervisor is about to end the session.
            return pending().await;
        };
        let mut follower = NodeFollower::new(feed.path.as_str());
        loop {
            let limit = match read(session, latest, &mut follower, again).await {
                Ok(()) => {
                    again = false;
                    (!follower.is_watched()).then_some(pause)
                }
                Err(Failure::SessionOver(_)) => return pending().await,
                Err(failure) => {
                    tracing::debug!(path = %feed.path, ?failure, "reads again");
                    metrics::retried(Operation::FOLLOW);
                    Some(pause)
                }
            };
            again |= tokio::select! {
                biased;
                () = link.reconnected() => true,
                _ = follower.changed(limit) => false,
            };
        }
    }
}

async fn read(
    session: &Session,
    latest: &LatestCount,
    follower: &mut NodeFollower,
    again: bool,
) -> Result<(), Failure> {
    let client = session.client()?;
    let room = match follower.is_watched() {
        true => None,
        false => session.try_reserve_watch(&follower.node),
    };
    let node = follower.read(&client, room).await?;
    // An error has been logged already.
    let _ = latest.take(node.data, node.change, again);
    Ok(())
}
