//! *The* algorithm: reserve, create, decide, wait, admit. One session task runs it for each node.
//!
//! 1. *Reserve* room for the node's path in the session.
//! 2. *Create* the protected ephemeral sequential node. The event that started the entry has sent the first create already.
//! 3. *Decide* by the listing that was sent behind the create, or by the gap rule: deleted, first, or behind a predecessor.
//! 4. *Wait* for the next event of the own node, the predecessor or the contender before that. The head rule admits by the
//!    predecessor's deletion; after any other event, list and decide again.
//! 5. *Admit*: begin the hold of the first waiter, if the session lease lasts. If it does not, prove the session, and list
//!    again.
//!
//! An event is a hint, and the next listing decides, except by the head and the stand-by rule (see [`wait`](super::wait)). A
//! contender watches its own node and its immediate predecessor: so a release wakes one contender (invariant 6), and a
//! contender whose node another client deletes does not wait for ever.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tracing::Instrument;
use tracing::field::{Empty, display};

use super::create::{Creating, Placement, create_node};
use super::driver::{First, NotAdmitted, QueueDriver};
use super::local_queue::Sole;
use super::node::OwnedNode;
use super::request::{EntryAborted, Request};
use super::retries::{Callers, Retries};
use super::rules::admission::Position;
use super::session_nodes::SessionNodes;
use super::wait::{Event, Watches};
use crate::client::{Failure, Listing};
use crate::clock::BootInstant;
use crate::metrics::{self, Operation};
use crate::session::Session;
use crate::sync::Mutex;

/// The longest time that a try waits for another process to give up a node that it only keeps. A process that takes longer is as
/// good as a holder.
pub(super) const LONGEST_REACTION: Duration = Duration::from_secs(1);

/// The node with which an entry begins.
pub(super) enum Source {
    /// A new node, whose create may have been sent already.
    New(Option<Creating>),
    /// The node of a hold that was lost.
    Requeued(OwnedNode),
}

/// Starts the task of an entry.
pub(super) fn spawn(queue: &Arc<QueueDriver>, source: Source) {
    let path = queue.first().map(|request| request.path.to_string()).unwrap_or_default();
    let span = tracing::info_span!("acquire", path, contender = Empty, session = Empty);
    let entry = Entry(Some(queue.clone()));
    queue.connection().spawn(entry.run(source).instrument(span));
}

/// Guard for an entry in progress: if the runtime shuts down, dropping it fails all waiters.
struct Entry(Option<Arc<QueueDriver>>);

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some(queue) = self.0.take() {
            queue.entry_dropped();
        }
    }
}

impl Entry {
    /// Makes attempts, in one session after another, until a hold begins or no caller waits.
    async fn run(mut self, mut source: Source) {
        let Some(queue) = self.0.clone() else { return };
        let mut retries = Retries::start();
        loop {
            let mut attempt = Attempt::default();
            let Err(aborted) = attempt.run(&queue, source).await else { break };
            let pause = match aborted {
                EntryAborted::Abandoned => None,
                EntryAborted::Failed(error) => {
                    if let Some(request) = attempt.request {
                        queue.fail(&request, &error);
                    }
                    None
                }
                EntryAborted::Retry(cause) => {
                    tracing::debug!(?cause, "enters again");
                    // If the node was queued for longer than a session timeout, the attempt had worked: the retries start afresh.
                    let reset_after = queue.connection().settings.session_timeout;
                    if attempt.since.is_some_and(|since| since.elapsed() > reset_after) {
                        retries = Retries::start();
                    }
                    queue.next_pause(&mut retries, cause).await.ok()
                }
            };
            if queue.attempt_ended() {
                break;
            }
            if let Some(pause) = pause {
                metrics::retried(Operation::ENTER);
                let paused = async {
                    queue.connection().pause_unless_ended(pause).await;
                    Ok(())
                };
                let _ = queue.unless_stopped(paused).await;
            }
            source = Source::New(None);
        }
        self.0 = None;
    }
}

