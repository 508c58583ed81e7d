//! The task that follows the node, from session to session.
//!
//! A one-shot watch says when to read again; so does every reconnect, for the client may have missed what the
//! servers said meanwhile. Without a watch (the node is not there, or there is no room for its path) it reads now and
//! then. It demands nothing of the lease.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::shared::Shared;
use crate::client::{Failure, LinkState, LinkWatch, NodeEvent, NodeWatch, WatchPermit};
use crate::error::Error;
use crate::metrics::{self, Operation};
use crate::session::Session;
use crate::session::{Connection, NoSession};

/// Follows the node until no handle and no watch is left, or the `Curator` is closed.
pub(super) async fn follow(connection: Arc<Connection>, following: Following) {
    let shared = &following.0;
    let mut old: Option<Arc<Session>> = None;
    loop {
        let next = tokio::select! {
            biased;
            () = shared.unused() => return,
            next = connection.next_session(old.as_ref()) => next,
        };
        let session = match next {
            Ok(session) => session,
            Err(NoSession::Closed(why)) => return shared.end(why),
            Err(NoSession::NotConnected) => continue,
        };
        tokio::select! {
            biased;
            () = shared.unused() => return,
            () = connection.closing().cancelled() => return,
            () = session.ended().cancelled() => {}
            () = follow_in(&session, shared, old.is_some()) => {}
        }
        old = Some(session);
    }
}

/// Says that no task follows any more, also when the runtime ends before the task was run.
#[derive(Debug)]
pub(super) struct Following(Arc<Shared>);

impl Following {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.0.end(Error::closed());
    }
}

/// A watch on the node, and the room it takes.
struct Armed {
    watch: NodeWatch,
    _room: WatchPermit,
}

/// In one session, to its end; `again`: watches report what is read first, even if it is the same.
async fn follow_in(session: &Session, shared: &Shared, mut again: bool) {
    // As often as a lease is renewed.
    let pause = session.timeout() / 6;
    let Ok(mut link) = session.client().map(|client| client.watch_link()) else { return };
    let mut armed = None;
    loop {
        let read = read(session, shared, &mut armed, again).await;
        let look = match read {
            Ok(()) => {
                again = false;
                armed.is_none().then_some(pause)
            }
            // The supervisor is about to end it.
            Err(Failure::SessionOver(_)) => return session.ended().cancelled().await,
            Err(failure) => {
                tracing::debug!(path = %shared.path, ?failure, "reads again");
                metrics::retried(Operation::FOLLOW);
                Some(pause)
            }
        };
        again |= wait(&mut armed, &mut link, look).await;
    }
}

async fn read(
    session: &Session,
    shared: &Shared,
    armed: &mut Option<Armed>,
    again: bool,
) -> Result<(), Failure> {
    let path = shared.path.as_str();
    let client = session.client()?;
    let room = if armed.is_none() { session.try_reserve_watch(path) } else { None };
    let node = match room {
        Some(room) => {
            let (node, watch) = client.read_and_watch(path).await?;
            *armed = Some(Armed { watch, _room: room });
            node
        }
        None => client.read(path).await?,
    };
    // It has said in the log what is wrong.
    let _ = shared.take((node.data, node.change), again);
    Ok(())
}

/// Waits until it is time to read again; whether that is for a reconnect.
async fn wait(armed: &mut Option<Armed>, link: &mut LinkWatch, look: Option<Duration>) -> bool {
    let looking = async {
        match look {
            Some(pause) => sleep(pause).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(looking);
    loop {
        tokio::select! {
            biased;
            state = link.changed() => if state == LinkState::Connected { return true },
            () = fired(armed) => {
                *armed = None;
                return false;
            }
            () = &mut looking => return false,
        }
    }
}

/// Resolves when the watch fires, if it is armed.
async fn fired(armed: &mut Option<Armed>) {
    // At the end of the session there is nothing to read.
    if let Some(armed) = armed
        && (&mut armed.watch).await != NodeEvent::SessionOver
    {
        return;
    }
    std::future::pending().await
}
