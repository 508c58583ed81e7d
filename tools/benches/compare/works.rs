//! The works, who does them, and the goals.

use tools::verdict::Goal;

use crate::bench_server::Link;
use crate::crew::Peer;
use crate::load::Recipe;

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// The time of acquisition and release, in milliseconds.
    Cycle,
    /// Acquisitions a second.
    Rate,
    /// From the call of release to the next acquisition, in trips; each hold lasts so many trips.
    HandOver { hold: u32 },
    /// The same between two processes, with half of the tasks and sessions each. Curator has one process.
    Across { hold: u32 },
    /// The first acquisition by another process of a lock whose node ours retains, in trips.
    GiveWay,
    /// The first acquisition of a path by this client, in trips.
    FirstAcquire,
    /// The release that follows it, in trips.
    FirstRelease,
    /// Reads that one attempt at a busy lock sends.
    BusyReads,
    /// Writes that it sends.
    BusyWrites,
    /// All requests of an acquisition and its release.
    Requests,
}

impl Kind {
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Kind::Cycle => "ms",
            Kind::Rate => "/s",
            Kind::HandOver { .. }
            | Kind::Across { .. }
            | Kind::GiveWay
            | Kind::FirstAcquire
            | Kind::FirstRelease => "trips",
            Kind::BusyReads => "reads",
            Kind::BusyWrites => "writes",
            Kind::Requests => "requests",
        }
    }
}

/// `docs/internals/benchmarks.md` says what each of them is.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) name: &'static str,
    pub(crate) link: Link,
    pub(crate) kind: Kind,
    pub(crate) recipe: Recipe,
    pub(crate) tasks: usize,
    pub(crate) locks: usize,
    pub(crate) sessions: usize,
    /// Beside ours.
    pub(crate) peers: &'static [(Peer, Option<Goal>)],
}

impl Work {
    pub(crate) fn everybody(&self) -> impl Iterator<Item = Peer> {
        [Peer::Ours].into_iter().chain(self.peers.iter().map(|(peer, _)| *peer))
    }
}

const ONE: Work = Work {
    name: "",
    link: Link::Delayed,
    kind: Kind::Cycle,
    recipe: Recipe::Mutex,
    tasks: 1,
    locks: 1,
    sessions: 1,
    peers: &[],
};

const REACQUIRE: Work = Work { name: "reacquire", ..ONE };
const RETAINED: Work =
    Work { name: "reacquire-retained", kind: Kind::Rate, recipe: Recipe::Retained, ..ONE };
const TASKS: Work = Work { name: "tasks16", kind: Kind::Rate, tasks: 16, ..ONE };
const SESSIONS: Work =
    Work { name: "sessions16", kind: Kind::Rate, tasks: 16, sessions: 16, ..ONE };

/// Each hold lasts two trips: meanwhile the next in line has seen that it is.
const HAND_OVER: Work = Work { kind: Kind::HandOver { hold: 2 }, ..SESSIONS };
const LATCH: Work = Work { name: "latch-handover", recipe: Recipe::Latch, ..HAND_OVER };
const SELECTOR: Work = Work { name: "selector-handover", recipe: Recipe::Selector, ..HAND_OVER };

/// Sixteen tasks of each of four processes read, and one writes.
const READERS: Work =
    Work { name: "readers4", recipe: Recipe::Readers, tasks: 64, sessions: 4, ..TASKS };

