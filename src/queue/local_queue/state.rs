//! What a local queue consists of: the tasks that wait, the seat, and the ends that waiters and holders have.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};

use tokio::sync::{Notify, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::client::ChildrenWatch;
use crate::clock::Moment;
use crate::error::Error;
use crate::lock::Mutex;
use crate::queue::create::Sent;
use crate::queue::epochs::Epochs;
use crate::queue::hold::HoldState;
use crate::queue::node::{Left, OwnedNode};
use crate::queue::request::{Request, Stop};
use crate::queue::rules::admission::Family;
use crate::session::Session;
use crate::session::epoch::Asker;
use crate::session::retry::Retry;

/// `None`: another contender is first, and the caller asked not to wait.
pub(crate) type Answer = Result<Option<Hold>, Error>;

/// Whether the servers said that another contender is first.
pub(crate) type Queued = Arc<watch::Sender<bool>>;

/// Runs an entry: a task of the session's that takes the seat.
pub(in crate::queue) type Enter = fn(Arc<LocalQueue>, Start);

/// What an entry begins with.
pub(in crate::queue) enum Start {
    /// A create, that may have been sent.
    Create(Option<Sent>),
    /// The node of a hold that was lost.
    Again(OwnedNode),
}

pub(in crate::queue) struct LocalQueue {
    pub(in crate::queue) epochs: Arc<Epochs>,
    pub(in crate::queue) family: Family,
    /// Counts the nodes, until they are known to be gone.
    pub(in crate::queue) nodes: TaskTracker,
    pub(super) enter: Enter,
    pub(super) me: Weak<Self>,
    /// For the entry: a waiter left.
    pub(super) left: Notify,
    pub(super) state: Mutex<State>,
}

#[derive(Debug)]
pub(super) struct State {
    /// By their tickets: in the order in which they asked.
    pub(super) waiters: BTreeMap<u64, Waiter>,
    pub(super) next_ticket: u64,
    /// Whether some of them asked not to wait, or were not told yet that they do.
    pub(super) has_tries: bool,
    pub(super) has_untold: bool,
    pub(super) seat: Seat,
    /// Of the last hold that began.
    pub(super) hold: u64,
}

#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) request: Arc<Request>,
    pub(super) asker: Asker,
    pub(super) queued: Queued,
    /// Of the present trouble.
    pub(super) began: Moment,
    pub(super) retry: Retry,
    pub(super) reply: oneshot::Sender<Answer>,
}

#[derive(Debug)]
pub(super) enum Seat {
    Empty,
    /// `behind`: the servers said that another contender is first.
    Entering {
        behind: bool,
    },
    Held(Admitted),
    /// The token ends the task that keeps it, if it is kept.
    Idle(Admitted, Option<CancellationToken>),
}

/// A node that is first.
#[derive(Debug)]
pub(in crate::queue) struct Admitted {
    pub(in crate::queue) node: OwnedNode,
    /// Whose data and ACLs it has.
    pub(in crate::queue) request: Arc<Request>,
    pub(in crate::queue) alone: Alone,
    /// A waiter with a smaller ticket may hold by it.
    pub(in crate::queue) serves: u64,
}

/// Whether no other contender is at the path. It ends for good, for one node.
#[derive(Debug)]
pub(in crate::queue) enum Alone {
    NotAsked,
    Asked,
    Yes(Arc<Mutex<ChildrenWatch>>),
    Over,
}

/// Why a node that is first does not come to hold.
pub(in crate::queue) enum NotAdmitted {
    /// The session lease has ended.
    NoLease(Admitted),
    Stop(Stop),
}

/// What became of a seat that was given back.
pub(super) enum GivenBack {
    /// Another task of this session has it, or will, or it is kept.
    Passed,
    Leaving(oneshot::Receiver<Left>),
    /// The node was gone before.
    Gone,
}

/// A hold, for its waiter. Dropping it releases.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(super) state: Arc<HoldState>,
    pub(super) number: u64,
    /// Taken by the release.
    pub(super) queue: Option<Arc<LocalQueue>>,
}

/// A waiter's end. Dropping it leaves the queue; a hold that was sent comes back.
#[derive(Debug)]
pub(in crate::queue) struct Waiting {
    pub(super) queue: Arc<LocalQueue>,
    pub(super) ticket: u64,
    pub(super) answer: oneshot::Receiver<Answer>,
}

impl LocalQueue {
    pub(in crate::queue) fn new(epochs: &Arc<Epochs>, family: Family, enter: Enter) -> Arc<Self> {
        let (has_tries, has_untold) = (false, false);
        let (waiters, seat) = (BTreeMap::new(), Seat::Empty);
        let state = State { waiters, next_ticket: 0, has_tries, has_untold, seat, hold: 0 };
        Arc::new_cyclic(|me| Self {
            epochs: epochs.clone(),
            family,
            nodes: TaskTracker::new(),
            enter,
            me: me.clone(),
            left: Notify::new(),
            state: Mutex::new(state),
        })
    }

    pub(in crate::queue) fn session(&self) -> &Arc<Session> {
        &self.epochs.session
    }
}

impl fmt::Debug for LocalQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalQueue").field("state", &*self.state.lock()).finish_non_exhaustive()
    }
}
