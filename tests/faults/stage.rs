//! What a function under fault is given.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use zookeeper_recipes::zookeeper_client::{Client, Error};
use zookeeper_recipes::{
    AcquireError, Curator, CuratorBuilder, InterProcessMutex, InterProcessReadWriteLock,
    InterProcessSemaphore, LeaderLatch, Leases, MutexGuard, ReadGuard, RetryPolicy, Revoker,
    WriteGuard,
};
use zookeeper_testkit::{Fault, FaultProxy, TestServer, random_path};

use crate::harness::{self, Arena, eventually};
use crate::lagging::Lagging;

/// Short, so that many cases can outlive it; long against what a busy machine holds a task up for, and so that a function ends
/// before a hold looks after its node.
const SESSION: Duration = Duration::from_secs(6);

/// A lock path of its own, and a `Curator` behind a proxy.
pub(crate) struct Stage {
    pub(crate) path: String,
    pub(crate) proxy: FaultProxy,
    pub(crate) curator: Curator,
    /// Neither of the two is behind the proxy.
    rival: Curator,
    admin: Client,
    server: Server,
    /// Whether the lock is one for reading and writing.
    is_read_write: Cell<bool>,
    /// How many leases there are, if it is a semaphore.
    limit: Cell<Option<usize>>,
    /// Whether latches contend there.
    is_latch: Cell<bool>,
    /// What must come to its end.
    rivals: RefCell<Vec<JoinHandle<()>>>,
}

/// Kept until the stage goes.
enum Server {
    Alone { _server: Arc<TestServer> },
    Ensemble(Arc<Lagging>),
}

impl Stage {
    /// On one server.
    pub(crate) async fn new() -> Self {
        let Arena { path, admin, server } = Arena::new().await;
        let to = server.connect_string().to_owned();
        let server = Server::Alone { _server: server };
        Self::between(&to, &to, path, admin, server).await
    }

    /// On a follower that can be made to lag. The rival is on the leader.
    pub(crate) async fn behind(lagging: &Arc<Lagging>) -> Self {
        let admin = Client::connect(lagging.leader()).await.unwrap();
        let server = Server::Ensemble(lagging.clone());
        let path = random_path("test");
        Self::between(lagging.follower(), lagging.leader(), path, admin, server).await
    }

    async fn between(
        ours: &str,
        theirs: &str,
        path: String,
        admin: Client,
        server: Server,
    ) -> Self {
        let proxy = FaultProxy::start(ours).await.unwrap();
        let curator = Self::builder().connect(proxy.connect_string()).await.unwrap();
        let patient = Self::builder().session_timeout(Duration::from_secs(30));
        let rival = patient.connect(theirs).await.unwrap();
        let (is_read_write, limit, is_latch) = Default::default();
        let rivals = RefCell::default();
        Self { path, proxy, curator, rival, admin, server, is_read_write, limit, is_latch, rivals }
    }

    pub(crate) fn builder() -> CuratorBuilder {
        Curator::builder().session_timeout(SESSION).retry(retry())
    }

    pub(crate) fn mutex(&self) -> InterProcessMutex {
        InterProcessMutex::new(&self.curator, &self.path).unwrap()
    }

    fn rival_mutex(&self) -> InterProcessMutex {
        InterProcessMutex::new(&self.rival, &self.path).unwrap()
    }

    /// The lock, held by somebody whom no fault concerns.
    pub(crate) async fn rival_guard(&self) -> MutexGuard {
        self.rival_mutex().acquire().await.unwrap()
    }

    /// The rival queues up, and holds once it is served.
    pub(crate) async fn rival_waits(&self) -> JoinHandle<MutexGuard> {
        let before = self.children().await.len();
        let mutex = self.rival_mutex();
        let waiting = tokio::spawn(async move { mutex.acquire().await.unwrap() });
        eventually("the rival waits", async || self.children().await.len() > before).await;
        waiting
    }

    /// From now on the lock is one for reading and writing, to all who use it.
    pub(crate) fn read_write(&self) -> InterProcessReadWriteLock {
        self.is_read_write.set(true);
        InterProcessReadWriteLock::new(&self.curator, &self.path).unwrap()
    }

    fn rival_read_write(&self) -> InterProcessReadWriteLock {
        InterProcessReadWriteLock::new(&self.rival, &self.path).unwrap()
    }

