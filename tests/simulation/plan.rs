//! What a run does: who works, with what, and what goes wrong when. All of it follows from the seed, and each part can be
//! left out, so that a run that failed can be made smaller.

use std::fmt;
use std::time::Duration;

use fastrand::Rng;
use zookeeper_recipes::simulation::Version;

/// One run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) servers: usize,
    /// The version of the servers.
    pub(crate) version: Version,
    /// After how many ticks without a majority a leader resigns.
    pub(crate) sync_limit: u32,
    /// Whether the world picks the next task.
    pub(crate) ordered: bool,
    pub(crate) paths: Vec<Recipe>,
    pub(crate) processes: Vec<Member>,
    pub(crate) faults: Vec<Fault>,
    /// How long the work goes on.
    pub(crate) length: Duration,
    /// How often servers look for containers that were left empty.
    pub(crate) reap_every: u64,
    /// Whether mutexes keep their nodes for a while.
    pub(crate) retains: bool,
    /// How long after a commit a server may apply it, in milliseconds.
    pub(crate) apply_lag: u64,
    /// How many records of jobs that run once are kept.
    pub(crate) kept: usize,
    /// The longest pause between two rounds, and the longest hold.
    pub(crate) pause: u64,
    pub(crate) hold: u64,
}

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recipe {
    Mutex,
    /// With strangers that follow Apache Curator's steps.
    Shared,
    /// With strangers that follow kazoo's.
    Kazoo,
    ReadWrite,
    Semaphore(usize),
    Slots(usize),
    Multi,
    Latch,
    Selector,
    Count,
    Once,
    /// Of a group, with one id.
    Member,
}

/// One process.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) session: u64,
    /// By how much its clock is fast, in millionths.
    pub(crate) clock: i32,
    pub(crate) suspended: bool,
    /// Each works at one path.
    pub(crate) tasks: Vec<usize>,
}

/// What goes wrong, when, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    pub(crate) at: u64,
    pub(crate) lasts: u64,
    pub(crate) what: What,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    Cut(usize),
    Finish(usize),
    LoseRequest(usize, u8),
    LoseReply(usize, u8),
    HoldReply(usize, u8),
    StallToServer(usize),
    StallToClient(usize),
    Refuse(usize),
    Delay(usize),
    Expire(usize),
    Partition(usize),
    Pause(usize),
    Kill(usize),
    DeleteContender(usize),
    DeletePath(usize),
    CopyName(usize, usize),
    StopServer(usize),
    PauseServer(usize),
    /// All servers refuse.
    StopServers,
    /// All servers are silent.
    PauseServers,
    Isolate(usize),
    Part(usize, usize),
    Lag(usize),
}

