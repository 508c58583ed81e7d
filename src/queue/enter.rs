//! Taking the seat: *the* algorithm. One task of the session's runs it for each node.
//!
//! 1. *Reserve* room for the node's path in the session.
//! 2. *Create* the protected ephemeral sequential node. The task that opened the seat has sent the first create already.
//! 3. *Decide* by the listing that was sent behind it, or the gap rule: gone, first, or behind a predecessor.
//! 4. *Wait* for the next thing that happens to the own node, the predecessor or the one before that. The head rule admits
//!    by the predecessor's deletion; otherwise list, and decide again.
//! 5. *Begin the hold* of the first waiter, if the session lease lasts. If it does not, prove the session, and list
//!    again.
//!
//! An event is a hint, and the next listing decides; but for the head and the stand-by rule, see [`wait`](super::wait). A
//! contender watches its own node, and its immediate predecessor: so a release wakes one (invariant 6), and when another
//! client deletes its node, it does not wait for ever.

use std::sync::Arc;

use tracing::Instrument;
use tracing::field::{Empty, display};

use super::create::{Known, create_node};
use super::epoch_nodes::EpochNodes;
use super::local_queue::{Admitted, Alone, LocalQueue, NotAdmitted, Start};
use super::node::OwnedNode;
use super::request::{Request, Stop};
use super::siblings::Position;
use super::wait::{Ahead, Event, Watches};
use crate::client::{Failure, Listing};
use crate::clock::Moment;
use crate::error::Error;
use crate::metrics::{self, Operation};
use crate::session::NoEpoch;
use crate::session::epoch::Epoch;

/// Starts the task.
pub(super) fn start(queue: Arc<LocalQueue>, start: Start) {
    let path = queue.first().map(|(request, _)| request.path.to_string()).unwrap_or_default();
    let span = tracing::info_span!("acquire", path, contender = Empty, session = Empty);
    let session = queue.session().clone();
    session.spawn(enter(Entry(Some(queue)), start).instrument(span));
}

/// A seat that is being taken, until it is. One that ends with its runtime leaves no task waiting.
struct Entry(Option<Arc<LocalQueue>>);

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some(queue) = self.0.take() {
            queue.session_over(&Error::closed());
            queue.is_done();
        }
    }
}

/// Takes the seat, in as many epochs and tries as that takes and the waiters' policies allow.
async fn enter(mut entry: Entry, start: Start) {
    let Some(queue) = entry.0.clone() else { return };
    let mut start = start;
    loop {
        let mut tried = Tried::default();
        let stop = match once(&queue, start, &mut tried).await {
            Ok(()) => {
                entry.0 = None;
                return;
            }
            Err(stop) => stop,
        };
        start = Start::Create(None);
        match stop {
            Stop::Abandoned | Stop::Busy => {}
            Stop::Failed(error) => {
                if let Some(request) = tried.request {
                    queue.fail(&request, &error);
                }
            }
            Stop::Again(cause) => {
                // It was in the queue for so long that this is a new trouble, not more of the old one.
                let well = queue.session().settings.session_timeout;
                let anew = tried.since.is_some_and(|since: Moment| since.elapsed() > well);
                tracing::debug!(?cause, "enters again");
                if let Some(pause) = queue.another_try(cause, anew).await {
                    metrics::retried(Operation::ENTER);
                    let paused = async {
                        queue.session().pause(pause).await;
                        Ok(())
                    };
                    let _: Result<(), Stop> = queue.unless_stopped(paused).await;
                }
            }
        }
        if queue.is_done() {
            entry.0 = None;
            return;
        }
    }
}

/// What a try was for, and since when its node stood in the queue.
#[derive(Default)]
struct Tried {
    request: Option<Arc<Request>>,
    since: Option<Moment>,
}

/// One try in one epoch. Leaves nothing behind unless it succeeds.
async fn once(queue: &Arc<LocalQueue>, start: Start, tried: &mut Tried) -> Result<(), Stop> {
    let nodes = match &start {
        Start::Create(Some(sent)) => sent.nodes.clone(),
        Start::Again(node) => node.nodes.clone(),
        Start::Create(None) => epoch_nodes(queue).await?,
    };
    let epoch = nodes.epoch.clone();
    tokio::select! {
        biased;
        () = epoch.over().cancelled() => Err(Stop::Again(None)),
        taken = take_seat(queue, &nodes, start, tried) => taken,
    }
}

async fn epoch_nodes(queue: &LocalQueue) -> Result<Arc<EpochNodes>, Stop> {
    let nodes = async {
        queue.epochs.present_nodes().await.map_err(|none| match none {
            NoEpoch::NotNow => Stop::Again(None),
            NoEpoch::Over(error) => {
                queue.session_over(&error);
                Stop::Abandoned
            }
        })
    };
    queue.unless_stopped(nodes).await
}

