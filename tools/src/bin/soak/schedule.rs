//! Which faults, when and on whom: drawn from the seed alone. Whom "the holder" means is seen when its time has come.

use std::time::Duration;

use fastrand::Rng;
use zookeeper_testkit::{Cut, Direction, Operation};

pub(crate) const ROWS: usize = 6;
pub(crate) const MEMBERS: usize = 3;

/// A worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whom {
    Holder,
    /// The next one to hold from here on, at the begin of the hold.
    NextHolder,
    Row(usize),
}

/// Which of a worker's links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To {
    All,
    One(usize),
}

/// A member of the ensemble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Leader,
    Member(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Cut(To, Cut),
    Stall(To, Direction),
    Delay(To, Duration),
    Refuse(To),
    LoseRequest(Operation),
    LoseReply(Operation),
    /// For 1.2 times its session timeout.
    StopWorker,
    KillWorker,
    KillMember(Which),
    RestartMember(Which),
    PauseMember(Which),
    IsolateMember(Which),
    /// These two do not hear each other; the third hears both.
    PartMembers(usize, usize),
    /// No member hears another: no quorum, for a short time.
    PartAll,
    CutFromClients(Which),
}

impl Kind {
    /// Takes a member from the quorum. One at a time, so that a majority is there but for moments.
    pub(crate) fn is_of_the_quorum(self) -> bool {
        use Kind::{IsolateMember, KillMember, PartAll, PartMembers, PauseMember, RestartMember};
        let takes = matches!(self, KillMember(_) | RestartMember(_) | PauseMember(_));
        takes || matches!(self, IsolateMember(_) | PartMembers(..) | PartAll)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Cut(_, Cut::Reset) => "cut (reset)",
            Kind::Cut(..) => "cut (end)",
            Kind::Stall(..) => "stall",
            Kind::Delay(..) => "delay",
            Kind::Refuse(_) => "refuse",
            Kind::LoseRequest(_) => "lost request",
            Kind::LoseReply(_) => "lost reply",
            Kind::StopWorker => "worker stopped",
            Kind::KillWorker => "worker killed",
            Kind::KillMember(Which::Leader) => "leader killed",
            Kind::KillMember(_) => "member killed",
            Kind::RestartMember(Which::Leader) => "leader restarted",
            Kind::RestartMember(_) => "member restarted",
            Kind::PauseMember(Which::Leader) => "leader paused",
            Kind::PauseMember(_) => "member paused",
            Kind::IsolateMember(Which::Leader) => "leader isolated",
            Kind::IsolateMember(_) => "member isolated",
            Kind::PartMembers(..) => "members parted",
            Kind::PartAll => "no quorum",
            Kind::CutFromClients(_) => "cut from clients",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Planned {
    /// After the one before was begun.
    pub(crate) after: Duration,
    pub(crate) lasts: Duration,
    /// Its worker, if it is a worker's.
    pub(crate) whom: Whom,
    pub(crate) kind: Kind,
}

/// The mean time between two faults.
const BETWEEN: u64 = 1300;

/// What can be lost. Creates and deletes are what matters most. Replies are events as well.
const REQUESTS: [Operation; 13] = {
    use Operation::{Connect, Create, Delete, GetData, List, Multi, Ping, SetWatches, Sync};
    [
        Create, Create, Create, Delete, Delete, Delete, List, GetData, Sync, Ping, Multi,
        SetWatches, Connect,
    ]
};

pub(crate) fn schedule(seed: u64, faults: usize) -> Vec<Planned> {
    let mut rng = Rng::with_seed(seed);
    (0..faults).map(|_| plan(&mut rng)).collect()
}

fn plan(rng: &mut Rng) -> Planned {
    // Many follow at once, so that faults overlap.
    let after = if rng.u8(..4) == 0 { rng.u64(..100) } else { rng.u64(..BETWEEN * 8 / 3) };
    let lasts = if rng.u8(..5) == 0 { rng.u64(1500..4000) } else { rng.u64(100..1500) };
    let (whom, links) = (whom(rng), links(rng));
    let kind = kind(rng, links);
    let lasts = match kind {
        Kind::PartAll => lasts.min(1500),
        // Beyond the session.
        Kind::Stall(To::All, _) if rng.u8(..3) == 0 => rng.u64(2500..5000),
        _ => lasts,
    };
    let [after, lasts] = [after, lasts].map(Duration::from_millis);
    Planned { after, lasts, whom, kind }
}

fn kind(rng: &mut Rng, links: To) -> Kind {
    match rng.u8(..100) {
        0..10 => Kind::Cut(links, if rng.bool() { Cut::Reset } else { Cut::Finish }),
        10..24 => Kind::Stall(links, direction(rng)),
        24..31 => Kind::Delay(links, Duration::from_millis(rng.u64(5..400))),
        31..36 => Kind::Refuse(links),
        36..45 => Kind::LoseRequest(REQUESTS[rng.usize(..REQUESTS.len())]),
        45..56 => Kind::LoseReply(
            *REQUESTS.get(rng.usize(..REQUESTS.len() + 2)).unwrap_or(&Operation::Event),
        ),
        56..70 => Kind::StopWorker,
        70..80 => Kind::KillWorker,
        80..82 => Kind::KillMember(which(rng)),
        82..84 => Kind::RestartMember(which(rng)),
        84..88 => Kind::PauseMember(which(rng)),
        88..92 => Kind::IsolateMember(which(rng)),
        92..95 => {
            let one = rng.usize(..MEMBERS);
            Kind::PartMembers(one, (one + 1) % MEMBERS)
        }
        95..97 => Kind::PartAll,
        _ => Kind::CutFromClients(which(rng)),
    }
}

fn whom(rng: &mut Rng) -> Whom {
    if rng.u8(..5) < 2 { Whom::Holder } else { Whom::Row(rng.usize(..ROWS)) }
}

fn links(rng: &mut Rng) -> To {
    if rng.u8(..3) < 2 { To::All } else { To::One(rng.usize(..MEMBERS)) }
}

fn which(rng: &mut Rng) -> Which {
    if rng.bool() { Which::Leader } else { Which::Member(rng.usize(..MEMBERS)) }
}

fn direction(rng: &mut Rng) -> Direction {
    *rng.choice(&[Direction::ToServer, Direction::ToClient, Direction::Both])
        .unwrap_or(&Direction::Both)
}

/// For workers that believe until they release: each fault stops the next holder for longer than its session.
pub(crate) fn stops(seed: u64, faults: usize) -> Vec<Planned> {
    let mut rng = Rng::with_seed(seed);
    let planned = |_| Planned {
        after: Duration::from_millis(rng.u64(3000..4000)),
        lasts: Duration::ZERO,
        whom: Whom::NextHolder,
        kind: Kind::StopWorker,
    };
    (0..faults).map(planned).collect()
}
