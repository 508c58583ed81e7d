//! The watches of a waiter, and what their events mean.
//!
//! All watches are one-shot data watches: they survive a reconnect and leave no watch behind on a missing znode.
//!
//! *Head rule.* If the predecessor was the head of the last listing, its deletion admits the waiter without another listing.
//! That listing contained our own znode, so only the head stood before it, and no contender can enter before it later. The rule
//! holds if
//!
//! * our own znode still exists: its watch was armed before the predecessor's, has not fired, and is checked first, so an
//!   earlier deletion of our znode would be seen first. (A transaction that deletes both, as a recursive delete does, reports one
//!   after the other. A waiter that sees the predecessor's deletion first holds without a znode until it sees its own, as if its
//!   own had been deleted an instant later.);
//! * the event is a deletion, or the request for the watch was answered with "no node". After a change of data the waiter lists;
//! * the connection is the one on which the own watch was armed: after a reconnect the client arms its watches in any order;
//! * no hold that keeps us out can turn up in another form, with an old number. In a read-write lock this is so for readers alone:
//!   a writer may meet the downgraded read of another writer, and a reader never meets a new writer.
//!
//! *Stand-by rule.* A contender in third place or later watches the contender before its predecessor as well. When that one is
//! deleted, the waiter lists *while the predecessor holds*, and sees that its predecessor is the head. This moves the one listing
//! to an earlier time, and the head rule does the rest. A release wakes at most two contenders.
//!
//! Without room for watches in the session, a waiter polls, and takes its turn for room; then it uses neither rule.

use std::future::Future;
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::sleep;

use super::driver::QueueDriver;
use super::node::OwnedNode;
use super::request::{EntryAborted, Request};
use super::retries::Retries;
use crate::client::{Client, Failed, Failure, LinkWatch, NodeEvent, NodeWatch, WatchPermit};
use crate::metrics::{self, Operation};
use crate::queue::rules::admission::Predecessors;
use crate::queue::rules::node_name::ContenderName;
use crate::session::Session;

/// The pause between two polls of a waiter that has no room for a watch.
pub(super) const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// A waiter polls its own znode once in this many polls, because clients do not usually delete it.
const POLLS_PER_OWN_POLL: u32 = 10;

/// The result of a wait.
pub(super) enum Event {
    /// The own znode does not exist.
    Gone,
    /// The head rule admits the waiter.
    Admitted,
    /// The next listing decides.
    List,
}

/// The watches of one waiter.
#[derive(Debug, Default)]
pub(super) struct Watches {
    own: Option<Watch>,
    predecessor: Option<Watch>,
    stand_by: Option<Watch>,
    /// The connection as it was before the own watch was requested.
    link: Option<LinkWatch>,
    /// Room for the next watches, after a wait for it.
    room: Option<WatchPermit>,
    /// The number of watches that were requested.
    requested: u64,
}

#[derive(Debug)]
struct Watch {
    name: String,
    watch: NodeWatch,
    /// The place in the order in which the watches were armed.
    order: u64,
    room: WatchPermit,
}

impl Watch {
    fn is_on(&self, contender: &ContenderName) -> bool {
        self.name == contender.as_str()
    }
}

/// Room for the watches that are not armed.
struct Missing {
    own: Option<WatchPermit>,
    predecessor: Option<WatchPermit>,
    stand_by: Option<WatchPermit>,
}

impl Watches {
    /// Hands the watch on the own znode over to the node monitor, if the session has room to spare.
    pub(super) fn hand_over(&mut self, node: &OwnedNode) {
        if node.nodes.session.has_spare_watches()
            && let Some(Watch { watch, room, .. }) = self.own.take()
        {
            node.nodes.monitor(&node.znode, &node.path_nodes, watch, room);
        }
    }

    /// Waits for the next event of the own znode or of those ahead.
    pub(super) async fn event(
        &mut self,
        queue: &QueueDriver,
        node: &OwnedNode,
        request: &Request,
        ahead: &Predecessors,
    ) -> Result<Event, EntryAborted> {
        let mut retries = Retries::start();
        self.keep(ahead);
        loop {
            let Failed { path, operation, failure } = match self.try_event(node, ahead).await {
                Ok(Some(event)) => return Ok(event),
                Ok(None) => continue,
                Err(failed) => failed,
            };
            let (Failure::Unknown(cause) | Failure::NotNow(cause)) = failure else {
                return Err(request.aborted(&path, operation, failure));
            };
            let pause = queue.next_pause(&mut retries, Some(cause)).await?;
            metrics::retried(Operation::WATCH);
            queue.connection().pause(pause).await;
        }
    }