/// The algorithm.
async fn take_seat(
    queue: &Arc<LocalQueue>,
    nodes: &Arc<EpochNodes>,
    start: Start,
    tried: &mut Tried,
) -> Result<(), Stop> {
    // Dropped after the node: what they would send must not go ahead of its delete.
    let mut watches = Watches::default();
    let (request, serves) = match &start {
        Start::Create(Some(sent)) => (sent.request.clone(), sent.serves),
        _ => queue.first()?,
    };
    tried.request = Some(request.clone());
    let (mut node, known) = match start {
        Start::Again(node) => (node, None),
        Start::Create(sent) => {
            // Not raced with the waiters: the answer to a create says what is to be removed.
            let (node, known) = create_node(nodes, &request, &queue.nodes, sent).await?;
            (node, Some(known))
        }
    };
    tried.since.get_or_insert_with(Moment::now);
    note_node(&node);
    let (mut position, mut alone) = match known {
        Some(known) => decide(queue, &node, &request, known).await?,
        // Only an entering contender looks for another recipe's.
        None => (relist(queue, &node, &request).await?, Alone::NotAsked),
    };
    loop {
        position = match position {
            // Leases are waited for elsewhere.
            Position::Gone | Position::Among(_) => return Err(Stop::Again(None)),
            Position::Mixed(child) => return Err(Stop::Failed(request.mixed(&child))),
            Position::First => {
                watches.hand_over(&node);
                match queue.admit(Admitted { node, request: request.clone(), alone, serves }) {
                    Ok(()) => return Ok(()),
                    Err(NotAdmitted::Stop(stop)) => return Err(stop),
                    Err(NotAdmitted::NoLease(admitted)) => {
                        (node, alone) = (admitted.node, admitted.alone)
                    }
                }
                request.beside_lasts()?;
                queue.unless_stopped(prove_session(&nodes.epoch, &request, queue)).await?;
                relist(queue, &node, &request).await?
            }
            Position::Behind { predecessor, stand_by, predecessor_is_head } => {
                alone = Alone::Over;
                queue.is_behind(|asker| node.siblings.is_held_by(asker));
                tracing::debug!(%predecessor, "waits");
                let ahead = Ahead::new(&node, &predecessor, stand_by, predecessor_is_head);
                let waiting = watches.event(&node, &request, &ahead);
                let span =
                    tracing::info_span!("wait", path = %request.path, contender = node.node.name());
                match queue.unless_stopped(Box::pin(waiting.instrument(span))).await? {
                    Event::Gone => Position::Gone,
                    Event::Admitted if watches.is_own_there().await => Position::First,
                    // If our own node kept it from being admitted, the listing says whether that is there.
                    Event::Admitted | Event::Look => relist(queue, &node, &request).await?,
                }
            }
        }
    }
}

/// What the answers to a create say.
async fn decide(
    queue: &LocalQueue,
    node: &OwnedNode,
    request: &Request,
    known: Known,
) -> Result<(Position, Alone), Stop> {
    let entering = |listing: &Listing| node.siblings.judge_entering(&node.node, listing);
    Ok(match known {
        Known::Position(position) => (position, Alone::NotAsked),
        Known::Listing(listing, watch) => {
            let is_alone = node.siblings.is_alone(&node.node, &listing);
            let alone = match watch {
                Some(watch) if is_alone => Alone::of(watch),
                Some(_) => Alone::Over,
                None => Alone::NotAsked,
            };
            (entering(&listing), alone)
        }
        Known::Nothing => {
            let listing = queue.unless_stopped(list(&node.nodes, request, false)).await?;
            (listing.as_ref().map_or(Position::Gone, entering), Alone::NotAsked)
        }
    })
}

async fn relist(queue: &LocalQueue, node: &OwnedNode, request: &Request) -> Result<Position, Stop> {
    // Where no contender is left in the queue, we are not either.
    let listing = queue.unless_stopped(list(&node.nodes, request, false)).await?;
    Ok(listing.map_or(Position::Gone, |listing| node.siblings.judge(&node.node, &listing)))
}

/// `None` if the path is not there. `caught_up`: as the leader has it, not only this server.
pub(super) async fn list(
    nodes: &EpochNodes,
    request: &Request,
    caught_up: bool,
) -> Result<Option<Listing>, Stop> {
    let (path, epoch) = (request.path.as_str(), &nodes.epoch);
    let list = || async {
        let client = epoch.client()?;
        if !caught_up {
            return client.list(path).await;
        }
        epoch.caught_up(&client, |client| client.list(path)).await
    };
    match nodes.session.retried(&request.retry, list).await {
        Ok(listing) => Ok(Some(listing)),
        Err(Failure::NoNode) => Ok(None),
        Err(failure) => Err(request.stop(path, "list", failure)),
    }
}

/// No term can begin, and our node is still there: the session may live. Asks the leader, and waits for a lease that
/// lasts; then the queue is listed again. The supervisor probes while we wait.
pub(super) async fn prove_session(
    epoch: &Epoch,
    request: &Request,
    queue: &LocalQueue,
) -> Result<(), Stop> {
    let mut renewals = epoch.lease.renewals();
    let proven = queue.session().retried(&request.retry, || epoch.probe()).await;
    proven.map_err(|failure| request.stop(request.path.as_str(), "sync", failure))?;
    // Answered, but the anchor may be too old: it takes another answer, a quarter of the timeout later.
    while epoch.lease.term(request.loss_policy, Moment::now()).is_none() {
        // The sender lives in the epoch. The caller ends this with the epoch.
        let _ = renewals.changed().await;
    }
    Ok(())
}

/// For readers of the trace.
fn note_node(node: &OwnedNode) {
    let session = node.nodes.epoch.session_id();
    tracing::Span::current()
        .record("contender", node.node.name())
        .record("session", display(format_args!("{session:#x}")));
}
