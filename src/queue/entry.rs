//! *The* algorithm: reserve, create, decide, wait, admit. One task of the session's runs it for each node.
//!
//! 1. *Reserve* room for the node's path in the session.
//! 2. *Create* the protected ephemeral sequential node. The event that opened the entry has sent the first create already.
//! 3. *Decide* by the listing that was sent behind it, or the gap rule: gone, first, or behind a predecessor.
//! 4. *Wait* for the next thing that happens to the own node, the predecessor or the one before that. The head rule admits
//!    by the predecessor's deletion; otherwise list, and decide again.
//! 5. *Admit*: begin the hold of the first caller, if the session lease lasts. If it does not, prove the session, and list
//!    again.
//!
//! An event is a hint, and the next listing decides; but for the head and the stand-by rule, see [`wait`](super::wait). A
//! contender watches its own node, and its immediate predecessor: so a release wakes one (invariant 6), and when another
//! client deletes its node, it does not wait for ever.

use std::sync::Arc;

use tracing::Instrument;
use tracing::field::{Empty, display};

use super::create::{Creating, Placement, create_node};
use super::driver::{First, NotAdmitted, QueueDriver, SharedWatch};
use super::local_queue::Sole;
use super::node::OwnedNode;
use super::path_nodes::Position;
use super::request::{EntryAborted, Request};
use super::session_nodes::SessionNodes;
use super::wait::{Event, Predecessors, Watches};
use crate::client::{Failure, Listing};
use crate::clock::Moment;
use crate::error::Error;
use crate::lock::Mutex;
use crate::metrics::{self, Operation};
use crate::session::NoSession;
use crate::session::Session;

/// What an entry begins with.
pub(super) enum Source {
    /// A create, that may have been sent.
    New(Option<Creating>),
    /// The node of a hold that was lost.
    Requeued(OwnedNode),
}

/// Starts the task.
pub(super) fn spawn(queue: &Arc<QueueDriver>, source: Source) {
    let path = queue.first().map(|(request, _)| request.path.to_string()).unwrap_or_default();
    let span = tracing::info_span!("acquire", path, contender = Empty, session = Empty);
    let entry = Entry(Some(queue.clone()));
    queue.connection().spawn(entry.run(source).instrument(span));
}

/// An entry, until it is over. One that ends with its runtime leaves no caller waiting.
struct Entry(Option<Arc<QueueDriver>>);

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some(queue) = self.0.take() {
            queue.session_over(&Error::closed());
            queue.attempt_ended();
        }
    }
}

impl Entry {
    /// As many attempts, in as many sessions, as it takes and the callers' policies allow.
    async fn run(mut self, source: Source) {
        let Some(queue) = self.0.clone() else { return };
        let mut source = source;
        loop {
            let mut attempt = Attempt::default();
            let Err(stop) = attempt.run(&queue, source).await else { break };
            match stop {
                EntryAborted::Abandoned | EntryAborted::Busy => {}
                EntryAborted::Failed(error) => {
                    if let Some(request) = attempt.request {
                        queue.fail(&request, &error);
                    }
                }
                EntryAborted::Retry(cause) => {
                    // It was in the queue for so long that this is a new trouble, not more of the old one.
                    let well = queue.connection().settings.session_timeout;
                    let anew = attempt.since.is_some_and(|since| since.elapsed() > well);
                    tracing::debug!(?cause, "enters again");
                    if let Some(pause) = queue.another_try(cause, anew).await {
                        metrics::retried(Operation::ENTER);
                        let paused = async {
                            queue.connection().pause(pause).await;
                            Ok(())
                        };
                        let _: Result<(), EntryAborted> = queue.unless_stopped(paused).await;
                    }
                }
            }
            if queue.attempt_ended() {
                break;
            }
            source = Source::New(None);
        }
        self.0 = None;
    }
}

/// One attempt in one session: for whom, and since when its node stands in the queue.
#[derive(Default)]
struct Attempt {
    request: Option<Arc<Request>>,
    since: Option<Moment>,
}

impl Attempt {
    /// Leaves nothing behind unless it succeeds.
    async fn run(&mut self, queue: &Arc<QueueDriver>, source: Source) -> Result<(), EntryAborted> {
        let nodes = match &source {
            Source::New(Some(sent)) => sent.nodes.clone(),
            Source::Requeued(node) => node.nodes.clone(),
            Source::New(None) => queue.unless_stopped(present_nodes(queue)).await?,
        };
        let session = nodes.session.clone();
        tokio::select! {
            biased;
            () = session.ended().cancelled() => Err(EntryAborted::Retry(None)),
            acquired = self.acquire(queue, &nodes, source) => acquired,
        }
    }

