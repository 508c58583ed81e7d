//! The caretaker: one task for each epoch, that looks after the nodes of all holds, and of contenders that wait
//! for one of ours; and removes them when the epoch is over or left to others.
//!
//! Let `T` be the session timeout. It watches a node once that has been there for `T/12`, not before: a short hold
//! costs no read; and it does so within `T/6`, so that a deletion by somebody else is seen by then. It uses half of the
//! epoch's room for watches, since who waits for somebody else's node needs some, too. At what is beyond that it
//! [looks in turn](super::rounds), at [`BATCH`](super::rounds::BATCH) nodes each `T/12`, and so it does with nodes that
//! we may not read. With `n` of them, each is looked at every `n / BATCH * T/12`.
//!
//! Who calls `release` awaits the answer to the delete without a task. If there is none for `T/12` (or half of the time
//! after which a release is told to be unconfirmed, if that is less), the caretaker wakes it, to start one; and if it
//! does not come until the next time, deletes the node as well: it may not poll any more, and others wait for the node.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{MissedTickBehavior, interval};

use super::line::Line;
use super::lines::Lines;
use super::local::Spot;
use super::place::remove;
use super::rounds::Rounds;
use crate::client::{Failure, NodeEvent, NodeWatch};
use crate::error::Loss;
use crate::session::clock::Moment;

/// The shortest time to wait for anything.
const MOMENT: Duration = Duration::from_millis(1);

/// A node that was watched before it was given in care.
#[derive(Debug)]
pub(super) struct Attended {
    pub(super) own: Own,
    pub(super) watch: NodeWatch,
    pub(super) room: OwnedSemaphorePermit,
}

/// A node of ours.
#[derive(Clone, Debug)]
pub(super) struct Own {
    pub(super) line: Arc<Line>,
    pub(super) spot: Arc<Spot>,
}

/// What came of looking.
enum Seen {
    Watched(Attended),
    Gone,
    /// To be looked at without a watch.
    Unwatched,
    /// We deleted it.
    Left,
    /// Nothing is known.
    Nothing,
}

type Looking = Pin<Box<dyn Future<Output = (Own, Seen)> + Send>>;

/// Looks after the contenders of an epoch, until it is over or left to others.
pub(super) async fn look_after(lines: Arc<Lines>, mut attended: mpsc::UnboundedReceiver<Attended>) {
    let mut looking = FuturesUnordered::<Looking>::new();
    let mut rounds = Rounds::default();
    let epoch = &lines.epoch;
    let pace = (epoch.timeout() / 12).max(MOMENT);
    let mut ticks = interval(pace);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let patience = (lines.session.settings.connection_timeout / 2).clamp(MOMENT, pace);
    let mut departures = interval(patience);
    departures.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = epoch.over().cancelled() => break,
            () = epoch.left_to_others().cancelled() => break,
            Some(attended) = attended.recv() => looking.push(Box::pin(event(attended))),
            Some((own, seen)) = looking.next(), if !looking.is_empty() => match seen {
                Seen::Watched(attended) => looking.push(Box::pin(event(attended))),
                Seen::Gone => own.line.robbed(&own.spot),
                Seen::Unwatched => rounds.add(own),
                Seen::Left => own.line.left(&own.spot),
                Seen::Nothing => own.line.out_of_care(&own.spot),
            },
            gone = rounds.looked() => gone.iter().for_each(|own| own.line.robbed(&own.spot)),
            _ = departures.tick() => {
                let since = Moment::now().before(patience);
                for line in lines.all() {
                    for spot in line.overdue(since) {
                        let own = Own { line: line.clone(), spot };
                        looking.push(Box::pin(left(lines.clone(), own)));
                    }
                }
            }
            _ = ticks.tick() => {
                let since = Moment::now().before(pace);
                for line in lines.all() {
                    for spot in line.unattended(since) {
                        let own = Own { line: line.clone(), spot };
                        match watch(&lines, &own) {
                            Some(watching) => looking.push(watching),
                            None => rounds.add(own),
                        }
                    }
                }
                rounds.go_on(epoch);
            }
        }
    }
    hand_on(&lines).await;
    lines.forget();
    // Watches go with their nodes: to drop them before would have each taken back at the servers.
    drop(looking);
}

/// Waits for what happens to a watched node.
async fn event(attended: Attended) -> (Own, Seen) {
    let Attended { own, watch, room } = attended;
    let seen = match watch.await {
        NodeEvent::Deleted => Seen::Gone,
        // It is watched again.
        NodeEvent::Changed => Seen::Nothing,
        // Whoever waits for this waits for the end of the epoch as well.
        NodeEvent::SessionOver => std::future::pending().await,
    };
    drop(room);
    (own, seen)
}

/// Has a node watched, if there is room.
fn watch(lines: &Lines, own: &Own) -> Option<Looking> {
    let room = lines.epoch.spare_room(&own.spot.node)?;
    let (own, epoch) = (own.clone(), lines.epoch.clone());
    Some(Box::pin(async move {
        let watch = async { epoch.client()?.watch(&own.spot.node).await };
        let seen = match watch.await {
            Ok(watch) => Seen::Watched(Attended { own: own.clone(), watch, room }),
            Err(Failure::NoNode) => Seen::Gone,
            Err(Failure::Refused(error)) => {
                tracing::warn!(node = own.spot.node, %error, "the node cannot be watched, only looked for");
                Seen::Unwatched
            }
            Err(_) => Seen::Nothing,
        };
        (own, seen)
    }))
}

/// Deletes a node in the place of a caller.
async fn left(lines: Arc<Lines>, own: Own) -> (Own, Seen) {
    remove(&lines, &own.spot).await;
    (own, Seen::Left)
}

/// The epoch is over, or left to others: what is held is lost, and no node is left.
async fn hand_on(lines: &Arc<Lines>) {
    let over = lines.epoch.over().is_cancelled();
    let loss = if over { Loss::SessionExpired } else { Loss::Closed };
    let mut nodes = Vec::new();
    for line in lines.all() {
        let path = &line.path;
        nodes.extend(line.clear(|hold| {
            let how = hold.finish(loss);
            if over {
                tracing::warn!(%path, node = hold.node(), %how, "the hold is lost");
            }
        }));
    }
    // All at once: one that the servers do not let us remove must not stop the others.
    let removing = nodes.into_iter().map(|spot| {
        let lines = lines.clone();
        lines.session.clone().spawn(async move { remove(&lines, &spot).await })
    });
    for removed in removing.collect::<Vec<_>>() {
        let _ = removed.await;
    }
}
