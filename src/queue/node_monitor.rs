//! The node monitor: one task for each session, that looks after the nodes of holds, and has them removed
//! when the session is over or left to others.
//!
//! Let `T` be the session timeout. It watches a node once that has been first for `T/12`, not before: a short hold
//! costs no read; and it does so within `T/6`, so that a deletion by another client is seen by then. A waiter's watch on its
//! own node is handed over when its hold begins, and nothing is asked for. It uses half of the
//! session's room for watches, since a waiter for another client's node needs some, too. At what is beyond that it
//! [looks in turn](super::poller), at [`BATCH`](super::poller::BATCH) nodes each `T/12`, and so it does with nodes that
//! we may not read. With `n` of them, each is looked at every `n / BATCH * T/12`.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{MissedTickBehavior, interval};

use super::poller::{Monitored, NodePoller};
use super::session_nodes::{SessionNodes, Watched};
use crate::client::{Failure, NodeEvent, NodeWatch, WatchPermit};
use crate::clock::Moment;
use crate::error::Loss;
use crate::queue::hold::End;

/// The shortest time to wait for anything.
const MOMENT: Duration = Duration::from_millis(1);

/// What a watch, or the request for it, has shown.
enum Seen {
    Gone,
    /// To be looked at without a watch.
    Unwatched,
    /// Nothing is known: the node is watched again.
    Nothing,
}

type Looking = Pin<Box<dyn Future<Output = (Monitored, Seen)> + Send>>;

/// Looks after the nodes of a session, until it is over or left to others.
pub(super) async fn look_after(
    nodes: Arc<SessionNodes>,
    mut handed_over: UnboundedReceiver<Watched>,
) {
    let mut looking = FuturesUnordered::<Looking>::new();
    let mut poller = NodePoller::default();
    let session = &nodes.session;
    let pace = (session.timeout() / 12).max(MOMENT);
    let mut ticks = interval(pace);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = session.ended().cancelled() => break,
            () = session.detached().cancelled() => break,
            Some((own, seen)) = looking.next(), if !looking.is_empty() => match seen {
                Seen::Gone => own.path_nodes.gone(&own.node),
                Seen::Unwatched => poller.add(own),
                Seen::Nothing => own.path_nodes.is_unmonitored(&own.node),
            },
            Some((own, watch, room)) = handed_over.recv() => {
                looking.push(Box::pin(async { (own, event(watch, room).await) }));
            }
            gone = poller.looked() => gone.iter().for_each(|own| own.path_nodes.gone(&own.node)),
            _ = ticks.tick() => {
                let since = Moment::now().before(pace);
                for path_nodes in nodes.all() {
                    for node in path_nodes.unmonitored(since) {
                        let own = Monitored { path_nodes: path_nodes.clone(), node };
                        match watch(&nodes, &own) {
                            Some(watching) => looking.push(watching),
                            None => poller.add(own),
                        }
                    }
                }
                poller.go_on(session);
            }
        }
    }
    hand_on(&nodes).await;
    nodes.forget();
    // Watches go with their nodes: to drop them before would have each taken back at the servers.
    drop(looking);
}

/// Waits for what happens to a watched node.
async fn event(watch: NodeWatch, room: WatchPermit) -> Seen {
    let seen = match watch.await {
        NodeEvent::Deleted => Seen::Gone,
        NodeEvent::Changed => Seen::Nothing,
        // The monitor ends with the session.
        NodeEvent::SessionOver => std::future::pending().await,
    };
    drop(room);
    seen
}

/// Has a node watched, if there is room.
fn watch(nodes: &SessionNodes, own: &Monitored) -> Option<Looking> {
    let own = own.clone();
    let room = nodes.session.try_reserve_spare_watch(&own.node.path)?;
    let session = nodes.session.clone();
    Some(Box::pin(async move {
        let watch = async { session.client()?.watch(&own.node.path).await };
        let seen = match watch.await {
            Ok(watch) => event(watch, room).await,
            Err(Failure::NoNode) => Seen::Gone,
            Err(Failure::Refused(error)) => {
                tracing::warn!(node = own.node.path, %error, "the node cannot be watched, only looked for");
                Seen::Unwatched
            }
            Err(_) => Seen::Nothing,
        };
        (own, seen)
    }))
}

/// The session is over, or left to others: what is held is lost, and no node is left.
async fn hand_on(nodes: &SessionNodes) {
    let over = nodes.session.ended().is_cancelled();
    let loss = if over { Loss::SessionExpired } else { Loss::Closed };
    let mut leaving = Vec::new();
    for path_nodes in nodes.all() {
        let path = &path_nodes.path;
        leaving.extend(path_nodes.give_up(|hold| {
            let how = hold.finish(End::Lost(loss));
            if over {
                tracing::warn!(%path, node = hold.node(), ?how, "the hold is lost");
            }
        }));
    }
    // All at once: one that the servers do not let us remove must not stop the others.
    join_all(leaving).await;
}
