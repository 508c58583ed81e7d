//! Connections between clients and servers, and the faults of a link.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::admin::Admin;
use super::lane::Conn;
use super::millis;
use super::world::World;

/// What a message asks for, or a reply answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Every request, and every reply to one, except handshakes and pings.
    Any,
    /// The handshake, the first message of a connection either way.
    Connect,
    /// A node is created, of whatever kind.
    Create,
    /// A node is deleted.
    Delete,
    /// Is there such a node?
    Exists,
    /// A node's data are read.
    GetData,
    /// A node's data are written.
    SetData,
    /// Children are listed.
    List,
    /// A member catches up with the leader.
    Sync,
    /// The client's sign of life.
    Ping,
    /// Several writes, all or none.
    Multi,
    /// Several reads.
    MultiRead,
    /// Watches are set again, after a reconnection.
    SetWatches,
    /// Watches are taken back.
    RemoveWatches,
    /// Credentials are sent.
    Auth,
    /// The session is ended.
    CloseSession,
    /// A watch has fired: a message of the server that answers no request. [`Any`](Self::Any) leaves it out.
    Event,
    /// A node's ACLs are read or written.
    Acl,
}

impl Operation {
    pub(super) fn means(self, seen: Self) -> bool {
        match self {
            Self::Any => !matches!(seen, Self::Connect | Self::Ping | Self::Event),
            asked => asked == seen,
        }
    }
}

/// Which way messages go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_enums)] // a link has two ends
pub enum Direction {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
    /// Either way.
    Both,
}

impl Direction {
    pub(super) fn covers(self, up: bool) -> bool {
        match self {
            Self::ToServer => up,
            Self::ToClient => !up,
            Self::Both => true,
        }
    }
}

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cut {
    /// What is under way may be lost.
    Reset,
    /// What was sent before arrives.
    Finish,
}

/// One message of a connection: the first one or the [`nth`](Self::nth) of its kind since the fault was installed. Each
/// connection counts its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a message is what a fault is about, it does nothing itself"]
pub struct Message {
    up: bool,
    operation: Operation,
    nth: usize,
}

impl Message {
    /// The first such request.
    pub fn request(operation: Operation) -> Self {
        Self { up: true, operation, nth: 1 }
    }

    /// The first reply to such a request.
    pub fn reply(operation: Operation) -> Self {
        Self { up: false, operation, nth: 1 }
    }

    /// The `nth` instead, counted from 1.
    ///
    /// # Panics
    ///
    /// If `nth` is 0.
    pub fn nth(mut self, nth: usize) -> Self {
        assert!(nth > 0, "messages are counted from 1");
        self.nth = nth;
        self
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Delay(Direction, u64),
    Stall(Direction),
    Refuse,
    Hold(Message),
    /// The connection ends before that message or behind it.
    Before(Message),
    After(Message, Cut),
}

#[derive(Debug)]
pub(super) struct Active {
    pub(super) id: u64,
    pub(super) what: What,
    strikes: Arc<watch::Sender<usize>>,
    seen: BTreeMap<u64, usize>,
    is_spent: bool,
}

impl Active {
    /// Counts a message; whether it is the one. Says so once.
    pub(super) fn claims(&mut self, conn: u64, up: bool, seen: Operation) -> bool {
        let (What::Hold(message) | What::Before(message) | What::After(message, _)) = self.what
        else {
            return false;
        };
        if message.up != up || !message.operation.means(seen) {
            return false;
        }
        let count = self.seen.entry(conn).or_default();
        *count += 1;
        let is_it = *count == message.nth && !self.is_spent;
        self.is_spent |= is_it;
        is_it
    }

    pub(super) fn strike(&self) {
        self.strikes.send_modify(|strikes| *strikes += 1);
    }
}

/// What a link knows. The first link has no faults: it is for whoever asks for none.
#[derive(Debug, Default)]
pub(super) struct LinkState {
    /// The one server behind it; else all.
    pub(super) server: Option<usize>,
    pub(super) faults: Vec<Active>,
    pub(super) log: Vec<Operation>,
    pub(super) messages: BTreeMap<(bool, Operation), usize>,
    pub(super) accepted: usize,
}

/// A link to the servers with faults on demand, and counts of what goes over it.
///
/// Clients that connect by its [connect string](Self::connect_string) use it. It stays as long as the ensemble.
#[derive(Clone)]
pub struct Link {
    world: Arc<World>,
    number: usize,
    connect_string: String,
}

impl Link {
    pub(super) fn new(world: &Arc<World>, server: Option<usize>) -> Self {
        let number = world.change(|state| {
            state.links.push(LinkState { server, ..LinkState::default() });
            state.links.len() - 1
        });
        let connect_string = format!("sim:{}.{number}", world.number);
        Self { world: world.clone(), number, connect_string }
    }

    /// Where clients connect.
    #[must_use]
    pub fn connect_string(&self) -> &str {
        &self.connect_string
    }