/// One attempt in one session.
#[derive(Default)]
struct Attempt {
    /// The request for which the node is created.
    request: Option<Arc<Request>>,
    /// When the node entered the queue.
    since: Option<BootInstant>,
}

impl Attempt {
    /// Makes the attempt. Leaves nothing behind unless it succeeds.
    async fn run(&mut self, queue: &Arc<QueueDriver>, source: Source) -> Result<(), EntryAborted> {
        let nodes = match &source {
            Source::New(Some(sent)) => sent.nodes.clone(),
            Source::Requeued(node) => node.nodes.clone(),
            Source::New(None) => {
                let request = queue.begin_attempt()?;
                self.request = Some(request.clone());
                queue.unless_stopped(queue.current_nodes.wait(&request)).await?
            }
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
        // The watches are dropped after the node: what they send must not be sent ahead of its delete.
        let mut watches = Watches::default();
        let request = match &source {
            Source::New(Some(sent)) => sent.request.clone(),
            Source::New(None) | Source::Requeued(_) => queue.begin_attempt()?,
        };
        self.request = Some(request.clone());

        let began = BootInstant::now();
        // Reserve and create. This does not stop when the callers leave: the answer to a create says what has to be deleted.
        let (mut node, placement) = match source {
            Source::Requeued(node) => (node, None),
            Source::New(sent) => {
                let callers = Callers::Waiting(queue);
                let created = create_node(nodes, &request, &queue.nodes, callers, sent);
                let (node, placement) = created.await?;
                (node, Some(placement))
            }
        };
        self.since.get_or_insert_with(BootInstant::now);
        let reaction = LONGEST_REACTION.min(2 * began.elapsed());
        record_node(&node);

        // Decide.
        let mut sole = Sole::NotAsked;
        let mut children = None;
        let mut position = match placement {
            Some(Placement::Position(position)) => position,
            Some(Placement::Listing(listing, watch)) => {
                if let Some(watch) = watch {
                    let is_sole = node.path_nodes.is_sole(&node.znode, &listing);
                    sole = if is_sole { Sole::Yes } else { Sole::No };
                    children = is_sole.then(|| Arc::new(Mutex::new(watch)));
                }
                judge_entering(&node, &request, &listing)?
            }
            Some(Placement::Unknown) => match list_again(queue, &node, &request).await? {
                Some(listing) => judge_entering(&node, &request, &listing)?,
                None => Position::Gone,
            },
            None => relist(queue, &node, &request).await?,
        };
        let mut lists_again = true;
        loop {
            position = match position {
                // A try must not be busy by a node of its own process that only leaves.
                Position::Behind(_) if lists_again && queue.has_tries() => {
                    lists_again = false;
                    let leaving = &node.path_nodes.leaving;
                    let gone = async {
                        leaving.until_all_gone().await;
                        Ok(())
                    };
                    queue.unless_stopped(gone).await?;
                    relist(queue, &node, &request).await?
                }

                // Another client deleted our node: enter again. (A family of permits never comes here.)
                Position::Gone | Position::Among(_) => return Err(EntryAborted::Retry(None)),

                // Admit.
                Position::First => {
                    watches.hand_over(&node);
                    let first = First::new(node, children);
                    let first = match queue.admit(first, sole) {
                        Ok(()) => return Ok(()),
                        Err(NotAdmitted::Abandoned(first)) => {
                            drop(first);
                            return Err(EntryAborted::Abandoned);
                        }
                        Err(NotAdmitted::NoLease(first)) => first,
                    };
                    First { node, children, .. } = first;
                    request.check_companion()?;
                    let callers = Callers::Waiting(queue);
                    queue.unless_stopped(prove_session(&nodes.session, &request, callers)).await?;
                    relist(queue, &node, &request).await?
                }

                // Wait.
                Position::Behind(ahead) => {
                    // This saves the listing by which the queue would ask again. For readers the writer ahead says nothing of
                    // writers behind them.
                    sole = if node.znode.shared { Sole::NotAsked } else { Sole::No };
                    children = None;
                    let report = || {
                        queue.report_behind(|requester| node.path_nodes.is_held_by(requester));
                    };
                    let is_patient = queue.has_tries() && ahead.may_be_kept;
                    let patience = is_patient.then_some(reaction);
                    tracing::debug!(predecessor = %ahead.predecessor, "waits");
                    let event = watches.event(queue, &node, &request, &ahead);
                    let waiting = report_after(patience, report, event);
                    let name = node.znode.name();
                    let span = tracing::info_span!("wait", path = %request.path, contender = name);
                    match queue.unless_stopped(Box::pin(waiting.instrument(span))).await? {
                        Event::Gone => Position::Gone,
                        Event::Admitted if watches.is_own_there().await => Position::First,
                        // Our own watch has fired after all: list, to see whether our node still exists.
                        Event::Admitted | Event::List => relist(queue, &node, &request).await?,
                    }
                }
            }
        }
    }
}

/// Awaits `event`, and reports that the node is behind another one: at once, or if the event has not come after `patience`.
async fn report_after<T>(
    patience: Option<Duration>,
    report: impl Fn(),
    event: impl Future<Output = T>,
) -> T {
    let mut event = pin!(event);
    if let Some(patience) = patience {
        tokio::select! {
            biased;
            event = event.as_mut() => return event,
            () = sleep(patience) => {}
        }
    }
    report();
    event.await
}

/// Judges the first listing behind a create.
fn judge_entering(
    node: &OwnedNode,
    request: &Request,
    listing: &Listing,
) -> Result<Position, EntryAborted> {
    node.path_nodes.warn_of_semaphore(listing);
    request.check_unmixed(listing)?;
    Ok(node.path_nodes.judge(&node.znode, listing))
}

async fn relist(
    queue: &QueueDriver,
    node: &OwnedNode,
    request: &Request,
) -> Result<Position, EntryAborted> {
    let listing = list_again(queue, node, request).await?;
    // Without the path there is no contender, and ours is deleted too.
    Ok(listing.map_or(Position::Gone, |listing| node.path_nodes.judge(&node.znode, &listing)))
}

/// Lists the contenders behind the create of `node`, while callers wait.
async fn list_again(
    queue: &QueueDriver,
    node: &OwnedNode,
    request: &Request,
) -> Result<Option<Listing>, EntryAborted> {
    let listing = list(&node.nodes, request, Callers::Waiting(queue), false);
    queue.unless_stopped(listing).await
}

/// Lists the contenders; `None` if the path does not exist. `caught_up`: the server catches up with the leader first.
pub(super) async fn list(
    nodes: &SessionNodes,
    request: &Request,
    callers: Callers<'_>,
    caught_up: bool,
) -> Result<Option<Listing>, EntryAborted> {
    let path = request.path.as_str();
    let session = &nodes.session;
    let list = || async {
        let client = session.client()?;
        if !caught_up {
            return client.list(path).await;
        }
        session.read_after_sync(&client, |client| client.list(path)).await
    };
    match callers.retried(list).await? {
        Ok(listing) => Ok(Some(listing)),
        Err(Failure::NoNode) => Ok(None),
        Err(failure) => Err(request.aborted(path, "list", failure)),
    }
}

/// Asks the leader whether the session lives, and waits for a lease in which a hold can begin. The supervisor probes during the
/// wait. The caller lists again afterwards.
pub(super) async fn prove_session(
    session: &Session,
    request: &Request,
    callers: Callers<'_>,
) -> Result<(), EntryAborted> {
    let mut renewals = session.lease.renewals();
    let proven = callers.retried(|| session.probe()).await?;
    proven.map_err(|failure| request.aborted(request.path.as_str(), "sync", failure))?;
    // The anchor of this answer may be too old: another answer is needed, a quarter of the timeout later.
    while session.lease.term(request.waiter.term, BootInstant::now()).is_none() {
        // The session owns the sender. The caller stops this at the end of the session.
        let _ = renewals.changed().await;
    }
    Ok(())
}

/// Records the node in the span.
fn record_node(node: &OwnedNode) {
    let session = node.nodes.session.session_id();
    tracing::Span::current()
        .record("contender", node.znode.name())
        .record("session", display(format_args!("{session:#x}")));
}
