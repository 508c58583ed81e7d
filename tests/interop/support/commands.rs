//! Sessions and locks of a peer, by the commands that all peers know.
//!
//! | command | answer |
//! | --- | --- |
//! | `connect SESSION SERVERS TIMEOUT_MS` | |
//! | `end SESSION SERVERS`, ours: as if the servers had expired it | |
//! | `lock NAME SESSION KIND PATH`; of a leader `KIND:ID` gives its id, in hexadecimal digits | |
//! | `counted NAME SESSION PATH COUNT`: a semaphore whose number of leases is that of a count | |
//! | `acquire NAME LIMIT_MS COUNT`; a negative limit is none | `yes` or `no`, and the stamp after it |
//! | `release NAME`: what the last `acquire` gave | the stamp before it |
//! | `held NAME`: what the holder believes | `yes` or `no`, and the stamp after it |
//! | `lost NAME`, Curator's leaders and ours: waits until the hold is lost | how, and the stamp after it |
//! | `participants NAME` | paths of nodes; kazoo: identities; of leaders: `ROLE=ID` for each |
//! | `leader NAME`, Curator and ours | the same of who leads, if anybody does |
//! | `revocable NAME`, `requested NAME` | `requested` waits for a request, and answers with the stamp |
//! | `revoke SESSION NODE` | |
//! | `count NAME SESSION PATH SEED`, `value NAME`, `set NAME VALUE`, `try-add NAME MORE` | the value; `try-add`: `yes` or `no` |
//!
//! Of leaders to lead is to hold. Names are unique among all tests, for they share the processes. Of ours `OWNER.read` and
//! `OWNER.write` belong to one owner.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::support::peer_process::{Answer, Peer};
use crate::support::role::{Role, digits, parsed};

/// Without loss, whatever the machine is busy with.
const LONG_SESSION: Duration = Duration::from_secs(30);

/// Of `CLOCK_MONOTONIC`.
pub(crate) type Nanos = u64;

/// A session of a peer.
#[derive(Clone)]
pub(crate) struct Party {
    pub(crate) peer: Arc<Peer>,
    pub(crate) session: String,
}

#[derive(Clone)]
pub(crate) struct Lock {
    pub(crate) peer: Arc<Peer>,
    pub(crate) name: String,
}

pub(crate) fn unique(what: &str) -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    format!("{what}{}", NUMBER.fetch_add(1, Ordering::Relaxed))
}

impl Party {
    pub(crate) async fn join(peer: &Arc<Peer>, servers: &str) -> Self {
        Self::join_for(peer, servers, LONG_SESSION).await
    }

    pub(crate) async fn join_for(peer: &Arc<Peer>, servers: &str, timeout: Duration) -> Self {
        let session = unique("session");
        peer.ask(format!("connect {session} {servers} {}", timeout.as_millis())).await;
        Self { peer: peer.clone(), session }
    }

    pub(crate) async fn lock(&self, kind: &str, path: &str) -> Lock {
        self.lock_as(&unique("lock"), kind, path).await
    }

    /// Of leaders.
    pub(crate) async fn lock_with_id(&self, kind: &str, id: &str, path: &str) -> Lock {
        self.lock(&format!("{kind}:{}", digits(id.as_bytes())), path).await
    }

    /// Ours: kills the session, by way of these servers.
    pub(crate) async fn end(&self, servers: &str) {
        self.peer.ask(format!("end {} {servers}", self.session)).await;
    }

    pub(crate) async fn revoke(&self, node: &str) {
        self.peer.ask(format!("revoke {} {node}", self.session)).await;
    }

    /// A semaphore whose number of leases is that of a count of the same peer.
    pub(crate) async fn counted(&self, count: &str, path: &str) -> Lock {
        let name = unique("lock");
        self.peer.ask(format!("counted {name} {} {path} {count}", self.session)).await;
        Lock { peer: self.peer.clone(), name }
    }

    /// The two halves of one owner's read-write lock: write, read.
    pub(crate) async fn halves(&self, path: &str) -> (Lock, Lock) {
        let owner = unique("owner");
        let write = self.lock_as(&format!("{owner}.write"), "write", path).await;
        (write, self.lock_as(&format!("{owner}.read"), "read", path).await)
    }

    async fn lock_as(&self, name: &str, kind: &str, path: &str) -> Lock {
        self.peer.ask(format!("lock {name} {} {kind} {path}", self.session)).await;
        Lock { peer: self.peer.clone(), name: name.to_owned() }
    }
}

impl Lock {
    /// The stamp after it.
    pub(crate) async fn acquire(&self) -> Nanos {
        acquired(self.begin_acquire()).await.expect("acquired")
    }

    pub(crate) fn begin_acquire(&self) -> Answer {
        self.begin_acquire_many(1)
    }

    pub(crate) fn begin_acquire_many(&self, count: usize) -> Answer {
        self.peer.begin(format!("acquire {} -1 {count}", self.name))
    }

    pub(crate) fn begin_acquire_for(&self, limit: Duration) -> Answer {
        self.peer.begin(format!("acquire {} {} 1", self.name, limit.as_millis()))
    }

    /// The stamp before it.
    pub(crate) async fn release(&self) -> Nanos {
        self.peer.ask(format!("release {}", self.name)).await.parse().unwrap()
    }

    /// What the holder believes.
    pub(crate) async fn is_held(&self) -> bool {
        acquired(self.begin_is_held()).await.is_some()
    }

    pub(crate) fn begin_is_held(&self) -> Answer {
        self.peer.begin(format!("held {}", self.name))
    }

    /// Before it is acquired.
    pub(crate) async fn revocable(&self) {
        self.peer.ask(format!("revocable {}", self.name)).await;
    }

    pub(crate) fn begin_requested(&self) -> Answer {
        self.peer.begin(format!("requested {}", self.name))
    }

    /// Ours, and Curator's leaders: how it was lost, and the stamp after it.
    pub(crate) fn begin_lost(&self) -> Answer {
        self.peer.begin(format!("lost {}", self.name))
    }

    pub(crate) async fn participants(&self) -> Vec<String> {
        let answer = self.peer.ask(format!("participants {}", self.name)).await;
        answer.split_whitespace().map(str::to_owned).collect()
    }

    /// Of leaders: who they are, the leader first.
    pub(crate) async fn ids(&self) -> Vec<(Role, String)> {
        self.participants().await.iter().map(|word| parsed(word)).collect()
    }

    pub(crate) async fn leader(&self) -> Option<(Role, String)> {
        let answer = self.peer.ask(format!("leader {}", self.name)).await;
        (!answer.is_empty()).then(|| parsed(&answer))
    }
}

/// The stamp, if it was a yes.
pub(crate) async fn acquired(answer: Answer) -> Option<Nanos> {
    stamp(&answer.await)
}

/// The same, of an answer that has come.
pub(crate) fn stamp(answer: &str) -> Option<Nanos> {
    let (word, stamp) = answer.split_once(' ').expect("a word and a stamp");
    (word == "yes").then(|| stamp.parse().unwrap())
}
