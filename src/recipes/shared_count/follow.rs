//! The task that follows the node of a count, from session to session.
//!
//! The task reads the node again when a one-shot watch fires, and after every reconnect, because the client may have missed an
//! event while it was disconnected. Without a watch (the node does not exist, or the session has no room for its path) the
//! task polls. It does not keep the session lease renewed.

use std::sync::Arc;

use super::latest::LatestCount;
use crate::client::{Failure, LinkState, LinkWatch};
use crate::error::Error;
use crate::metrics::{self, Operation};
use crate::session::follower::{EachSession, NodeFollower};
use crate::session::{Connection, Session};

/// Follows the node until no handle and no watch is left, or the `Curator` is closed.
pub(super) async fn follow(connection: Arc<Connection>, latest: EndOnDrop) {
    let latest = &latest.0;
    tokio::select! {
        biased;
        () = latest.unused() => {}
        why = follow_sessions(&connection, latest) => latest.end(why),
    }
}

/// Owned by the task. Dropping it ends the count, even if the runtime ended before the task ran.
#[derive(Debug)]
pub(super) struct EndOnDrop(Arc<LatestCount>);

impl EndOnDrop {
    pub(super) fn new(latest: Arc<LatestCount>) -> Self {
        Self(latest)
    }
}

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.end(Error::closed());
    }
}

/// Follows the node in one session after another, and returns why there is no further one.
async fn follow_sessions(connection: &Arc<Connection>, latest: &LatestCount) -> Error {
    let mut sessions = EachSession::of(connection);
    let mut is_later = false;
    loop {
        let session = match sessions.next().await {
            Ok(session) => session,
            Err(why) => return why,
        };
        sessions.while_it_lasts(follow_in(&session, latest, is_later)).await;
        is_later = true;
    }
}

/// Follows the node in one session. With `again`, watches report the first value that is read, even if it is the same.
async fn follow_in(session: &Session, latest: &LatestCount, mut again: bool) {
    // About as often as the session lease is renewed.
    let pause = session.timeout() / 6;
    let Ok(mut link) = session.client().map(|client| client.watch_link()) else { return };
    let mut follower = NodeFollower::new(latest.path.as_str());
    loop {
        let limit = match read(session, latest, &mut follower, again).await {
            Ok(()) => {
                again = false;
                (!follower.is_watched()).then_some(pause)
            }
            // The supervisor is about to end the session.
            Err(Failure::SessionOver(_)) => return session.ended().cancelled().await,
            Err(failure) => {
                tracing::debug!(path = %latest.path, ?failure, "reads again");
                metrics::retried(Operation::FOLLOW);
                Some(pause)
            }
        };
        again |= tokio::select! {
            biased;
            () = reconnected(&mut link) => true,
            _ = follower.changed(limit) => false,
        };
    }
}

async fn read(
    session: &Session,
    latest: &LatestCount,
    follower: &mut NodeFollower,
    again: bool,
) -> Result<(), Failure> {
    let client = session.client()?;
    let room =
        if follower.is_watched() { None } else { session.try_reserve_watch(latest.path.as_str()) };
    let node = follower.read(&client, room).await?;
    // An error has been logged already.
    let _ = latest.take(node.data, node.change, again);
    Ok(())
}

/// Waits until the client is connected again.
async fn reconnected(link: &mut LinkWatch) {
    while link.changed().await != LinkState::Connected {}
}