    /// Arms what is not armed, and waits. `None` if something has to be armed again.
    async fn try_event(
        &mut self,
        node: &OwnedNode,
        ahead: &Predecessors,
    ) -> Result<Option<Event>, Failed> {
        if let Some(event) = self.arm(node, ahead).await? {
            return Ok(Some(event));
        }
        if self.own.is_some() && self.predecessor.is_some() {
            return Ok(self.next(node, ahead).await);
        }
        self.poll(node, ahead).await
    }

    /// Drops the watches on znodes that are no longer ahead.
    fn keep(&mut self, ahead: &Predecessors) {
        self.predecessor.take_if(|watch| !watch.is_on(&ahead.predecessor));
        let is_ahead =
            |watch: &Watch| ahead.stand_by.as_ref().is_some_and(|name| watch.is_on(name));
        let stand_by = self.stand_by.take_if(|watch| !is_ahead(watch));
        let nearer = stand_by.filter(|watch| watch.is_on(&ahead.predecessor));
        self.predecessor = self.predecessor.take().or(nearer);
    }

    /// Arms the watches that are not armed, the own one first, if there is room. Returns an event if no wait is needed.
    async fn arm(
        &mut self,
        node: &OwnedNode,
        ahead: &Predecessors,
    ) -> Result<Option<Event>, Failed> {
        let Some(missing) = self.reserve(node, ahead) else {
            return Ok(None);
        };
        let client = node.nodes.session.client();
        let client = client.map_err(|failure| Failed::at(&node.znode.path, "read", failure))?;
        if missing.own.is_some() {
            self.link = Some(client.watch_link());
        }
        // All requests are sent before the first is awaited, and answered in this order.
        let mut request = |name, room| self.request(&client, node, name, room);
        let own = missing.own.map(|room| request(node.znode.name(), room));
        let predecessor = missing.predecessor.map(|room| request(ahead.predecessor.as_str(), room));
        let stand_by = ahead.stand_by.as_ref().zip(missing.stand_by);
        let stand_by = stand_by.map(|(name, room)| request(name.as_str(), room));
        if let Some(own) = own {
            self.own = own.await?;
            if self.own.is_none() {
                return Ok(Some(Event::Gone));
            }
        }
        if let Some(predecessor) = predecessor {
            self.predecessor = predecessor.await?;
            if self.predecessor.is_none() {
                return Ok(Some(self.deleted(node, ahead, self.requested)));
            }
        }
        if let Some(stand_by) = stand_by {
            self.stand_by = stand_by.await?;
            if self.stand_by.is_none() {
                return Ok(Some(Event::List));
            }
        }
        Ok(None)
    }

    /// Reserves room for the watches that are not armed. `None` if there is no room for the own one and the predecessor's.
    fn reserve(&mut self, node: &OwnedNode, ahead: &Predecessors) -> Option<Missing> {
        let own = match self.own {
            Some(_) => None,
            None => Some(self.permit(node, node.znode.name())?),
        };
        let predecessor = match self.predecessor {
            Some(_) => None,
            None => Some(self.permit(node, ahead.predecessor.as_str())?),
        };
        let stand_by = match (&self.stand_by, &ahead.stand_by) {
            (None, Some(name)) => self.permit(node, name.as_str()),
            _ => None,
        };
        self.room = None;
        Some(Missing { own, predecessor, stand_by })
    }

    /// Takes room for one watch, from the room that was waited for or from the session.
    fn permit(&mut self, node: &OwnedNode, name: &str) -> Option<WatchPermit> {
        let session = &node.nodes.session;
        let path = node.path_nodes.path.child(name);
        let bytes = session.watched_bytes(&path);
        let waited_for = self.room.as_mut().and_then(|room| room.split(bytes));
        waited_for.or_else(|| session.try_reserve_watch(&path))
    }

