//! Clean-up duties: a node of ours that must be deleted, whichever task gave up on it.
//!
//! A duty belongs to the session, never to the caller's task. It is retried across reconnects until
//! the server says that the node is deleted or not there, and passes to the next session when its own
//! ends (invariants 3 and 7): the client may declare a session over before the server does.
//!
//! "Not there" ends a search only behind a *barrier*: the delete of a random name that does not exist,
//! then `sync`, then the listing, sent in this order on one connection. The delete goes through the
//! quorum, so a deposed leader cannot answer it; the `sync` brings this server up to it.
//!
//! A node is found by a name that holds a random GUID, drawn for this one entering, so neither a
//! search nor a late delete can hit another client's node.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::retry::RetryPolicy;
use super::session::Session;
use super::{Connection, NoSession};
use crate::client::{ClientError, Failure};
use crate::clock::BootInstant;
use crate::lock_path::LockPath;
use crate::metrics::{self, Operation};
use crate::random;

/// What is to be removed.
#[derive(Clone, Debug)]
pub(crate) enum CleanupTask {
    /// The node of this path. It is known to have existed.
    Delete(String),
    /// The child of `parent` whose name starts with `prefix`, if the create ever took effect.
    Search { parent: LockPath, prefix: String },
}

/// How a duty ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CleanupOutcome {
    /// By us.
    Deleted,
    /// It was not there any more, and we had not deleted it.
    Gone,
    /// The node's session is over, and the servers delete the node, unless it was deleted before.
    SessionOver,
}

/// Works a duty off. `first` is the first try, which may have been sent already; `refused` is called each
/// time the server refuses.
pub(crate) async fn clean_up(
    connection: &Connection,
    mut session: Arc<Session>,
    task: CleanupTask,
    first: impl Future<Output = Result<CleanupOutcome, Failure>> + Send,
    mut refused: impl FnMut(&ClientError) + Send,
) -> CleanupOutcome {
    let _counted = metrics::cleaning_up();
    let policy = RetryPolicy::bounded_exponential_backoff(
        Duration::from_millis(50),
        Duration::from_secs(5),
        usize::MAX,
    );
    let mut retry = policy.start();
    let mut inherited = false;
    // An earlier try may have taken effect without our hearing of it.
    let mut unsure = false;
    let mut first = Some(first);
    loop {
        let attempted = tokio::select! {
            biased;
            () = session.ended().cancelled() => Err(Failure::session_over()),
            cleaned = first_or(first.take(), &session, &task) => cleaned,
        };
        match attempted {
            Ok(_) if inherited => return CleanupOutcome::SessionOver,
            Ok(CleanupOutcome::Gone) if unsure => return CleanupOutcome::Deleted,
            Ok(cleaned) => return cleaned,
            Err(Failure::SessionOver(_)) => match connection.next_session(Some(&session)).await {
                Ok(next) => {
                    tracing::debug!(?task, "a clean-up passes to the next session");
                    (session, inherited) = (next, true);
                    retry = policy.start();
                    continue;
                }
                Err(NoSession::NotConnected | NoSession::Closed(_)) => {
                    return CleanupOutcome::SessionOver;
                }
            },
            Err(Failure::Refused(error)) => {
                tracing::warn!(?task, %error, "the server refuses a clean-up");
                refused(&error);
                if inherited {
                    return CleanupOutcome::SessionOver;
                }
            }
            Err(failure) => {
                if let Failure::Unknown(_) = failure {
                    unsure = true;
                    metrics::unknown(Operation::CLEANUP);
                }
                tracing::debug!(?task, ?failure, "a clean-up is tried again");
            }
        }
        // The policy is endless.
        let pause = retry.next_pause(Duration::ZERO).unwrap_or(Duration::from_secs(5));
        tokio::select! {
            biased;
            () = session.ended().cancelled() => {}
            () = connection.pause(pause) => {}
        }
        metrics::retried(Operation::CLEANUP);
    }
}

/// A try that was sent, or a new one.
async fn first_or(
    first: Option<impl Future<Output = Result<CleanupOutcome, Failure>>>,
    session: &Arc<Session>,
    task: &CleanupTask,
) -> Result<CleanupOutcome, Failure> {
    match first {
        Some(first) => first.await,
        None => run_once(session, task).await,
    }
}

/// Tries once.
pub(crate) async fn run_once(
    session: &Arc<Session>,
    task: &CleanupTask,
) -> Result<CleanupOutcome, Failure> {
    match task {
        CleanupTask::Delete(node) => delete(session, node).await,
        CleanupTask::Search { parent, prefix } => {
            let mut cleaned = Ok(CleanupOutcome::Gone);
            // All of them, though one cannot be deleted: it may not be ours.
            for name in find(session, parent, prefix).await? {
                let deleted = delete(session, &parent.child(&name)).await;
                cleaned = cleaned.and(deleted);
            }
            cleaned
        }
    }
}

/// Sends the request to delete `node`; the future tells the answer.
pub(crate) fn delete(
    session: &Arc<Session>,
    node: &str,
) -> impl Future<Output = Result<CleanupOutcome, Failure>> + Send + use<> {
    let session = session.clone();
    let stamp = BootInstant::now();
    let sent = session.client().map(|client| client.delete(node));
    async move {
        match session.proven(stamp, sent?).await {
            Ok(()) => Ok(CleanupOutcome::Deleted),
            Err(Failure::NoNode) => Ok(CleanupOutcome::Gone),
            Err(failure) => Err(failure),
        }
    }
}

/// Looks behind a barrier for the children of `parent` whose names start with `prefix`. We made one of them
/// at most; others are those of a client that copied its GUID.
pub(crate) async fn find(
    session: &Session,
    parent: &LockPath,
    prefix: &str,
) -> Result<Vec<String>, Failure> {
    let client = session.client()?;
    let nothing = parent.child(&format!("_b_{}", random::guid().hyphenated()));
    // All three are sent before the first is awaited: one connection answers them in this order.
    let (delete, sync, list) =
        (client.delete(&nothing), client.sync(), client.list(parent.as_str()));
    match delete.await {
        // A refusal went through the quorum as well.
        Ok(()) | Err(Failure::NoNode | Failure::Refused(_)) => {}
        Err(failure) => return Err(failure),
    }
    sync.await?;
    match list.await {
        Ok(listing) => {
            Ok(listing.children.into_iter().filter(|name| name.starts_with(prefix)).collect())
        }
        Err(Failure::NoNode) => Ok(Vec::new()),
        Err(failure) => Err(failure),
    }
}