impl Plan {
    pub(crate) fn of(seed: u64, long: bool, wide: bool) -> Self {
        let mut rng = Rng::with_seed(seed);
        // Servers that part for long, under long holds: a deposed leader goes on to answer reads.
        let is_of_servers = seed % 8 == 1 && !long && !wide;
        let servers = if rng.u8(..3) == 0 || is_of_servers { 3 } else { 1 };
        let sync_limit = if is_of_servers && rng.bool() { 30 } else { 10 };
        let recipes = [
            Recipe::Mutex,
            Recipe::Mutex,
            Recipe::Shared,
            Recipe::Kazoo,
            Recipe::ReadWrite,
            Recipe::ReadWrite,
            Recipe::Semaphore(rng.usize(1..4)),
            Recipe::Semaphore(1),
            Recipe::Multi,
            Recipe::Latch,
            Recipe::Selector,
            Recipe::Count,
        ];
        let count = if wide { 50 } else { rng.usize(1..=4) };
        // One more than fit: the plans of seeds that once failed stay as they were.
        let counts = if seed.is_multiple_of(2) { Recipe::Once } else { Recipe::Count };
        let mut swapped = Rng::with_seed(seed ^ 0x6d65_6d62_6572);
        let paths = (0..count).map(|_| match recipes[rng.usize(..recipes.len())] {
            Recipe::Count => counts,
            Recipe::Latch if swapped.bool() => Recipe::Member,
            recipe => recipe,
        });
        // One path in twelve has slots, by a stream of its own.
        let mut of_slots = Rng::with_seed(seed ^ 0x0073_6c6f_7473);
        let paths = paths.map(|recipe| match of_slots.usize(..12) {
            0 => Recipe::Slots(of_slots.usize(1..5)),
            _ => recipe,
        });
        let mut paths: Vec<_> = paths.collect();
        let members = (0..rng.usize(2..=5)).map(|_| {
            let tasks = if wide { 12 } else { rng.usize(1..=4) };
            Member {
                session: [4_000, 6_000, 10_000, 15_000][rng.usize(..4)],
                clock: rng.i32(-33_333..=33_333),
                suspended: rng.u8(..8) == 0,
                tasks: (0..tasks).map(|_| rng.usize(..count)).collect(),
            }
        });
        let mut processes: Vec<_> = members.collect();
        let length = if long { 3_600_000 } else { rng.u64(60_000..120_000) };
        let every = match (seed % 8, rng.u64(300..2_500)) {
            (1, every) if is_of_servers => every * 4,
            (2..=5, every) => every / 3,
            (_, every) => every,
        };
        let mut faults = Vec::new();
        let mut at = rng.u64(..every);
        // Some runs have none.
        while rng.u8(..64) != 0 && at + 20_000 < length {
            let process = rng.usize(..processes.len());
            let (server, other) = (rng.usize(..servers), rng.usize(..servers));
            let nth = rng.u8(1..6);
            let kind = match servers {
                1 => rng.u8(..27),
                _ if is_of_servers => rng.u8(27..33),
                _ => rng.u8(..33),
            };
            let what = match kind {
                0..=3 => What::Cut(process),
                4 => What::Finish(process),
                5..=7 => What::LoseRequest(process, nth),
                8..=10 => What::LoseReply(process, nth),
                11 => What::HoldReply(process, nth),
                12 => What::StallToServer(process),
                13 => What::StallToClient(process),
                14 => What::Refuse(process),
                15 => What::Delay(process),
                16 => What::Expire(process),
                17 | 18 => What::Partition(process),
                19 | 20 => What::Pause(process),
                21 => What::Kill(process),
                22 => What::DeleteContender(rng.usize(..count)),
                23 => What::DeletePath(rng.usize(..count)),
                26 => What::CopyName(process, rng.usize(..count)),
                24 | 27 => What::StopServer(server),
                25 | 28 => What::PauseServer(server),
                29 => What::Isolate(server),
                30 => What::Part(server, other),
                _ => What::Lag(server),
            };
            let lasts = match rng.u8(..4) {
                _ if is_of_servers => rng.u64(4_000..20_000),
                0 => rng.u64(1..100),
                1 | 2 => rng.u64(100..4_000),
                _ => rng.u64(4_000..20_000),
            };
            faults.push(Fault { at, lasts, what });
            at += rng.u64(1..2 * every);
        }
        let pause = [20, 200, 2_000][rng.usize(..3)];
        let hold = match (wide, is_of_servers) {
            (true, _) => 4_000,
            (_, true) => 8_000,
            _ => [5, 50, 1_000, 8_000][rng.usize(..4)],
        };
        let length = Duration::from_millis(length);
        // Real servers do so once a minute. A path that is made again begins its numbers anew.
        let reap_every = [60_000, 1_000, 30][rng.usize(..3)];
        let retains = rng.bool();
        // What came later draws from a stream of its own, so that the rest of a seed's plan stays as it was.
        let mut later = Rng::with_seed(seed ^ 0x6a75_6467_6573);
        let kept = [1_000, 40, 11, 3][later.usize(..4)];
        let apply_lag = [1, 1, 10, 60][later.usize(..4)];
        // Outages of all servers, of a tenth to twice a session timeout.
        for _ in 0..[0, 0, 1, 2][later.usize(..4)] {
            let what = [What::StopServers, What::PauseServers][later.usize(..2)];
            let session = processes.first().map_or(15_000, |member| member.session);
            let lasts = later.u64(session / 10..2 * session);
            let at = later.u64(..length.as_millis() as u64 / 2);
            faults.push(Fault { at, lasts, what });
        }
        faults.sort_by_key(|fault| fault.at);
        // Many tasks of each process at one path: they share nodes, pass them on, and leave them.
        if seed % 10 == 7 {
            paths.truncate(1);
            for member in &mut processes {
                member.tasks = vec![0; later.usize(4..=8)];
            }
        }
        let version = Version::ALL[Rng::with_seed(seed ^ 0x7665_7273).usize(..Version::ALL.len())];
        Self {
            seed,
            servers,
            version,
            sync_limit,
            ordered: true,
            paths,
            processes,
            faults,
            length,
            reap_every,
            retains,
            apply_lag,
            kept,
            pause,
            hold,
        }
    }

    /// Smaller ones, the smallest first.
    pub(crate) fn smaller(&self) -> Vec<Self> {
        let mut smaller = Vec::new();
        for part in [2, 4, 8] {
            let size = self.faults.len().div_ceil(part).max(1);
            for begin in (0..self.faults.len()).step_by(size) {
                let mut plan = self.clone();
                plan.faults.drain(begin..(begin + size).min(plan.faults.len()));
                smaller.push(plan);
            }
        }
        for process in 0..self.processes.len() {
            for task in 0..self.processes[process].tasks.len() {
                let mut plan = self.clone();
                plan.processes[process].tasks.remove(task);
                smaller.push(plan);
            }
        }
        let mut plan = self.clone();
        plan.length = self.length / 2;
        plan.faults.retain(|fault| u128::from(fault.at) < plan.length.as_millis());
        smaller.push(plan);
        smaller
    }
}

/// As the file of plans that failed has it.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            seed, servers, version, sync_limit, ordered, length, reap_every, retains, ..
        } = self;
        let Self { apply_lag, kept, pause, hold, .. } = self;
        let mut paths = self.paths.iter().map(|path| format!("Recipe::{path:?}"));
        let mut processes = self.processes.iter().map(|member| {
            let Member { session, clock, suspended, tasks } = member;
            format!("member({session}, {clock}, {suspended}, &{tasks:?})")
        });
        let mut faults = self.faults.iter().map(|fault| {
            let Fault { at, lasts, what } = fault;
            format!("fault({at}, {lasts}, What::{what:?})")
        });
        let list = |items: &mut dyn Iterator<Item = String>| items.collect::<Vec<_>>().join(", ");
        write!(
            f,
            "Plan {{ seed: {seed}, servers: {servers}, version: Version::{version:?}, sync_limit: {sync_limit}, ordered: {ordered}, paths: vec![{}], \
             processes: vec![{}], faults: vec![{}], length: Duration::from_millis({}), reap_every: {reap_every}, \
             retains: {retains}, apply_lag: {apply_lag}, kept: {kept}, pause: {pause}, hold: {hold} }}",
            list(&mut paths),
            list(&mut processes),
            list(&mut faults),
            length.as_millis(),
        )
    }
}
