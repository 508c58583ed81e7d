//! The watches of a waiter, and what their events mean.
//!
//! They are one-shot data watches: those survive a reconnect, and leave nothing on a node that is not there.
//!
//! *Head.* When the predecessor was the head of the last listing, its deletion admits us with no further
//! listing: that listing contained our own node, so only the head stood before us, and no contender can come to
//! stand there. Only if
//!
//! * our own node is there still: its watch was armed before the predecessor's, has not fired, and is looked at
//!   first. Then its deletion, if it came first, would be seen first. (A transaction that deletes both, as
//!   recursive deletes do, tells of one after the other. A waiter that sees the predecessor's first holds without a node
//!   until it sees the other, as if its own had been deleted an instant later.);
//! * the event is a deletion, or the request to watch was answered that the node is not there. A change of its
//!   data lists;
//! * the link was not broken since the own watch was armed: the client arms its watches again in any order;
//! * no hold that keeps us out can turn up again in another form, with an old number. In a read-write lock that is so
//!   for readers alone: before a writer, the down-graded read of another writer may turn up; writers never do.
//!
//! *Stand-by.* A contender in third place or later watches the one before its predecessor as well. When that goes,
//! it lists *while the predecessor holds*, and sees that it is the head. It only moves the one listing to an
//! earlier time, and the head rule does the rest. A release wakes two contenders at most.
//!
//! Where the session's budget of watches is used up, a waiter looks now and then instead, and takes
//! its turn for a watch; then it uses neither rule.

use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::sleep;

use super::node::OwnedNode;
use super::poller::Monitored;
use super::request::{EntryAborted, Request};
use crate::client::{Failure, LinkWatch, NodeEvent, NodeWatch, WatchPermit};
use crate::metrics::Operation;
use crate::queue::rules::node_name::ContenderName;
use crate::session::Session;
use crate::session::retry::RetryLoop;

/// How often a waiter looks for its predecessor that has no room for a watch.
pub(super) const LOOK: Duration = Duration::from_secs(1);

/// In how many of those looks it looks once for its own node, which no client deletes in the normal course of things.
const LOOKS_FOR_OWN: u32 = 10;

/// The node that a contender waits for.
pub(super) struct Predecessors {
    predecessor: String,
    /// The one before it.
    stand_by: Option<String>,
    /// Whether the deletion of the predecessor admits.
    head: bool,
}

impl Predecessors {
    pub(super) fn new(
        node: &OwnedNode,
        predecessor: &ContenderName,
        stand_by: Option<ContenderName>,
        predecessor_is_head: bool,
    ) -> Self {
        let (path_nodes, child) = (&node.path_nodes, |name: &str| node.path_nodes.path.child(name));
        let stand_by = stand_by.filter(|_| path_nodes.rules.stand_by && !predecessor_is_head);
        Self {
            predecessor: child(predecessor.as_str()),
            stand_by: stand_by.map(|name| child(name.as_str())),
            head: path_nodes.rules.head
                && predecessor_is_head
                && (path_nodes.family.is_exclusive() || node.node.shared),
        }
    }
}

/// What came of waiting.
pub(super) enum Event {
    /// The own node is not there any more.
    Gone,
    /// By the head rule.
    Admitted,
    Look,
}

/// The watches of one waiter.
#[derive(Debug, Default)]
pub(super) struct Watches {
    own: Option<Watch>,
    predecessor: Option<Watch>,
    stand_by: Option<Watch>,
    /// From before the own watch was asked for.
    link: Option<LinkWatch>,
    /// Room for the next watches.
    room: Option<WatchPermit>,
    /// So many were asked for.
    asked: u64,
}

#[derive(Debug)]
struct Watch {
    node: String,
    watch: NodeWatch,
    /// The place in the order in which they were armed.
    order: u64,
    room: WatchPermit,
}

impl Watches {
    /// The own node's watch is the node monitor's from now on, where there is room to spare.
    pub(super) fn hand_over(&mut self, node: &OwnedNode) {
        if node.nodes.session.has_spare_watches()
            && let Some(Watch { watch, room, .. }) = self.own.take()
        {
            let own = Monitored { path_nodes: node.path_nodes.clone(), node: node.node.clone() };
            node.nodes.monitor(own, watch, room);
        }
    }

