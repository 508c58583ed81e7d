//! What a function under fault is given.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use zookeeper_recipes::zookeeper_client::{Client, Error};
use zookeeper_recipes::{
    AcquireError, Curator, CuratorBuilder, InterProcessMutex, InterProcessReadWriteLock,
    InterProcessSemaphore, LeaderLatch, Leases, MutexGuard, ReadGuard, RetryPolicy, WriteGuard,
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
    pub(crate) rival: Curator,
    admin: Client,
    server: Server,
    recipe: Cell<Recipe>,
    /// What must come to its end.
    rivals: RefCell<Vec<JoinHandle<()>>>,
}

/// The recipe whose contenders the path has.
#[derive(Clone, Copy)]
enum Recipe {
    Mutex,
    ReadWrite,
    /// With this limit.
    Semaphore(usize),
    Latch,
}

impl Recipe {
    /// Acquires all that there is when it is the caller's turn (writes, leads, has every lease), and drops it.
    async fn turn(self, curator: Curator, path: String) -> Result<(), AcquireError> {
        match self {
            Self::Mutex => drop(InterProcessMutex::new(&curator, &path).unwrap().acquire().await?),
            Self::ReadWrite => drop(read_write(&curator, &path).write().acquire().await?),
            Self::Semaphore(limit) => {
                drop(semaphore(&curator, &path, limit).acquire_many(limit).await?);
            }
            Self::Latch => drop(leads(&curator, &path).await),
        }
        Ok(())
    }
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
        let (recipe, rivals) = (Cell::new(Recipe::Mutex), RefCell::default());
        Self { path, proxy, curator, rival, admin, server, recipe, rivals }
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

    /// The lock, held by a client that no fault concerns.
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

    /// From now on the path has readers and writers.
    pub(crate) fn read_write(&self) -> InterProcessReadWriteLock {
        self.recipe.set(Recipe::ReadWrite);
        read_write(&self.curator, &self.path)
    }

    pub(crate) async fn rival_writes(&self) -> WriteGuard {
        read_write(&self.rival, &self.path).write().acquire().await.unwrap()
    }

    pub(crate) async fn rival_reads(&self) -> ReadGuard {
        read_write(&self.rival, &self.path).read().acquire().await.unwrap()
    }

    /// The rival queues up to write. When it does, nobody may be before it.
    pub(crate) async fn rival_waits_to_write(&self) {
        let before = self.children().await.len();
        let lock = read_write(&self.rival, &self.path).write();
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

    /// From now on the path has leases.
    pub(crate) fn semaphore(&self, limit: usize) -> InterProcessSemaphore {
        self.recipe.set(Recipe::Semaphore(limit));
        semaphore(&self.curator, &self.path, limit)
    }

    /// Leases that no fault concerns, of the semaphore that the path has.
    pub(crate) async fn rival_leases(&self, count: usize) -> Leases {
        let Recipe::Semaphore(limit) = self.recipe.get() else { panic!("not a semaphore") };
        semaphore(&self.rival, &self.path, limit).acquire_many(count).await.unwrap()
    }

    /// From now on the path has latches.
    pub(crate) fn latch(&self) -> LeaderLatch {
        self.recipe.set(Recipe::Latch);
        latch(&self.curator, &self.path)
    }

    /// Ours leads.
    pub(crate) async fn leads(&self) -> LeaderLatch {
        self.recipe.set(Recipe::Latch);
        leads(&self.curator, &self.path).await
    }

    /// A leader that no fault concerns.
    pub(crate) async fn rival_leads(&self) -> LeaderLatch {
        leads(&self.rival, &self.path).await
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

    /// The rival has its turn.
    pub(crate) fn rival_in_turn(&self) -> impl Future<Output = ()> + Send + use<> {
        let turn = self.recipe.get().turn(self.rival.clone(), self.path.clone());
        async { turn.await.unwrap() }
    }

    /// Ours has another one.
    pub(crate) async fn ours_again(&self) -> Result<(), AcquireError> {
        self.recipe.get().turn(self.curator.clone(), self.path.clone()).await
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
        let Recipe::Semaphore(_) = self.recipe.get() else {
            return harness::children(&self.admin, &self.path).await;
        };
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

fn read_write(curator: &Curator, path: &str) -> InterProcessReadWriteLock {
    InterProcessReadWriteLock::new(curator, path).unwrap()
}

fn semaphore(curator: &Curator, path: &str, limit: usize) -> InterProcessSemaphore {
    InterProcessSemaphore::new(curator, path, limit).unwrap()
}

async fn leads(curator: &Curator, path: &str) -> LeaderLatch {
    let latch = latch(curator, path);
    latch.start().unwrap();
    latch.await_leadership().await.unwrap();
    latch
}

fn latch(curator: &Curator, path: &str) -> LeaderLatch {
    LeaderLatch::new(curator, path).unwrap().with_retry(retry())
}

fn number(name: &str) -> i64 {
    name[name.len() - 10..].parse().unwrap()
}