    pub(crate) async fn rival_writes(&self) -> WriteGuard {
        self.rival_read_write().write().acquire().await.unwrap()
    }

    pub(crate) async fn rival_reads(&self) -> ReadGuard {
        self.rival_read_write().read().acquire().await.unwrap()
    }

    /// The rival queues up to write. When it does, nobody may be before it.
    pub(crate) async fn rival_waits_to_write(&self) {
        let before = self.children().await.len();
        let lock = self.rival_read_write().write();
        let (admin, path) = (self.admin.clone(), self.path.clone());
        let writing = tokio::spawn(async move {
            let guard = lock.acquire().await.unwrap();
            let children = harness::children(&admin, &path).await;
            let first = children.iter().min_by_key(|name| number(name)).unwrap();
            assert!(guard.node().ends_with(first), "writes behind {first}");
            guard.release().await.unwrap();
        });
        self.rivals.borrow_mut().push(writing);
        eventually("the rival waits", async || self.children().await.len() > before).await;
    }

    /// From now on it is a semaphore, to all who use it.
    pub(crate) fn semaphore(&self, limit: usize) -> InterProcessSemaphore {
        self.limit.set(Some(limit));
        InterProcessSemaphore::new(&self.curator, &self.path, limit).unwrap()
    }

    fn rival_semaphore(&self) -> Option<InterProcessSemaphore> {
        let limit = self.limit.get()?;
        Some(InterProcessSemaphore::new(&self.rival, &self.path, limit).unwrap())
    }

    /// Leases of somebody whom no fault concerns.
    pub(crate) async fn rival_leases(&self, count: usize) -> Leases {
        self.rival_semaphore().unwrap().acquire_many(count).await.unwrap()
    }

    /// From now on latches contend there, of all who use it.
    pub(crate) fn latch(&self) -> LeaderLatch {
        self.is_latch.set(true);
        latch(&self.curator, &self.path)
    }

    /// A leader whom no fault concerns.
    pub(crate) async fn rival_leads(&self) -> LeaderLatch {
        self.is_latch.set(true);
        let latch = latch(&self.rival, &self.path);
        latch.start().unwrap();
        latch.await_leadership().await.unwrap();
        latch
    }

    pub(crate) fn rival_revoker(&self) -> Revoker {
        Revoker::new(&self.rival)
    }

    /// All who queued up for later have had their turn.
    pub(crate) async fn rivals_are_done(&self) {
        for rival in self.rivals.take() {
            harness::within("a rival", rival).await.unwrap();
        }
    }

    /// Whether a node is there, and nobody before it writes. A read beside a write has its number.
    pub(crate) async fn may_read(&self, node: &str) -> bool {
        let children = self.children().await;
        let keeps_out = |name: &&String| name.contains("__WRIT__") && number(name) < number(node);
        children.iter().any(|name| node.ends_with(name.as_str()))
            && children.iter().find(keeps_out).is_none()
    }

    /// The rival acquires when it is its turn, and releases. In a queue of readers and writers it writes; of leases it
    /// takes all; with a latch it leads.
    pub(crate) fn rival_in_turn(&self) -> impl Future<Output = ()> + Send + use<> {
        let (mutex, lock) = (self.rival_mutex(), self.rival_read_write().write());
        let (writes, semaphore) = (self.is_read_write.get(), self.rival_semaphore());
        let latch = self.is_latch.get().then(|| latch(&self.rival, &self.path));
        async move {
            if let Some(latch) = latch {
                latch.start().unwrap();
                latch.await_leadership().await.unwrap();
                latch.close().await.unwrap();
            } else if let Some(semaphore) = semaphore {
                let leases = semaphore.acquire_many(semaphore.limit()).await.unwrap();
                leases.release().await.unwrap();
            } else if writes {
                lock.acquire().await.unwrap().release().await.unwrap();
            } else {
                mutex.acquire().await.unwrap().release().await.unwrap();
            }
        }
    }

    /// Ours does, and drops the guard.
    pub(crate) async fn ours_again(&self) -> Result<(), AcquireError> {
        if self.is_latch.get() {
            let latch = self.latch();
            latch.start().unwrap();
            latch.await_leadership().await.map(drop).unwrap();
            Ok(())
        } else if let Some(limit) = self.limit.get() {
            self.semaphore(limit).acquire_many(limit).await.map(drop)
        } else if self.is_read_write.get() {
            self.read_write().write().acquire().await.map(drop)
        } else {
            self.mutex().acquire().await.map(drop)
        }
    }

