//! Waiting in the queue for somebody else's contender.
//!
//! A contender watches its own node, and its immediate predecessor: so a release wakes one (invariant 6), and
//! when somebody deletes its node, it does not wait for ever. An event is a hint, and the next listing decides; but
//! for the head and the stand-by rule, see [`watches`](super::watches). Where the predecessor is one of ours, it
//! is waited for [elsewhere](super::line).

use std::sync::Arc;

use tokio::sync::oneshot;

use super::enter::{Known, check_sequence};
use super::line::{Line, Verdict};
use super::lines::Lines;
use super::local::{Spot, Turn};
use super::watches::{Ahead, Event, Watches};
use super::{Contender, Stop, refusal};
use crate::client::{Failure, Listing};
use crate::error::AcquireError;
use crate::session::clock::Moment;
use crate::session::epoch::Epoch;
use crate::session::lease::Term;

/// How a wait ends well.
#[derive(Debug)]
pub(super) enum Waited {
    /// With the lease lasting at that instant.
    Admitted(Arc<Term>),
    /// The predecessor is one of ours: it is waited for elsewhere.
    Behind(oneshot::Receiver<Turn>),
}

/// Waits until the contender is admitted, or one of ours is before it.
pub(super) async fn wait(
    contender: &Contender,
    lines: &Arc<Lines>,
    line: &Arc<Line>,
    spot: &Arc<Spot>,
    known: Known,
    watches: &mut Watches,
) -> Result<Waited, Stop> {
    let Contender { request, .. } = contender;
    let epoch = &lines.epoch;
    check_sequence(contender, spot)?;
    let mut verdict = first(contender, epoch, line, spot, known).await?;
    let mut waits = false;
    loop {
        verdict = match verdict {
            Verdict::Gone => {
                // It did not leave by itself: whoever is behind it has to list.
                line.doubt(spot);
                return Err(Stop::Again(None));
            }
            // Invariant 2: our node was seen in this epoch, and the lease lasts now.
            Verdict::First => match epoch.lease.term(request.loss_policy, Moment::now()) {
                Some(term) => return Ok(Waited::Admitted(term)),
                None => {
                    contender.beside_lasts()?;
                    prove_session(contender, epoch).await?;
                    relist(contender, epoch, line, spot).await?
                }
            },
            Verdict::Mixed(child) => return Err(contender.mixed(child)),
            // Leases are waited for elsewhere.
            Verdict::Among(_) => return Err(Stop::Again(None)),
            Verdict::Behind(_) | Verdict::WaitFor { .. } if request.only_if_free => {
                return Err(Stop::Busy);
            }
            Verdict::Behind(turn) => {
                contender.note_wait(line, &mut waits);
                return Ok(Waited::Behind(turn));
            }
            Verdict::WaitFor { predecessor, stand_by, predecessor_is_head } => {
                contender.note_wait(line, &mut waits);
                line.looks_out(spot);
                tracing::debug!(%predecessor, "waits");
                let rules = line.rules;
                let stand_by = stand_by.filter(|_| rules.stand_by && !predecessor_is_head);
                let ahead = Ahead {
                    predecessor: request.path.child(predecessor.as_str()),
                    stand_by: stand_by.map(|name| request.path.child(name.as_str())),
                    head: rules.head
                        && predecessor_is_head
                        && (line.family.is_exclusive() || spot.shared),
                };
                match watches.event(contender, epoch, spot, &ahead).await? {
                    Event::Gone => Verdict::Gone,
                    Event::Admitted if watches.is_own_there().await => line.admitted(spot),
                    // If our own node kept it from being admitted, the listing says whether that is there.
                    Event::Admitted | Event::Look => relist(contender, epoch, line, spot).await?,
                }
            }
        }
    }
}

async fn first(
    contender: &Contender,
    epoch: &Epoch,
    line: &Line,
    spot: &Spot,
    known: Known,
) -> Result<Verdict, Stop> {
    Ok(match known {
        Known::Verdict(verdict) => verdict,
        // The lister goes when its listing is judged.
        Known::Listing(listing, _lister) => line.judge_entering(spot, listing),
        // Only who enters looks for another recipe's.
        Known::Place => relist(contender, epoch, line, spot).await?,
        Known::Nothing => {
            let listing = list(contender, epoch, false).await?;
            listing.map_or(Verdict::Gone, |listing| line.judge_entering(spot, listing))
        }
    })
}

async fn relist(
    contender: &Contender,
    epoch: &Epoch,
    line: &Line,
    spot: &Spot,
) -> Result<Verdict, Stop> {
    // Where nobody is left in the queue, we are not either.
    let listing = list(contender, epoch, false).await?;
    Ok(listing.map_or(Verdict::Gone, |listing| line.judge(spot, listing)))
}

/// `None` if the path is not there. `caught_up`: as the leader has it, not only this server.
pub(super) async fn list(
    contender: &Contender,
    epoch: &Epoch,
    caught_up: bool,
) -> Result<Option<Listing>, Stop> {
    let path = contender.request.path.as_str();
    let list = || async {
        let client = epoch.client()?;
        if !caught_up {
            return client.list(path).await;
        }
        epoch.caught_up(&client, |client| client.list(path)).await
    };
    match contender.session().retried(&contender.request.retry, list).await {
        Ok(listing) => Ok(Some(listing)),
        Err(Failure::NoNode) => Ok(None),
        Err(failure) => Err(stop(contender, path, "list", failure)),
    }
}

/// No term can begin, and our place is still there: the session may live. Asks the leader, and waits for a lease that
/// lasts; then the queue is listed again. The supervisor probes while we wait.
pub(super) async fn prove_session(contender: &Contender, epoch: &Epoch) -> Result<(), Stop> {
    let mut renewals = epoch.lease.renewals();
    let probe = || epoch.probe();
    let proven = contender.session().retried(&contender.request.retry, probe).await;
    proven.map_err(|failure| stop(contender, contender.request.path.as_str(), "sync", failure))?;
    // Answered, but the anchor may be too old: it takes another answer, a quarter of the timeout later.
    while epoch.lease.term(contender.request.loss_policy, Moment::now()).is_none() {
        // The sender lives in the epoch. Whoever runs this ends it with the epoch.
        let _ = renewals.changed().await;
    }
    Ok(())
}

pub(super) fn stop(
    contender: &Contender,
    path: &str,
    operation: &'static str,
    failure: Failure,
) -> Stop {
    match failure {
        Failure::Refused(error) => Stop::Failed(refusal(path, operation, error)),
        Failure::SessionOver(cause) => Stop::Again(Some(cause)),
        failure => Stop::Failed(AcquireError::RetriesExhausted {
            path: contender.request.path.to_string(),
            source: failure.into_source(),
        }),
    }
}
