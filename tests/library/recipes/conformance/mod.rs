//! What every recipe promises alike: a row is a recipe, a test is a promise that each row keeps.

mod alike;
mod troubles;

use std::fmt::{self, Debug, Formatter};
use std::ops::Deref;

use tokio::sync::mpsc;

use crate::prelude::*;

/// A recipe at a path.
#[derive(Clone, Debug)]
pub(crate) enum Contender {
    Lock(Arc<dyn Lock>),
    Multi(InterProcessMultiLock),
    /// Leading is holding, and each acquire is a candidate of its own.
    Latch(Curator, String),
    Selector(Curator, String),
}

/// What a contender holds. It derefs to the hold, or to that of the first member.
#[derive(Debug)]
pub(crate) enum Held {
    Lock(Guard),
    Multi(Guards),
    Latch(Hold, LeaderLatch),
    Selector(Hold, LeaderRun<()>),
}

impl Contender {
    pub(crate) fn path(&self) -> &str {
        match self {
            Self::Lock(lock) => lock.path(),
            Self::Multi(multi) => multi.path(),
            Self::Latch(_, path) | Self::Selector(_, path) => path,
        }
    }

    pub(crate) async fn acquire(&self) -> Result<Held, Error> {
        match self {
            Self::Lock(lock) => lock.acquire().await.map(Held::Lock),
            Self::Multi(multi) => multi.acquire().await.map(Held::Multi),
            Self::Latch(curator, path) => {
                let latch = curator.leader_latch(path)?;
                latch.leadership().await.map(|hold| Held::Latch(hold, latch))
            }
            Self::Selector(curator, path) => {
                let (begins, mut began) = mpsc::unbounded_channel();
                let run = curator.leader_selector(path)?.run(move |term: Hold| {
                    let stop = term.cancellation_token();
                    begins.send(term).unwrap();
                    stop.cancelled_owned()
                });
                tokio::select! {
                    Some(hold) = began.recv() => Ok(Held::Selector(hold, run)),
                    ended = run.next_report() => Err(ended.expect("a report").unwrap_err().error),
                }
            }
        }
    }

    /// An election has none.
    pub(crate) async fn try_acquire(&self) -> Result<Option<Held>, Error> {
        match self {
            Self::Lock(lock) => Ok(acquired(lock.try_acquire().await?).map(Held::Lock)),
            Self::Multi(multi) => Ok(acquired(multi.try_acquire().await?).map(Held::Multi)),
            election => unimplemented!("{election:?}"),
        }
    }

    pub(crate) async fn acquire_timeout(&self, limit: Duration) -> Result<Option<Held>, Error> {
        match self {
            Self::Lock(lock) => Ok(acquired(lock.acquire_timeout(limit).await?).map(Held::Lock)),
            Self::Multi(multi) => {
                Ok(acquired(multi.acquire_timeout(limit).await?).map(Held::Multi))
            }
            election => tokio::time::timeout(limit, election.acquire()).await.ok().transpose(),
        }
    }
}

impl Held {
    pub(crate) async fn release(self) -> Result<Released, Error> {
        match self {
            Self::Lock(guard) => guard.release().await,
            Self::Multi(guards) => guards.release().await,
            Self::Latch(_, latch) => latch.close().await,
            Self::Selector(_, run) => run.close().await,
        }
    }
}

impl Deref for Held {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        match self {
            Self::Lock(guard) => guard,
            Self::Multi(guards) => guards.iter().next().unwrap(),
            Self::Latch(hold, _) | Self::Selector(hold, _) => hold,
        }
    }
}

/// Makes a recipe at a path.
pub(crate) type Make = fn(&Curator, &str) -> Contender;

#[derive(Clone, Copy)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) ours: Make,
    /// A contender that excludes `ours`.
    rival: Make,
    /// Of a node's name, between GUID and number.
    infix: &'static str,
    /// The release of a lost hold is an error. (A latch or a run enters again.)
    is_lock: bool,
}

pub(crate) fn mutex(curator: &Curator, path: &str) -> Contender {
    Contender::Lock(curator.mutex(path).unwrap().into())
}

pub(crate) fn read(curator: &Curator, path: &str) -> Contender {
    Contender::Lock(curator.read_write_lock(path).unwrap().read_half())
}

pub(crate) fn write(curator: &Curator, path: &str) -> Contender {
    Contender::Lock(curator.read_write_lock(path).unwrap().write_half())
}

fn semaphore(curator: &Curator, path: &str) -> Contender {
    Contender::Lock(curator.semaphore(path, 1).unwrap().into())
}

fn multi(curator: &Curator, path: &str) -> Contender {
    let members = ["one", "other"].map(|name| format!("{path}/{name}"));
    Contender::Multi(curator.multi_lock(members).unwrap())
}

