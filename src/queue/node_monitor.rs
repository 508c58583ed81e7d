//! The node monitor: one task for each session, which notices that another client deleted the znode of a hold, and deletes all
//! znodes when the session ends or is left to others.
//!
//! Let `T` be the session timeout. The monitor sets a watch on a znode that has been first for `T/12`, and does so within `T/6`:
//! a short hold costs no read, and a deletion is seen by then. A waiter hands the watch on its own znode over when its hold
//! begins, which needs no request. The monitor uses at most half of the session's room for watches, since waiters need some too.
//! Znodes beyond that, and znodes that we may not read, are [polled](NodePoller): [`BATCH`] of them each `T/12`, so of `n` znodes
//! each is polled every `n / BATCH * T/12`.

use std::collections::VecDeque;
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{MissedTickBehavior, interval};

use super::hold::End;
use super::node::Znode;
use super::path_nodes::PathNodes;
use super::session_nodes::SessionNodes;
use crate::client::{Failure, NodeEvent, NodeWatch, WatchPermit};
use crate::clock::BootInstant;
use crate::error::Loss;
use crate::session::Session;

/// The shortest pause between two rounds.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);

/// A znode of a hold.
#[derive(Clone, Debug)]
pub(super) struct Monitored {
    pub(super) znode: Arc<Znode>,
    pub(super) path_nodes: Arc<PathNodes>,
}

/// A znode, with a watch that its waiter had.
pub(super) struct Watched {
    pub(super) node: Monitored,
    pub(super) watch: NodeWatch,
    pub(super) room: WatchPermit,
}

/// The result of a watch, or of the request for it.
enum Seen {
    Gone,
    /// The znode may not be read, and is polled from now on.
    Unreadable,
    /// The result is unknown. The znode is watched again.
    Nothing,
}

type Watching = Pin<Box<dyn Future<Output = (Monitored, Seen)> + Send>>;

/// Monitors the znodes of a session, until it ends or is left to others.
pub(super) async fn monitor(nodes: Arc<SessionNodes>, mut handed_over: UnboundedReceiver<Watched>) {
    let mut watching = FuturesUnordered::<Watching>::new();
    let mut poller = NodePoller::default();
    let session = &nodes.session;
    let pause = (session.timeout() / 12).max(SHORTEST_PAUSE);
    let mut ticks = interval(pause);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = session.ended().cancelled() => break,
            () = session.detached().cancelled() => break,
            Some((node, seen)) = watching.next(), if !watching.is_empty() => match seen {
                Seen::Gone => node.path_nodes.gone(&node.znode),
                Seen::Unreadable => poller.add(node),
                Seen::Nothing => node.path_nodes.mark_unmonitored(&node.znode),
            },
            Some(Watched { node, watch, room }) = handed_over.recv() => {
                watching.push(Box::pin(async { (node, event(watch, room).await) }));
            }
            gone = poller.results() => {
                for node in gone {
                    node.path_nodes.gone(&node.znode);
                }
            }
            _ = ticks.tick() => {
                let since = BootInstant::now().before(pause);
                for path_nodes in nodes.all() {
                    for znode in path_nodes.unmonitored(since) {
                        let node = Monitored { znode, path_nodes: path_nodes.clone() };
                        match watch(session, &node) {
                            Some(watch) => watching.push(watch),
                            None => poller.add(node),
                        }
                    }
                }
                poller.poll(session);
            }
        }
    }
    give_up(&nodes).await;
    nodes.forget();
    // The watches are dropped after their znodes: dropping one earlier would send a `RemoveWatches` for each.
    drop(watching);
}

/// Waits for the event of a watch.
async fn event(watch: NodeWatch, room: WatchPermit) -> Seen {
    let seen = match watch.await {
        NodeEvent::Deleted => Seen::Gone,
        NodeEvent::Changed => Seen::Nothing,
        // The monitor ends with the session.
        NodeEvent::SessionOver => pending().await,
    };
    drop(room);
    seen
}