    /// Sends the request for a watch. The future resolves with `None` if the znode does not exist.
    fn request<'a>(
        &mut self,
        client: &'a Client,
        node: &OwnedNode,
        name: &'a str,
        room: WatchPermit,
    ) -> impl Future<Output = Result<Option<Watch>, Failed>> + Send + use<'a> {
        self.requested += 1;
        let order = self.requested;
        let path = node.path_nodes.path.child(name);
        let sent = client.read_and_watch(&path);
        async move {
            match sent.await {
                Ok((found, watch)) => {
                    if found.session_id().is_none() {
                        tracing::warn!(
                            node = path,
                            "waits behind a znode that no session owns: it stays until it is deleted. Does a folder have the name \
                             of a contender?"
                        );
                    }
                    Ok(Some(Watch { name: name.to_owned(), watch, order, room }))
                }
                Err(Failure::NoNode) => Ok(None),
                Err(failure) => Err(Failed::at(path, "read", failure)),
            }
        }
    }

    /// Waits for an event of an armed watch. `None` if the watch only has to be armed again.
    async fn next(&mut self, node: &OwnedNode, ahead: &Predecessors) -> Option<Event> {
        // The own watch comes first: a deletion of the own znode must not be overlooked.
        tokio::select! {
            biased;
            event = fired(&mut self.own) => {
                self.own = None;
                // After a change of data the znode is watched again.
                (event == NodeEvent::Deleted).then_some(Event::Gone)
            }
            event = fired(&mut self.predecessor) => {
                let order = self.predecessor.take().map_or(0, |watch| watch.order);
                // A change of data never admits.
                let deleted = event == NodeEvent::Deleted;
                Some(if deleted { self.deleted(node, ahead, order) } else { Event::List })
            }
            event = fired(&mut self.stand_by) => {
                let stand_by = self.stand_by.take();
                if let Some(watch) = stand_by.filter(|_| event == NodeEvent::Deleted) {
                    node.path_nodes.deleted(&watch.name);
                }
                Some(Event::List)
            }
        }
    }

    /// Checks the own watch again, after the client has delivered all events that it had received: one transaction can delete
    /// the predecessor first and our own znode with it.
    pub(super) async fn is_own_there(&mut self) -> bool {
        yield_now().await;
        self.own.as_mut().is_some_and(|own| own.watch.fired().is_none())
    }

    /// Applies the head rule to the deletion of the predecessor, whose watch was the `order`th.
    fn deleted(&mut self, node: &OwnedNode, ahead: &Predecessors, order: u64) -> Event {
        // The predecessor may be a node of ours, of another queue, whose hold ends now.
        node.path_nodes.deleted(ahead.predecessor.as_str());
        let own = self.own.as_mut();
        let is_ours_there = own.is_some_and(|own| own.order < order && own.watch.fired().is_none());
        let same_link = self.link.as_mut().is_some_and(|link| !link.has_changed());
        if ahead.admits && is_ours_there && same_link { Event::Admitted } else { Event::List }
    }

    /// Polls the znodes until there is room for watches. `None` if there is.
    async fn poll(
        &mut self,
        node: &OwnedNode,
        ahead: &Predecessors,
    ) -> Result<Option<Event>, Failed> {
        let session = &node.nodes.session;
        let own = node.znode.path.as_str();
        let predecessor = node.path_nodes.path.child(ahead.predecessor.as_str());
        let both = [own, predecessor.as_str()];
        let missing = if self.own.is_some() { &both[1..] } else { &both };
        let room = session.reserve_watch(missing);
        tokio::pin!(room);
        let mut polls = 0;
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
                () = sleep(POLL_INTERVAL) => {}
            }
            polls += 1;
            if is_gone(session, &predecessor).await? {
                return Ok(Some(Event::List));
            }
            if polls % POLLS_PER_OWN_POLL == 0 && is_gone(session, own).await? {
                return Ok(Some(Event::Gone));
            }
        }
    }
}

/// Resolves when the watch fires, if it is armed.
async fn fired(watch: &mut Option<Watch>) -> NodeEvent {
    if let Some(watch) = watch {
        let event = (&mut watch.watch).await;
        // The caller waits for the end of the session as well.
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
        // The waiter polls again, whatever the retry policy: a failed poll is no failed try.
        Err(Failure::Unknown(_) | Failure::NotNow(_)) => Ok(false),
        Err(failure) => Err(Failed::at(node, "read", failure)),
    }
}