    /// Waits for the next thing that happens to those ahead, or to the own node.
    pub(super) async fn event(
        &mut self,
        node: &OwnedNode,
        request: &Request,
        ahead: &Predecessors,
    ) -> Result<Event, EntryAborted> {
        let mut retry = RetryLoop::new(&request.retry, Operation::WATCH);
        let session = &node.nodes.session;
        let connection = &node.nodes.connection;
        let own = &node.node.path;
        self.keep(ahead);
        loop {
            let failed = match self.arm(session, own, ahead).await {
                Ok(Some(event)) => return Ok(event),
                Ok(None) => {
                    let event = if self.is_armed() {
                        Ok(self.next(ahead).await)
                    } else {
                        self.look(session, own, ahead).await
                    };
                    match event {
                        Ok(Some(event)) => return Ok(event),
                        Ok(None) => continue,
                        Err(failed) => failed,
                    }
                }
                Err(failed) => failed,
            };
            let Failed { node, failure } = failed;
            let may_pass = matches!(failure, Failure::Unknown(_) | Failure::NotNow(_));
            if !may_pass || !retry.backoff(connection, &failure).await {
                return Err(request.stop(&node, "read", failure));
            }
        }
    }

    /// Lets go of watches on nodes that are not ahead any more.
    fn keep(&mut self, ahead: &Predecessors) {
        if self.predecessor.as_ref().is_some_and(|watch| watch.node != ahead.predecessor) {
            self.predecessor = None;
        }
        if self.stand_by.as_ref().is_some_and(|watch| Some(&watch.node) != ahead.stand_by.as_ref())
        {
            let stand_by = self.stand_by.take();
            let nearer = stand_by.filter(|watch| watch.node == ahead.predecessor);
            self.predecessor = self.predecessor.take().or(nearer);
        }
    }

    fn is_armed(&self) -> bool {
        self.own.is_some() && self.predecessor.is_some()
    }

    /// Arms what is not armed, as far as there is room; the own watch first. An event if there is no need to
    /// wait for one.
    async fn arm(
        &mut self,
        session: &Session,
        node: &str,
        ahead: &Predecessors,
    ) -> Result<Option<Event>, Failed> {
        let Some([own, predecessor, stand_by]) = self.rooms(session, node, ahead) else {
            return Ok(None);
        };
        let client = session.client().map_err(|failure| Failed::at(node, failure))?;
        if own.is_some() {
            self.link = Some(client.watch_link());
        }
        // All are sent before the first is awaited, and answered in this order.
        let mut order = self.asked;
        let mut ask = |(node, room): (&str, WatchPermit)| {
            order += 1;
            let (node, order, sent) = (node.to_owned(), order, client.watch(node));
            async move {
                match sent.await {
                    Ok(watch) => Ok(Some(Watch { node, watch, order, room })),
                    Err(Failure::NoNode) => Ok(None),
                    Err(failure) => Err(Failed { node, failure }),
                }
            }
        };
        let [own, predecessor, stand_by] = [own, predecessor, stand_by].map(|it| it.map(&mut ask));
        self.asked = order;
        if let Some(own) = own {
            self.own = own.await?;
            if self.own.is_none() {
                return Ok(Some(Event::Gone));
            }
        }
        if let Some(predecessor) = predecessor {
            self.predecessor = predecessor.await?;
            if self.predecessor.is_none() {
                return Ok(Some(self.deleted(ahead, order)));
            }
        }
        if let Some(stand_by) = stand_by {
            self.stand_by = stand_by.await?;
            if self.stand_by.is_none() {
                return Ok(Some(Event::Look));
            }
        }
        Ok(None)
    }