    /// A client over this link, to look at nodes and to change them.
    ///
    /// # Cancel safety
    ///
    /// Nothing stays.
    ///
    /// # Panics
    ///
    /// If no server is in reach.
    pub async fn admin(&self) -> Admin {
        Admin::connect(&self.world, self.number).await
    }

    fn install(&self, what: What) -> Fault {
        let strikes = Arc::new(watch::Sender::new(0));
        let active = |id| Active {
            id,
            what,
            strikes: strikes.clone(),
            seen: BTreeMap::new(),
            is_spent: false,
        };
        let id = self.world.change(|state| {
            let id = state.number();
            state.links[self.number].faults.push(active(id));
            id
        });
        Fault { world: self.world.clone(), link: self.number, id, strikes }
    }

    /// What goes that way arrives later by `latency`, in order. Delays add up.
    pub fn delay(&self, direction: Direction, latency: Duration) -> Fault {
        self.install(What::Delay(direction, millis(latency)))
    }

    /// What goes that way is held back, the ends of connections too, and delivered when the fault is healed.
    pub fn stall(&self, direction: Direction) -> Fault {
        self.install(What::Stall(direction))
    }

    /// New connections are reset at once; those there are stay.
    pub fn refuse(&self) -> Fault {
        self.install(What::Refuse)
    }

    /// Cuts all connections there are, now. Says how many they were.
    #[allow(clippy::must_use_candidate)] // it is called for what it does
    pub fn cut(&self, cut: Cut) -> usize {
        self.world.change(|state| {
            let is_ours = |conn: &Conn| conn.link == self.number && conn.with_client;
            let ours = state.conns.iter().filter(|(_, conn)| is_ours(conn));
            let ours: Vec<_> = ours.map(|(number, _)| *number).collect();
            ours.iter().for_each(|number| state.cut_conn(*number, cut));
            ours.len()
        })
    }

    /// Exactly that message is lost, and its connection is reset there. If it is a reply, the server has done what the
    /// request asked for.
    pub fn lose(&self, message: Message) -> Fault {
        self.install(What::Before(message))
    }

    /// That message, and what comes behind it in its direction, is held until the fault is healed.
    pub fn hold(&self, message: Message) -> Fault {
        self.install(What::Hold(message))
    }

    /// Forwards that message, then cuts its connection.
    pub fn cut_at(&self, message: Message, cut: Cut) -> Fault {
        self.install(What::After(message, cut))
    }

    fn messages(&self, up: bool, operation: Operation) -> usize {
        self.world.change(|state| {
            let counts = state.links[self.number].messages.iter();
            let meant = counts.filter(|((way, seen), _)| *way == up && operation.means(*seen));
            meant.map(|(_, count)| count).sum()
        })
    }

    /// How many such requests were sent, also those that a fault held back or lost.
    #[must_use]
    pub fn requests(&self, operation: Operation) -> usize {
        self.messages(true, operation)
    }

    /// How many replies to such requests were sent, also those that a fault held back or lost.
    #[must_use]
    pub fn replies(&self, operation: Operation) -> usize {
        self.messages(false, operation)
    }

    /// How many connections there are now.
    #[must_use]
    pub fn connections(&self) -> usize {
        let is_ours = |conn: &&Conn| conn.link == self.number && conn.with_client;
        self.world.change(|state| state.conns.values().filter(is_ours).count())
    }

    /// How many connections there ever were, without those refused.
    #[must_use]
    pub fn accepted(&self) -> usize {
        self.world.change(|state| state.links[self.number].accepted)
    }

    /// The requests in their order, without handshakes and pings.
    #[must_use]
    pub fn log(&self) -> Vec<Operation> {
        self.world.change(|state| state.links[self.number].log.clone())
    }

    /// Begins the [`log`](Self::log) anew.
    pub fn clear_log(&self) {
        self.world.change(|state| state.links[self.number].log.clear());
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("connect_string", &self.connect_string).finish_non_exhaustive()
    }
}

/// A fault of a [`Link`], until it is healed or dropped. A connection that was cut stays cut.
#[must_use = "dropping the fault heals it"]
pub struct Fault {
    world: Arc<World>,
    link: usize,
    id: u64,
    strikes: Arc<watch::Sender<usize>>,
}

impl Fault {
    /// How often it has struck: once for a fault about one [`Message`]; a stall or a delay with each message that it
    /// holds up, a refusal with each connection refused.
    #[must_use]
    pub fn strikes(&self) -> usize {
        *self.strikes.borrow()
    }

    /// Waits until it has struck, at once if it has already.
    ///
    /// # Cancel safety
    ///
    /// Nothing changes.
    pub async fn struck(&self) {
        // The sender is in `self`.
        let _ = self.strikes.subscribe().wait_for(|count| *count > 0).await;
    }

    /// Ends the fault, as dropping it does.
    pub fn heal(self) {}
}

impl Drop for Fault {
    fn drop(&mut self) {
        self.world.change(|state| {
            state.links[self.link].faults.retain(|fault| fault.id != self.id);
            state.unblocked();
        });
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fault").field("strikes", &self.strikes()).finish_non_exhaustive()
    }
}