pub(crate) const WORKS: &[Work] = &[
    Work {
        link: Link::Direct,
        peers: &[
            (Peer::Raw, Some(Goal::Times(1.25))),
            (Peer::Curator, Some(Goal::Times(0.80))),
            (Peer::Kazoo, None),
        ],
        ..REACQUIRE
    },
    Work {
        peers: &[
            (Peer::Raw, Some(Goal::Times(1.05))),
            (Peer::Curator, Some(Goal::Times(0.66))),
            (Peer::Kazoo, Some(Goal::Times(0.50))),
        ],
        ..REACQUIRE
    },
    Work {
        link: Link::Direct,
        peers: &[(Peer::Curator, Some(Goal::AtLeastTimes(100.0)))],
        ..RETAINED
    },
    Work { peers: &[(Peer::Curator, Some(Goal::AtLeastTimes(100.0)))], ..RETAINED },
    Work {
        link: Link::Counted,
        kind: Kind::Requests,
        peers: &[(Peer::Curator, Some(Goal::AtMost(0.0)))],
        ..RETAINED
    },
    Work {
        name: "first-acquire",
        kind: Kind::FirstAcquire,
        peers: &[(Peer::Curator, Some(Goal::AtMost(2.1)))],
        ..ONE
    },
    Work {
        name: "first-release",
        kind: Kind::FirstRelease,
        peers: &[(Peer::Curator, Some(Goal::AtMost(1.05)))],
        ..ONE
    },
    Work {
        link: Link::Direct,
        peers: &[
            (Peer::Curator, Some(Goal::AtLeastTimes(30.0))),
            (Peer::CuratorEach, Some(Goal::AtLeastTimes(30.0))),
            (Peer::Tokio, None),
        ],
        ..TASKS
    },
    Work {
        peers: &[
            (Peer::Curator, Some(Goal::AtLeastTimes(1000.0))),
            (Peer::CuratorEach, Some(Goal::AtLeastTimes(1000.0))),
        ],
        ..TASKS
    },
    Work {
        link: Link::Direct,
        peers: &[(Peer::Curator, Some(Goal::AtLeastTimes(1.8)))],
        ..SESSIONS
    },
    Work { peers: &[(Peer::Curator, None)], ..SESSIONS },
    Work {
        name: "hand-over-2",
        kind: Kind::Across { hold: 2 },
        tasks: 4,
        sessions: 4,
        peers: &[(Peer::Curator, Some(Goal::AtMost(1.1)))],
        ..ONE
    },
    Work {
        name: "hand-over-0",
        kind: Kind::HandOver { hold: 0 },
        peers: &[(Peer::Curator, Some(Goal::AtMost(1.5)))],
        ..SESSIONS
    },
    Work {
        name: "give-way",
        kind: Kind::GiveWay,
        peers: &[(Peer::Curator, Some(Goal::AtMost(2.2)))],
        ..ONE
    },
    Work {
        name: "give-way-held",
        // So long that the stranger waits, and the holder knows of it.
        kind: Kind::Across { hold: 4 },
        recipe: Recipe::Retained,
        tasks: 2,
        sessions: 2,
        peers: &[(Peer::Curator, Some(Goal::AtMost(1.2)))],
        ..ONE
    },
    Work {
        name: "locks64",
        link: Link::Direct,
        kind: Kind::Rate,
        tasks: 64,
        locks: 64,
        peers: &[(Peer::Curator, Some(Goal::AtLeastTimes(1.5)))],
        ..ONE
    },
    Work {
        name: "busy-reads",
        link: Link::Counted,
        kind: Kind::BusyReads,
        peers: &[(Peer::Curator, Some(Goal::AtMost(2.0)))],
        ..ONE
    },
    Work {
        name: "busy-writes",
        link: Link::Counted,
        kind: Kind::BusyWrites,
        peers: &[(Peer::Curator, Some(Goal::AtMost(0.0)))],
        ..ONE
    },
    Work {
        name: "read",
        recipe: Recipe::Read,
        peers: &[(Peer::Curator, Some(Goal::Times(0.75)))],
        ..REACQUIRE
    },
    Work {
        name: "write",
        recipe: Recipe::Write,
        peers: &[(Peer::Curator, Some(Goal::Times(0.75)))],
        ..REACQUIRE
    },
    Work {
        name: "semaphore",
        recipe: Recipe::Semaphore(3),
        peers: &[(Peer::Curator, Some(Goal::Times(0.6)))],
        ..REACQUIRE
    },
    Work { name: "multi", recipe: Recipe::Multi(3), peers: &[(Peer::Curator, None)], ..REACQUIRE },
    Work {
        name: "read16",
        recipe: Recipe::Read,
        peers: &[(Peer::Curator, Some(Goal::AtLeastTimes(1000.0)))],
        ..TASKS
    },
    Work {
        name: "read-write16",
        recipe: Recipe::ReadWrite,
        peers: &[(Peer::Curator, None)],
        ..TASKS
    },
    Work {
        name: "write16",
        recipe: Recipe::Write,
        peers: &[(Peer::Curator, Some(Goal::AtLeastTimes(1000.0)))],
        ..TASKS
    },
    Work {
        name: "semaphore16",
        recipe: Recipe::Semaphore(4),
        peers: &[(Peer::Curator, Some(Goal::AtLeastTimes(500.0)))],
        ..TASKS
    },
    Work { peers: &[(Peer::Curator, Some(Goal::AtLeastTimes(100.0)))], ..READERS },
    Work {
        name: "readers4-writer",
        kind: Kind::HandOver { hold: 0 },
        peers: &[(Peer::Curator, Some(Goal::AtMost(4.2)))],
        ..READERS
    },
    Work { link: Link::Direct, peers: &[(Peer::Curator, None)], ..LATCH },
    Work { peers: &[(Peer::Curator, Some(Goal::AtMost(1.2)))], ..LATCH },
    Work { link: Link::Direct, peers: &[(Peer::Curator, None)], ..SELECTOR },
    Work { peers: &[(Peer::Curator, Some(Goal::AtMost(1.2)))], ..SELECTOR },
    Work {
        name: "latch-start",
        kind: Kind::FirstAcquire,
        recipe: Recipe::Latch,
        peers: &[(Peer::Curator, Some(Goal::AtMost(2.1)))],
        ..ONE
    },
];

/// Measured only where they are named: what a hold costs as its lock gets more waiters, and its client more locks.
pub(crate) const GROWTH: &[Work] = &[
    waiters("waiters10", 10, 10),
    requests(waiters("waiters10", 10, 10)),
    waiters("waiters100", 100, 20),
    requests(waiters("waiters100", 100, 20)),
    waiters("waiters1000", 1_000, 20),
    requests(waiters("waiters1000", 1_000, 20)),
    locks("locks10", 10),
    requests(locks("locks10", 10)),
    locks("locks100", 100),
    requests(locks("locks100", 100)),
    locks("locks1000", 1_000),
    requests(locks("locks1000", 1_000)),
];

/// One lock, N tasks over at most 20 sessions, holding for nothing.
const fn waiters(name: &'static str, tasks: usize, sessions: usize) -> Work {
    Work { name, link: Link::Direct, tasks, sessions, peers: &[(Peer::CuratorEach, None)], ..ONE }
}

/// N locks, N tasks, one client.
const fn locks(name: &'static str, locks: usize) -> Work {
    Work { name, link: Link::Direct, tasks: locks, locks, peers: &[(Peer::Curator, None)], ..ONE }
}

/// The same work through the proxy that counts.
const fn requests(work: Work) -> Work {
    Work { link: Link::Counted, kind: Kind::Requests, ..work }
}