    /// Room for what is not watched yet: the own node, the predecessor, the stand-by. `None` if it does not do
    /// for the first two.
    fn rooms<'a>(
        &mut self,
        session: &Session,
        node: &'a str,
        ahead: &'a Predecessors,
    ) -> Option<[Option<(&'a str, WatchPermit)>; 3]> {
        let Self { own, predecessor, stand_by, room: waited_for, .. } = self;
        let mut room = |watch: &Option<Watch>, node: &'a str| {
            if watch.is_some() {
                return Some(None);
            }
            let bytes = session.watched_bytes(node);
            let room = waited_for.as_mut().and_then(|room| room.split(bytes));
            let room = room.or_else(|| session.try_reserve_watch(node))?;
            Some(Some((node, room)))
        };
        let own = room(own, node)?;
        let predecessor = room(predecessor, &ahead.predecessor)?;
        // It can be done without.
        let stand_by = ahead.stand_by.as_deref().and_then(|node| room(stand_by, node).flatten());
        self.room = None;
        Some([own, predecessor, stand_by])
    }

    /// Waits for an event of an armed watch; `None` if it only has to be armed again.
    async fn next(&mut self, ahead: &Predecessors) -> Option<Event> {
        // The own node's first: its deletion must not be overlooked.
        tokio::select! {
            biased;
            event = fired(&mut self.own) => {
                self.own = None;
                // After a change it is watched again.
                (event == NodeEvent::Deleted).then_some(Event::Gone)
            }
            event = fired(&mut self.predecessor) => {
                let order = self.predecessor.take().map_or(0, |watch| watch.order);
                // A change of its data never admits.
                let deleted = event == NodeEvent::Deleted;
                Some(if deleted { self.deleted(ahead, order) } else { Event::Look })
            }
            _ = fired(&mut self.stand_by) => {
                self.stand_by = None;
                Some(Event::Look)
            }
        }
    }

    /// Looks once more, when the client has told all that it had received: one transaction can delete the
    /// predecessor first and our own node with it.
    pub(super) async fn is_own_there(&mut self) -> bool {
        yield_now().await;
        self.own.as_mut().is_some_and(|own| own.watch.fired().is_none())
    }

    /// What the deletion of the predecessor means, whose watch was asked for as the `order`th: the head rule.
    fn deleted(&mut self, ahead: &Predecessors, order: u64) -> Event {
        let own = self.own.as_mut();
        let is_ours_there = own.is_some_and(|own| own.order < order && own.watch.fired().is_none());
        let same_link = self.link.as_mut().is_some_and(|link| !link.has_changed());
        if ahead.head && is_ours_there && same_link { Event::Admitted } else { Event::Look }
    }

    /// Without room for watches: looks now and then, until there is; `None` if there is.
    async fn look(
        &mut self,
        session: &Session,
        node: &str,
        ahead: &Predecessors,
    ) -> Result<Option<Event>, Failed> {
        let both = [node, ahead.predecessor.as_str()];
        let missing = if self.own.is_some() { &both[1..] } else { &both };
        let room = session.reserve_watch(missing);
        tokio::pin!(room);
        let mut looks = 0;
        loop {
            tokio::select! {
                biased;
                event = fired(&mut self.own) => {
                    self.own = None;
                    return Ok((event == NodeEvent::Deleted).then_some(Event::Gone));
                }
                room = &mut room => {
                    self.room = Some(room);
                    return Ok(None);
                }
                () = sleep(LOOK) => {}
            }
            looks += 1;
            if is_gone(session, &ahead.predecessor).await? {
                return Ok(Some(Event::Look));
            }
            if looks % LOOKS_FOR_OWN == 0 && is_gone(session, node).await? {
                return Ok(Some(Event::Gone));
            }
        }
    }
}

/// A request that failed.
struct Failed {
    node: String,
    failure: Failure,
}

impl Failed {
    fn at(node: &str, failure: Failure) -> Self {
        Self { node: node.to_owned(), failure }
    }
}

/// Resolves when the watch fires, if it is armed.
async fn fired(watch: &mut Option<Watch>) -> NodeEvent {
    if let Some(watch) = watch {
        let event = (&mut watch.watch).await;
        // A caller that waits for this waits for the end of the session as well.
        if event != NodeEvent::SessionOver {
            return event;
        }
    }
    std::future::pending().await
}

async fn is_gone(session: &Session, node: &str) -> Result<bool, Failed> {
    let exists = async { session.client()?.exists(node).await };
    match exists.await {
        Ok(exists) => Ok(!exists),
        Err(Failure::NoNode) => Ok(true),
        // Looks again, whatever the policy: nothing was tried but to look.
        Err(Failure::Unknown(_) | Failure::NotNow(_)) => Ok(false),
        Err(failure) => Err(Failed::at(node, failure)),
    }
}