    /// The algorithm.
    async fn acquire(
        &mut self,
        queue: &Arc<QueueDriver>,
        nodes: &Arc<SessionNodes>,
        source: Source,
    ) -> Result<(), EntryAborted> {
        // Dropped after the node: what they would send must not go ahead of its delete.
        let mut watches = Watches::default();
        let (request, max_ticket) = match &source {
            Source::New(Some(sent)) => (sent.request.clone(), sent.max_ticket),
            Source::New(None) | Source::Requeued(_) => queue.first()?,
        };
        self.request = Some(request.clone());

        // Reserve and create. Not raced with the callers: the answer to a create says what is to be removed.
        let (mut node, known) = match source {
            Source::Requeued(node) => (node, None),
            Source::New(sent) => {
                let (node, known) = create_node(nodes, &request, &queue.nodes, sent).await?;
                (node, Some(known))
            }
        };
        self.since.get_or_insert_with(Moment::now);
        note_node(&node);

        // Decide.
        let Decided { mut position, mut sole, mut children } = match known {
            Some(known) => decide(queue, &node, &request, known).await?,
            // Only an entering contender looks for another recipe's.
            None => Decided::at(relist(queue, &node, &request).await?),
        };
        loop {
            position = match position {
                // Leases are waited for elsewhere.
                Position::Gone | Position::Among(_) => return Err(EntryAborted::Retry(None)),
                Position::Mixed(child) => return Err(EntryAborted::Failed(request.mixed(&child))),

                // Admit.
                Position::First => {
                    watches.hand_over(&node);
                    let first = First::new(node, sole, children);
                    let first = match queue.admit(first, &request, max_ticket) {
                        Ok(()) => return Ok(()),
                        Err(NotAdmitted::Abandoned) => return Err(EntryAborted::Abandoned),
                        Err(NotAdmitted::NoLease(first)) => first,
                    };
                    First { node, sole, children, .. } = first;
                    request.companion_lasts()?;
                    queue.unless_stopped(prove_session(&nodes.session, &request, queue)).await?;
                    relist(queue, &node, &request).await?
                }

                // Wait.
                Position::Behind { predecessor, stand_by, predecessor_is_head } => {
                    sole = Sole::No;
                    children = None;
                    queue.is_behind(|asker| node.path_nodes.is_held_by(asker));
                    tracing::debug!(%predecessor, "waits");
                    let ahead =
                        Predecessors::new(&node, &predecessor, stand_by, predecessor_is_head);
                    let waiting = watches.event(&node, &request, &ahead);
                    let name = node.node.name();
                    let span = tracing::info_span!("wait", path = %request.path, contender = name);
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
}

async fn present_nodes(queue: &QueueDriver) -> Result<Arc<SessionNodes>, EntryAborted> {
    queue.current_nodes.present_nodes().await.map_err(|none| match none {
        NoSession::NotConnected => EntryAborted::Retry(None),
        NoSession::Closed(error) => {
            queue.session_over(&error);
            EntryAborted::Abandoned
        }
    })
}

/// What is known of a node's place.
struct Decided {
    position: Position,
    sole: Sole,
    children: Option<SharedWatch>,
}

impl Decided {
    fn at(position: Position) -> Self {
        Self { position, sole: Sole::NotAsked, children: None }
    }
}

/// What the answers to a create say.
async fn decide(
    queue: &QueueDriver,
    node: &OwnedNode,
    request: &Request,
    known: Placement,
) -> Result<Decided, EntryAborted> {
    let entering = |listing: &Listing| node.path_nodes.judge_entering(&node.node, listing);
    Ok(match known {
        Placement::Position(position) => Decided::at(position),
        Placement::Listing(listing, watch) => {
            let asked = watch.is_some();
            let is_alone = node.path_nodes.is_alone(&node.node, &listing);
            let children = watch.filter(|_| is_alone).map(|watch| Arc::new(Mutex::new(watch)));
            let sole = match (asked, &children) {
                (false, _) => Sole::NotAsked,
                (true, Some(_)) => Sole::Yes,
                (true, None) => Sole::No,
            };
            Decided { position: entering(&listing), sole, children }
        }
        Placement::Nothing => {
            let listing = queue.unless_stopped(list(&node.nodes, request, false)).await?;
            Decided::at(listing.as_ref().map_or(Position::Gone, entering))
        }
    })
}

async fn relist(
    queue: &QueueDriver,
    node: &OwnedNode,
    request: &Request,
) -> Result<Position, EntryAborted> {
    // Where no contender is left in the queue, we are not either.
    let listing = queue.unless_stopped(list(&node.nodes, request, false)).await?;
    Ok(listing.map_or(Position::Gone, |listing| node.path_nodes.judge(&node.node, &listing)))
}

/// `None` if the path is not there. `caught_up`: as the leader has it, not only this server.
pub(super) async fn list(
    nodes: &SessionNodes,
    request: &Request,
    caught_up: bool,
) -> Result<Option<Listing>, EntryAborted> {
    let (path, session) = (request.path.as_str(), &nodes.session);
    let list = || async {
        let client = session.client()?;
        if !caught_up {
            return client.list(path).await;
        }
        session.caught_up(&client, |client| client.list(path)).await
    };
    match nodes.connection.retried(&request.retry, list).await {
        Ok(listing) => Ok(Some(listing)),
        Err(Failure::NoNode) => Ok(None),
        Err(failure) => Err(request.stop(path, "list", failure)),
    }
}

/// No term can begin, and our node is still there: the session may live. Asks the leader, and waits for a lease that
/// lasts; then the queue is listed again. The supervisor probes while we wait.
pub(super) async fn prove_session(
    session: &Session,
    request: &Request,
    queue: &QueueDriver,
) -> Result<(), EntryAborted> {
    let mut renewals = session.lease.renewals();
    let proven = queue.connection().retried(&request.retry, || session.probe()).await;
    proven.map_err(|failure| request.stop(request.path.as_str(), "sync", failure))?;
    // Answered, but the anchor may be too old: it takes another answer, a quarter of the timeout later.
    while session.lease.term(request.loss_policy, Moment::now()).is_none() {
        // The sender lives in the session. The caller ends this with the session.
        let _ = renewals.changed().await;
    }
    Ok(())
}

/// For readers of the trace.
fn note_node(node: &OwnedNode) {
    let session = node.nodes.session.session_id();
    tracing::Span::current()
        .record("contender", node.node.name())
        .record("session", display(format_args!("{session:#x}")));
}
