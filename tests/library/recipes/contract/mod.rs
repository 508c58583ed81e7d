//! The promises that all recipes keep alike: a row is a recipe, and a test is a promise that each row keeps.

mod failures;
mod undisturbed;

use std::fmt::{self, Debug, Formatter};

use crate::prelude::*;
use crate::support::contenders::{
    Contender, Held, Make, latch, multi, mutex, read, selector, semaphore, write,
};

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
pub(crate) fn locks(testbed: &Testbed, curator: &Curator) -> Vec<Contender> {
    let locks = ROWS.into_iter().filter(|row| row.is_lock);
    locks.map(|row| (row.ours)(curator, &row.path(testbed))).collect()
}

/// Those that have one path and one node.
pub(crate) fn plain_locks(testbed: &Testbed, curator: &Curator) -> Vec<Arc<dyn Lock>> {
    let plain = |one| if let Contender::Lock(lock) = one { Some(lock) } else { None };
    locks(testbed, curator).into_iter().filter_map(plain).collect()
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
async fn nodes(testbed: &Testbed, path: &str) -> Vec<Node> {
    let (mut found, mut folders) = (Vec::new(), vec![path.to_owned()]);
    while let Some(folder) = folders.pop() {
        for name in children(&testbed.admin, &folder).await {
            let path = format!("{folder}/{name}");
            match testbed.stat(&path).await {
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
    fn path(self, testbed: &Testbed) -> String {
        format!("{}/{}", testbed.path, self.name)
    }

    fn ours(self, testbed: &Testbed, curator: &Curator) -> Contender {
        (self.ours)(curator, &self.path(testbed))
    }

    fn rival(self, testbed: &Testbed, curator: &Curator) -> Contender {
        (self.rival)(curator, &self.path(testbed))
    }

    async fn nodes(self, testbed: &Testbed) -> Vec<Node> {
        nodes(testbed, &self.path(testbed)).await
    }

    async fn nodes_of(self, testbed: &Testbed, curator: &Curator) -> Vec<Node> {
        let Ok(session) = curator.session_id() else { return Vec::new() };
        self.nodes(testbed).await.into_iter().filter(|node| node.session == session).collect()
    }

    async fn queues(self, testbed: &Testbed, curator: &Curator, lock: &Contender) -> Waiting {
        let waiting = Waiting::new(lock);
        let is_there = async || !self.nodes_of(testbed, curator).await.is_empty();
        eventually(&format!("{self:?}: a place in the queue"), is_there).await;
        waiting
    }

    async fn holds(self, lock: &Contender) -> Held {
        let guard = within(self.name, lock.acquire()).await;
        guard.unwrap_or_else(|error| panic!("{self:?}: {error}"))
    }

    async fn nothing_is_left(self, testbed: &Testbed) {
        let nothing = async || self.nodes(testbed).await.is_empty();
        eventually(&format!("{self:?}: no node"), nothing).await;
    }
}

/// Runs a promise for all recipes at once.
async fn each<F: Future<Output = ()>>(promise: impl Fn(Row) -> F) {
    join_all(ROWS.map(promise)).await;
}