    /// The rival queues up, and releases once it was served.
    pub(crate) async fn rival_enters(&self) {
        let before = self.children().await.len();
        let entering = tokio::spawn(self.rival_in_turn());
        eventually("the rival enters", async || {
            entering.is_finished() || self.children().await.len() > before
        })
        .await;
    }

    /// The server of the `Curator` under fault has heard of this node: while another test makes the follower lag, it
    /// may not have.
    pub(crate) async fn heard_of(&self, node: &str) {
        let Server::Ensemble(ensemble) = &self.server else { return };
        // A session is a write as well.
        let connector = Client::connector().with_session_timeout(Duration::from_secs(60));
        let beside = connector.connect(ensemble.follower()).await.unwrap();
        eventually("the follower hears of it", async || {
            matches!(beside.check_stat(node).await, Ok(Some(_)))
        })
        .await;
    }

    /// From now on the administrator sees every write that a server has confirmed. A leader sends a commit to its followers
    /// before it applies the transaction itself; it answers a later write, here the delete of a missing node, after that.
    pub(crate) async fn catch_up(&self) {
        let nothing = self.admin.delete(&random_path("nothing"), None).await;
        assert!(matches!(nothing, Err(Error::NoNode)), "{nothing:?}");
    }

    /// From now on the follower does not hear of the leader.
    pub(crate) fn lag(&self) -> Option<Fault> {
        match &self.server {
            Server::Alone { .. } => None,
            Server::Ensemble(ensemble) => Some(ensemble.lag()),
        }
    }

    /// A node beside the lock path.
    pub(crate) fn data_path(&self) -> String {
        format!("{}-data", self.path)
    }

    pub(crate) async fn data(&self) -> Option<Vec<u8>> {
        match self.admin.get_data(&self.data_path()).await {
            Ok((data, _)) => Some(data),
            Err(Error::NoNode) => None,
            Err(error) => panic!("cannot read {}: {error}", self.data_path()),
        }
    }

    pub(crate) async fn forget_data(&self) {
        let _ = self.admin.delete(&self.data_path(), None).await;
    }

    /// Of a semaphore, those in both of its folders.
    pub(crate) async fn children(&self) -> Vec<String> {
        if self.limit.get().is_none() {
            return harness::children(&self.admin, &self.path).await;
        }
        let mut children = Vec::new();
        for folder in ["locks", "leases"] {
            let names = harness::children(&self.admin, &format!("{}/{folder}", self.path)).await;
            children.extend(names.into_iter().map(|name| format!("{folder}/{name}")));
        }
        children
    }

    /// The nodes at the lock path with the sessions that own them, and our session: for the message of a failed test.
    pub(crate) async fn left(&self) -> String {
        let mut left = Vec::new();
        for name in self.children().await {
            let stat = self.admin.check_stat(&format!("{}/{name}", self.path)).await.unwrap();
            left.push((name, stat.map(|stat| format!("{:#x}", stat.ephemeral_owner))));
        }
        let ours = self.curator.session_id().map(|id| format!("{id:#x}"));
        format!("{left:?}; we are {ours:?}, {:?}", self.curator.state())
    }

    pub(crate) async fn has(&self, path: &str) -> bool {
        self.admin.check_stat(path).await.unwrap().is_some()
    }

    /// The node of the contender that holds; of a semaphore with one lease, too.
    pub(crate) async fn first(&self) -> Option<String> {
        let mut children = self.children().await;
        children.retain(|name| !name.starts_with("locks/"));
        let first = children.into_iter().min_by_key(|name| number(name));
        first.map(|name| format!("{}/{name}", self.path))
    }
}

/// With pauses so short that a case does not take long.
pub(crate) fn retry() -> RetryPolicy {
    RetryPolicy::n_times(200, Duration::from_millis(50))
}

fn latch(curator: &Curator, path: &str) -> LeaderLatch {
    LeaderLatch::new(curator, path).unwrap().with_retry(retry())
}

fn number(name: &str) -> i64 {
    name[name.len() - 10..].parse().unwrap()
}
