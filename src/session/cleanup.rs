//! Clean-up tasks: each deletes a node of ours, whichever task gave up on the node.
//!
//! A clean-up task belongs to the session, never to the caller's task. It is retried across reconnects until the server says
//! that the node is deleted or does not exist, and passes to the next session when its own ends (invariants 3 and 7): the client
//! may declare a session over before the server does.
//!
//! A missing node ends a search only behind a *barrier*: the delete of a random name that does not exist, then `sync`, then the
//! listing, sent in this order on one connection. The delete goes through the quorum, so a deposed leader cannot answer it. The
//! `sync` lets this server catch up with the leader.
//!
//! A node is found by a name that holds a random GUID, drawn for this one entry, so neither a search nor a late delete can hit
//! another client's node.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::Connection;
use super::retry::{RetryLoop, RetryPolicy};
use super::session::Session;
use crate::client::{Client, ClientError, Failure};
use crate::clock::BootInstant;
use crate::lock_path::LockPath;
use crate::metrics::{self, Operation};
use crate::random;

/// The node to delete.
#[derive(Clone, Debug)]
pub(crate) enum CleanupTask {
    /// The node of this path. It is known to have existed.
    Delete(String),
    /// The child of `parent` whose name starts with `prefix`, if the create ever took effect.
    Search { parent: LockPath, prefix: String },
}

/// The end of a clean-up task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CleanupOutcome {
    /// This task deleted the node.
    Deleted,
    /// The node no longer existed, and this task had not deleted it.
    Gone,
    /// The node's session is over. If the node still exists, the servers delete it.
    SessionOver,
}

const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Runs a clean-up task to completion. `first` is the first try, which may have been sent already. `refused` is called each time
/// the server refuses.
pub(crate) async fn clean_up(
    connection: &Connection,
    mut session: Arc<Session>,
    task: CleanupTask,
    first: impl Future<Output = Result<CleanupOutcome, Failure>> + Send,
    mut refused: impl FnMut(&ClientError) + Send,
) -> CleanupOutcome {
    let _counted = metrics::cleaning_up();
    let policy =
        RetryPolicy::bounded_exponential_backoff(SHORTEST_PAUSE, LONGEST_PAUSE, usize::MAX);
    let mut retry = RetryLoop::new(&policy, Operation::CLEANUP);
    let mut inherited = false;
    // An earlier try without an answer may have deleted the node.
    let mut unsure = false;
    let mut first = Some(first);
    loop {
        let attempted = tokio::select! {
            biased;
            () = session.ended().cancelled() => Err(Failure::session_over()),
            attempted = first_or(first.take(), &session, &task) => attempted,
        };
        let failure = match attempted {
            Ok(_) if inherited => return CleanupOutcome::SessionOver,
            Ok(CleanupOutcome::Gone) if unsure => return CleanupOutcome::Deleted,
            Ok(outcome) => return outcome,
            Err(Failure::SessionOver(_)) => {
                let Ok(next) = connection.next_session(Some(&session)).await else {
                    return CleanupOutcome::SessionOver;
                };
                tracing::debug!(?task, "a clean-up passes to the next session");
                session = next;
                inherited = true;
                retry = RetryLoop::new(&policy, Operation::CLEANUP);
                continue;
            }
            Err(failure) => failure,
        };
        match &failure {
            Failure::Refused(error) => {
                tracing::warn!(?task, %error, "the server refuses a clean-up");
                refused(error);
                if inherited {
                    return CleanupOutcome::SessionOver;
                }
            }
            Failure::Unknown(_) => {
                unsure = true;
                metrics::unknown(Operation::CLEANUP);
            }
            _ => {}
        }
        // The policy is endless.
        let pause = retry.next_pause(&format_args!("{task:?}: {failure:?}"));
        tokio::select! {
            biased;
            () = session.ended().cancelled() => {}
            () = connection.pause(pause.unwrap_or(LONGEST_PAUSE)) => {}
        }
    }
}

/// Awaits the try that was sent, or makes a new one.
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
            let mut outcome = Ok(CleanupOutcome::Gone);
            // A node that cannot be deleted may be another client's, so the others are deleted all the same.
            for name in find(session, parent, prefix).await? {
                let deleted = delete(session, &parent.child(&name)).await;
                outcome = outcome.and(deleted);
            }
            outcome
        }
    }
}

/// Sends the request to delete `node`. The future resolves with the answer.
pub(crate) fn delete(
    session: &Arc<Session>,
    node: &str,
) -> impl Future<Output = Result<CleanupOutcome, Failure>> + Send + use<> {
    let session = session.clone();
    let stamp = BootInstant::now();
    let sent = session.request(|client| client.delete(node));
    async move {
        match session.renew_on_success(stamp, sent).await {
            Ok(()) => Ok(CleanupOutcome::Deleted),
            Err(Failure::NoNode) => Ok(CleanupOutcome::Gone),
            Err(failure) => Err(failure),
        }
    }
}

/// Lists behind a barrier the children of `parent` whose names start with `prefix`. We created one of them at most. Others are
/// those of a client that copied its GUID.
pub(crate) async fn find(
    session: &Session,
    parent: &LockPath,
    prefix: &str,
) -> Result<Vec<String>, Failure> {
    let missing = parent.child("_b_");
    let list = |client: &Client| client.list(parent.as_str());
    match behind_barrier(session, &missing, list).await {
        Ok(listing) => {
            Ok(listing.children.into_iter().filter(|name| name.starts_with(prefix)).collect())
        }
        Err(Failure::NoNode) => Ok(Vec::new()),
        Err(failure) => Err(failure),
    }
}

/// Sends a barrier, and `read` behind it. `missing` begins the random path of the node that the barrier deletes.
pub(crate) async fn behind_barrier<T, F>(
    session: &Session,
    missing: &str,
    read: impl FnOnce(&Client) -> F + Send,
) -> Result<T, Failure>
where
    F: Future<Output = Result<T, Failure>> + Send,
{
    let client = session.client()?;
    let missing = format!("{missing}{}", random::guid().hyphenated());
    // All three are sent before the first is awaited: one connection answers them in this order.
    let delete = client.delete(&missing);
    let sync = client.sync();
    let read = read(&client);
    match delete.await {
        // A refusal went through the quorum as well.
        Ok(()) | Err(Failure::NoNode | Failure::Refused(_)) => {}
        Err(failure) => return Err(failure),
    }
    sync.await?;
    read.await
}