/// Watches a znode, if there is room.
fn watch(session: &Arc<Session>, node: &Monitored) -> Option<Watching> {
    let room = session.try_reserve_spare_watch(&node.znode.path)?;
    let session = session.clone();
    let node = node.clone();
    Some(Box::pin(async move {
        let watch = async { session.client()?.watch(&node.znode.path).await };
        let seen = match watch.await {
            Ok(watch) => event(watch, room).await,
            Err(Failure::NoNode) => Seen::Gone,
            Err(Failure::Refused(error)) => {
                tracing::warn!(node = node.znode.path, %error, "the node cannot be watched, only looked for");
                Seen::Unreadable
            }
            Err(_) => Seen::Nothing,
        };
        (node, seen)
    }))
}

/// Ends all holds of the session, and waits until the znodes are deleted.
pub(super) async fn give_up(nodes: &SessionNodes) {
    let expired = nodes.session.ended().is_cancelled();
    let loss = if expired { Loss::SessionExpired } else { Loss::Closed };
    let mut deletes = Vec::new();
    for path_nodes in nodes.all() {
        let path = &path_nodes.path;
        deletes.extend(path_nodes.give_up(|hold| {
            // A close on purpose is no warning.
            if let End::Lost(how) = hold.finish(End::Lost(loss))
                && how != Loss::Closed
            {
                tracing::warn!(%path, node = hold.node(), %how, "the hold is lost");
            }
        }));
    }
    // All at once: a znode that the servers do not let us delete must not delay the others.
    join_all(deletes).await;
}

/// The number of znodes in one poll.
const BATCH: usize = 64;

/// Below this number of znodes, deleted ones are pruned only when their turn comes.
const FEW: usize = 1024;

/// The znodes of a poll that are deleted, and the others.
type Polled = (Vec<Monitored>, Vec<Monitored>);

/// Polls znodes that have no watch, a batch at a time.
#[derive(Default)]
struct NodePoller {
    nodes: VecDeque<Monitored>,
    /// The number of znodes at which deleted ones are pruned again.
    prune_at: usize,
    in_flight: Option<Pin<Box<dyn Future<Output = Polled> + Send>>>,
}

impl NodePoller {
    fn add(&mut self, node: Monitored) {
        self.nodes.push_back(node);
        if self.nodes.len() > self.prune_at.max(FEW) {
            self.nodes.retain(|node| node.path_nodes.has(&node.znode));
            self.prune_at = 2 * self.nodes.len();
        }
    }

    /// Sends the next poll, unless the last one has no answer yet.
    fn poll(&mut self, session: &Arc<Session>) {
        if self.in_flight.is_some() {
            return;
        }
        let mut next = Vec::new();
        while next.len() < BATCH
            && let Some(node) = self.nodes.pop_front()
        {
            if node.path_nodes.has(&node.znode) {
                next.push(node);
            }
        }
        if !next.is_empty() {
            self.in_flight = Some(Box::pin(poll(session.clone(), next)));
        }
    }

    /// Waits for the answers to the last poll. Returns the znodes that are deleted.
    async fn results(&mut self) -> Vec<Monitored> {
        let (gone, others) = match &mut self.in_flight {
            Some(poll) => poll.await,
            None => pending().await,
        };
        self.in_flight = None;
        self.nodes.extend(others);
        gone
    }
}

/// Asks which of `nodes` are deleted.
async fn poll(session: Arc<Session>, nodes: Vec<Monitored>) -> Polled {
    // All requests are sent before the first answer is awaited.
    let ask = |node: Monitored| {
        let exists = session.request(|client| client.exists(&node.znode.path));
        (node, exists)
    };
    let asked: Vec<_> = nodes.into_iter().map(ask).collect();
    let mut gone = Vec::new();
    let mut others = Vec::new();
    for (node, exists) in asked {
        // A znode of which no answer tells is polled again.
        match exists.await {
            Ok(false) | Err(Failure::NoNode) => gone.push(node),
            _ => others.push(node),
        }
    }
    (gone, others)
}