pub(crate) fn latch(curator: &Curator, path: &str) -> Contender {
    Contender::Latch(curator.clone(), path.to_owned())
}

pub(crate) fn selector(curator: &Curator, path: &str) -> Contender {
    Contender::Selector(curator.clone(), path.to_owned())
}

pub(crate) const ROWS: [Row; 7] = [
    Row { name: "mutex", ours: mutex, rival: mutex, infix: "-lock-", is_lock: true },
    Row { name: "read", ours: read, rival: write, infix: "-__READ__", is_lock: true },
    Row { name: "write", ours: write, rival: read, infix: "-__WRIT__", is_lock: true },
    Row { name: "semaphore", ours: semaphore, rival: semaphore, infix: "-lease-", is_lock: true },
    Row { name: "multi", ours: multi, rival: multi, infix: "-lock-", is_lock: true },
    Row { name: "latch", ours: latch, rival: latch, infix: "-latch-", is_lock: false },
    Row { name: "selector", ours: selector, rival: selector, infix: "-lock-", is_lock: false },
];

/// The locks, each at a path of its own.
pub(crate) fn locks(arena: &Arena, curator: &Curator) -> Vec<Contender> {
    let locks = ROWS.into_iter().filter(|row| row.is_lock);
    locks.map(|row| (row.ours)(curator, &row.path(arena))).collect()
}

/// Those that have one path and one node.
pub(crate) fn plain_locks(arena: &Arena, curator: &Curator) -> Vec<Arc<dyn Lock>> {
    let plain = |one| if let Contender::Lock(lock) = one { Some(lock) } else { None };
    locks(arena, curator).into_iter().filter_map(plain).collect()
}

/// A contender's node: its path, its session, and the transaction that created it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Node {
    created: i64,
    path: String,
    session: i64,
}

impl Node {
    fn guid(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap();
        name.strip_prefix("_c_").and_then(|name| name.get(..36)).expect("a GUID")
    }
}

/// All ephemeral nodes below `path`, first come first.
async fn nodes(arena: &Arena, path: &str) -> Vec<Node> {
    let (mut found, mut folders) = (Vec::new(), vec![path.to_owned()]);
    while let Some(folder) = folders.pop() {
        for name in children(&arena.admin, &folder).await {
            let path = format!("{folder}/{name}");
            match arena.stat(&path).await {
                Some(stat) if stat.ephemeral_owner == 0 => folders.push(path),
                Some(stat) => {
                    found.push(Node { created: stat.czxid, path, session: stat.ephemeral_owner });
                }
                None => {}
            }
        }
    }
    found.sort();
    found
}

/// Contends in a task of its own.
struct Waiting(JoinHandle<Result<Held, Error>>);

impl Waiting {
    fn new(lock: &Contender) -> Self {
        let lock = lock.clone();
        Self(tokio::spawn(async move { lock.acquire().await }))
    }

    async fn served(self, row: Row) -> Held {
        within(row.name, self.0).await.unwrap().unwrap_or_else(|error| panic!("{row:?}: {error}"))
    }
}

impl Debug for Row {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Row {
    fn path(self, arena: &Arena) -> String {
        format!("{}/{}", arena.path, self.name)
    }

    fn ours(self, arena: &Arena, curator: &Curator) -> Contender {
        (self.ours)(curator, &self.path(arena))
    }

    fn rival(self, arena: &Arena, curator: &Curator) -> Contender {
        (self.rival)(curator, &self.path(arena))
    }

    async fn nodes(self, arena: &Arena) -> Vec<Node> {
        nodes(arena, &self.path(arena)).await
    }

    async fn nodes_of(self, arena: &Arena, curator: &Curator) -> Vec<Node> {
        let Ok(session) = curator.session_id() else { return Vec::new() };
        self.nodes(arena).await.into_iter().filter(|node| node.session == session).collect()
    }

    async fn queues(self, arena: &Arena, curator: &Curator, lock: &Contender) -> Waiting {
        let waiting = Waiting::new(lock);
        let is_there = async || !self.nodes_of(arena, curator).await.is_empty();
        eventually(&format!("{self:?}: a place in the queue"), is_there).await;
        waiting
    }

    async fn holds(self, lock: &Contender) -> Held {
        let guard = within(self.name, lock.acquire()).await;
        guard.unwrap_or_else(|error| panic!("{self:?}: {error}"))
    }

    async fn nothing_is_left(self, arena: &Arena) {
        let nothing = async || self.nodes(arena).await.is_empty();
        eventually(&format!("{self:?}: no node"), nothing).await;
    }
}

/// Runs a promise for all recipes at once.
async fn each<F: Future<Output = ()>>(promise: impl Fn(Row) -> F) {
    join_all(ROWS.map(promise)).await;
}
