//! Waiting in the queue.
//!
//! A contender waits for its immediate predecessor only, so that a release wakes one (invariant 6),
//! and for its own node: when somebody deletes that, it must not wait for ever. It uses one-shot data
//! watches: they survive a reconnect, and leave nothing on a node that is not there. Any event is a
//! hint only: the next listing decides.
//!
//! Where the session's budget of watches is used up, a waiter looks now and then instead, and takes
//! its turn for a watch.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::enter::{Entered, Listing, check_sequence};
use super::{Contender, Stop, refusal};
use crate::admission::{Decision, decide};
use crate::client::{Failure, NodeEvent};
use crate::error::AcquireError;
use crate::retry::RetryPolicy;
use crate::session::Session;
use crate::session::clock::Moment;
use crate::session::epoch::Epoch;
use crate::session::lease::Term;

/// How often a waiter looks for its predecessor that has no room for a watch.
const LOOK: Duration = Duration::from_secs(1);

/// How often it then looks for its own node, which nobody deletes in the normal course of things.
const LOOK_FOR_OWN: Duration = Duration::from_secs(10);

/// Resolves when our own node is gone, or cannot be watched.
pub(super) type OwnNode = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

/// Waits until the contender is admitted, with the lease lasting at that instant.
pub(super) async fn wait(
    contender: &Contender,
    epoch: &Arc<Epoch>,
    entered: &Entered,
    mut listing: Listing,
    own: &mut Option<OwnNode>,
) -> Result<Arc<Term>, Stop> {
    let Contender { session, request, .. } = contender;
    check_sequence(contender, entered)?;
    let mut warned = false;
    loop {
        let children = match listing.take() {
            Some(children) => children,
            None => list(contender, epoch).await?,
        };
        match decide(&children, &entered.name, request.kind) {
            Decision::Gone => return Err(Stop::Again(None)),
            // Invariant 2: our node was in the listing of this epoch, and the lease lasts now.
            Decision::Admitted => match epoch.lease.term(request.loss_policy, Moment::now()) {
                Some(term) => return Ok(term),
                None => prove_session(contender, epoch).await?,
            },
            Decision::WaitFor { .. } if request.only_if_free => return Err(Stop::Busy),
            Decision::WaitFor { predecessor, head } => {
                contender.queued.send_replace(true);
                if !warned && epoch.is_holder(&request.path.child(head.as_str()), contender.asker) {
                    warned = true;
                    tracing::warn!(
                        path = %request.path,
                        "waits for a lock that this very task holds: see `MutexGuard::reenter` and `Owner`"
                    );
                }
                tracing::debug!(%predecessor, "waits");
                let own = own.get_or_insert_with(|| {
                    Box::pin(own_node_gone(session.clone(), epoch.clone(), entered.node.clone()))
                });
                let before = request.path.child(predecessor.as_str());
                let change = next_event(session, epoch, &before, LOOK, &request.retry);
                tokio::select! {
                    biased;
                    gone = own => return Err(match gone {
                        Ok(()) => Stop::Again(None),
                        Err(failure) => stop(contender, &entered.node, "read", failure),
                    }),
                    event = change => {
                        event.map_err(|failure| stop(contender, &before, "read", failure))?;
                    }
                }
            }
        }
    }
}

async fn list(contender: &Contender, epoch: &Epoch) -> Result<Vec<String>, Stop> {
    let path = contender.request.path.as_str();
    let list = || async { epoch.client()?.list(path).await };
    match contender.session.retried(&contender.request.retry, list).await {
        Ok(children) => Ok(children),
        // Nobody is left in the queue, and so are we not.
        Err(Failure::NoNode) => Err(Stop::Again(None)),
        Err(failure) => Err(stop(contender, path, "list", failure)),
    }
}

/// The lease ended while we waited, and our place is still there: the session may live. Asks the
/// leader; then the queue is listed again.
async fn prove_session(contender: &Contender, epoch: &Epoch) -> Result<(), Stop> {
    let probe = || epoch.probe();
    let proven = contender.session.retried(&contender.request.retry, probe).await;
    proven.map_err(|failure| stop(contender, contender.request.path.as_str(), "sync", failure))?;
    if epoch.lease.end().is_none() {
        // Answered, but the anchor is too old: it takes another answer, a quarter of the timeout later.
        contender.session.pause(epoch.timeout() / 16).await;
    }
    Ok(())
}

fn stop(contender: &Contender, path: &str, operation: &'static str, failure: Failure) -> Stop {
    match failure {
        Failure::Refused(error) => Stop::Failed(refusal(path, operation, error)),
        Failure::SessionOver(cause) => Stop::Again(Some(cause)),
        failure => Stop::Failed(AcquireError::RetriesExhausted {
            path: contender.request.path.to_string(),
            source: failure.into_source(),
        }),
    }
}

/// Resolves when the node is gone; `Err` when the server does not let us read it.
pub(super) async fn own_node_gone(
    session: Arc<Session>,
    epoch: Arc<Epoch>,
    node: String,
) -> Result<(), Failure> {
    let policy = RetryPolicy::forever(LOOK);
    loop {
        match next_event(&session, &epoch, &node, LOOK_FOR_OWN, &policy).await {
            Ok(NodeEvent::Deleted) => return Ok(()),
            Ok(NodeEvent::Changed) => {}
            // Whoever waits for this waits for the end of the epoch as well.
            Ok(NodeEvent::SessionOver) | Err(Failure::SessionOver(_)) => {
                return std::future::pending().await;
            }
            Err(refused) => return Err(refused),
        }
    }
}

/// The next thing that happens to a node; at once if it is not there.
async fn next_event(
    session: &Session,
    epoch: &Epoch,
    node: &str,
    look: Duration,
    policy: &RetryPolicy,
) -> Result<NodeEvent, Failure> {
    let room = epoch.room_to_watch(node);
    tokio::pin!(room);
    let _room = loop {
        tokio::select! {
            biased;
            room = &mut room => break room,
            () = sleep(look) => match epoch.client()?.exists(node).await {
                Ok(true) => {}
                Ok(false) | Err(Failure::NoNode) => return Ok(NodeEvent::Deleted),
                // Looks again, whatever the policy: nothing was tried but to look.
                Err(Failure::Unknown(_) | Failure::NotNow(_)) => {}
                Err(failure) => return Err(failure),
            }
        }
    };
    let watch = || async { epoch.client()?.watch(node).await };
    match session.retried(policy, watch).await {
        Ok(watch) => Ok(watch.changed().await),
        Err(Failure::NoNode) => Ok(NodeEvent::Deleted),
        Err(failure) => Err(failure),
    }
}
