//! The fixture that a function under fault is given.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::time::Duration;

use tokio::task::JoinHandle;
use zookeeper_recipes::group::{GroupMember, Membership};
use zookeeper_recipes::leader::LeaderLatch;
use zookeeper_recipes::session::RetryPolicy;
use zookeeper_recipes::zookeeper_client::Error;
use zookeeper_recipes::{
    Curator, CuratorBuilder, Error as LockError, Guard, Guards, InterProcessMutex,
    InterProcessOnce, InterProcessReadWriteLock, InterProcessSemaphoreV2, SlotGuard, Slots,
    WriteGuard,
};
use zookeeper_recipes_dev::{
    Admin, Fault, Link, SHORT, Servers, Testbed, children, eventually, is_real, within,
};

/// Longer than a message takes in a simulation.
const SETTLED: Duration = Duration::from_millis(20);

/// A lock path of its own, and a `Curator` behind a link to a follower; to the only server if it is real.
pub(crate) struct FaultFixture {
    testbed: Testbed,
    pub(crate) path: String,
    pub(crate) link: Link,
    pub(crate) curator: Curator,
    /// Both ask the leader.
    pub(crate) rival: Curator,
    /// Tasks of one client take turns: whoever waits for a rival is of another one.
    other: Curator,
    admin: Admin,
    follower: usize,
    recipe: Cell<Recipe>,
    /// What must come to its end.
    rivals: RefCell<Vec<JoinHandle<()>>>,
    /// What is healed when the case is over.
    faults: RefCell<Vec<Fault>>,
}

/// The recipe whose contenders the path has.
#[derive(Clone, Copy)]
enum Recipe {
    Mutex,
    ReadWrite,
    /// With this limit.
    Semaphore(usize),
    /// Two of them.
    Slots,
    Latch,
    /// Of one key.
    Once,
    /// Of a group, with one id.
    Member,
}

impl Recipe {
    /// Acquires all that there is when it is the caller's turn (writes, leads, has every lease), and drops it.
    async fn turn(self, curator: Curator, path: String) -> Result<(), LockError> {
        match self {
            Self::Mutex => drop(curator.mutex(&path).unwrap().acquire().await?),
            Self::ReadWrite => drop(read_write(&curator, &path).write().await?),
            Self::Semaphore(limit) => {
                drop(semaphore(&curator, &path, limit).acquire_many(limit).await?);
            }
            Self::Slots => {
                // One after the other: two callers with one each would wait for ever.
                for index in 0..2 {
                    drop(slots(&curator, &path).prefer(index).unwrap().acquire().await?);
                }
            }
            Self::Latch => drop(leads(&curator, &path).await),
            Self::Member => {
                let membership = member(&curator, &path).join().await?;
                let _ = membership.leave().await?; // the session deletes what it cannot confirm
            }
            Self::Once => drop(job(&curator, &path).run(async |_| Ok::<_, LockError>(())).await?),
        }
        Ok(())
    }
}

impl FaultFixture {
    pub(crate) async fn new() -> Self {
        let testbed = match is_real() {
            true => Testbed::new().await,
            false => Testbed::three(Duration::from_millis(500), 10).await,
        };
        let (leader, members) = (testbed.servers.leader().await, testbed.servers.members());
        let follower = (leader + 1) % members.len();
        let (link, admin) = (members[follower].link().await, members[leader].admin().await);
        let curator = builder(&testbed, SHORT).connect(link.connect_string()).await.unwrap();
        let patient = builder(&testbed, Duration::from_secs(30));
        let servers = members[leader].connect_string();
        let rival = patient.clone().connect(servers).await.unwrap();
        let other = patient.connect(servers).await.unwrap();
        let (path, recipe) = (testbed.path.clone(), Cell::new(Recipe::Mutex));
        let (rivals, faults) = (RefCell::default(), RefCell::default());
        Self { testbed, path, link, curator, rival, other, admin, follower, recipe, rivals, faults }
    }

    /// In the order that the seed decides.
    pub(crate) async fn scheduled<T>(&self, case: impl Future<Output = T>) -> T {
        match &self.testbed.servers {
            Servers::Simulated(ensemble) => ensemble.scheduled(case).await,
            _ => case.await,
        }
    }

    /// What was made ready, all servers know.
    pub(crate) async fn settled(&self) {
        tokio::time::sleep(SETTLED).await;
    }

    pub(crate) fn builder(&self) -> CuratorBuilder {
        builder(&self.testbed, SHORT)
    }

    pub(crate) fn keep(&self, fault: Fault) {
        self.faults.borrow_mut().push(fault);
    }

    pub(crate) fn mutex(&self) -> InterProcessMutex {
        self.curator.mutex(&self.path).unwrap()
    }

    fn rival_mutex(&self) -> InterProcessMutex {
        self.rival.mutex(&self.path).unwrap()
    }

    /// The lock, held by a client that no fault concerns.
    pub(crate) async fn rival_guard(&self) -> Guard {
        self.rival_mutex().acquire().await.unwrap()
    }

    /// The rival queues up, and holds once it is served.
    pub(crate) async fn rival_waits(&self) -> JoinHandle<Guard> {
        let mutex = self.other.mutex(&self.path).unwrap();
        self.testbed.enters(async move { mutex.acquire().await.unwrap() }).await
    }

    /// From now on the path has readers and writers.
    pub(crate) fn read_write(&self) -> InterProcessReadWriteLock {
        self.recipe.set(Recipe::ReadWrite);
        read_write(&self.curator, &self.path)
    }

    pub(crate) async fn rival_writes(&self) -> WriteGuard {
        read_write(&self.rival, &self.path).write().await.unwrap()
    }

    pub(crate) async fn rival_reads(&self) -> Guard {
        read_write(&self.rival, &self.path).read().await.unwrap()
    }

    /// The rival queues up to write. When it does, nobody may be before it.
    pub(crate) async fn rival_waits_to_write(&self) {
        let lock = read_write(&self.rival, &self.path);
        let (admin, path) = (self.admin.clone(), self.path.clone());
        let writing = async move {
            let guard = lock.write().await.unwrap();
            let children = children(&admin, &path).await;
            let first = children.iter().min_by_key(|name| number(name)).unwrap();
            assert!(guard.node().ends_with(first), "writes behind {first}");
            guard.release().await.unwrap();
        };
        let writing = self.testbed.enters(writing).await;
        self.rivals.borrow_mut().push(writing);
    }

    /// From now on the path has leases.
    pub(crate) fn semaphore(&self, limit: usize) -> InterProcessSemaphoreV2 {
        self.recipe.set(Recipe::Semaphore(limit));
        semaphore(&self.curator, &self.path, limit)
    }

    /// Leases that no fault concerns, of the semaphore that the path has.
    pub(crate) async fn rival_leases(&self, count: usize) -> Guards {
        let Recipe::Semaphore(limit) = self.recipe.get() else { panic!("not a semaphore") };
        semaphore(&self.rival, &self.path, limit).acquire_many(count).await.unwrap()
    }

    /// From now on the path has two slots.
    pub(crate) fn slots(&self) -> Slots {
        self.recipe.set(Recipe::Slots);
        slots(&self.curator, &self.path)
    }

    /// A slot that no fault concerns.
    pub(crate) async fn rival_slot(&self) -> SlotGuard {
        slots(&self.rival, &self.path).acquire().await.unwrap()
    }

    /// From now on the path has jobs that run once. Ours, and a rival's.
    pub(crate) fn jobs(&self) -> (InterProcessOnce, InterProcessOnce) {
        self.recipe.set(Recipe::Once);
        (job(&self.curator, &self.path), job(&self.rival, &self.path))
    }

    /// From now on the path has members.
    pub(crate) fn member(&self) -> GroupMember {
        self.recipe.set(Recipe::Member);
        member(&self.curator, &self.path)
    }

    /// A member of the same id, which no fault concerns.
    pub(crate) async fn rival_joins(&self) -> Membership {
        member(&self.rival, &self.path).join().await.unwrap()
    }

    /// From now on the path has latches.
    pub(crate) fn latch(&self) -> impl FnOnce() -> LeaderLatch + use<> {
        self.recipe.set(Recipe::Latch);
        let (curator, path) = (self.curator.clone(), self.path.clone());
        move || latch(&curator, &path)
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
            within("a rival", rival).await.unwrap();
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
        let turn = self.recipe.get().turn(self.other.clone(), self.path.clone());
        async { turn.await.unwrap() }
    }

    /// Ours has another one.
    pub(crate) async fn ours_again(&self) -> Result<(), LockError> {
        self.recipe.get().turn(self.curator.clone(), self.path.clone()).await
    }

    /// Ours has had two turns: a create is all that the next one takes.
    pub(crate) async fn is_known(&self) {
        for _ in 0..2 {
            self.ours_again().await.unwrap();
            self.settled().await;
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

    /// From now on the administrator sees every write that a server has confirmed: its server may commit one before it applies
    /// it, and answers a later write, here the delete of a missing node, after that.
    pub(crate) async fn catch_up(&self) {
        let nothing = self.admin.delete("/nothing", None).await;
        assert!(matches!(nothing, Err(Error::NoNode)), "{nothing:?}");
    }

    /// No task of the simulation panicked or span.
    pub(crate) fn is_sound(&self) -> bool {
        let Servers::Simulated(ensemble) = &self.testbed.servers else { return true };
        ensemble.panics().is_empty() && ensemble.spins() == 0
    }

    /// From now on the follower does not hear of the leader.
    pub(crate) async fn lag(&self) -> Box<dyn Any> {
        let servers = &self.testbed.servers;
        servers.part(self.follower, servers.leader().await)
    }

    /// A node beside the lock path.
    pub(crate) fn data_path(&self) -> String {
        format!("{}-data", self.path)
    }

    pub(crate) async fn data(&self) -> Option<Vec<u8>> {
        self.data_of(&self.data_path()).await
    }

    pub(crate) async fn data_of(&self, node: &str) -> Option<Vec<u8>> {
        match self.admin.get_data(node).await {
            Ok((data, _)) => Some(data),
            Err(Error::NoNode) => None,
            Err(error) => panic!("cannot read {node}: {error}"),
        }
    }

    /// Those in the folders that the recipe has.
    pub(crate) async fn children(&self) -> Vec<String> {
        let folders = match self.recipe.get() {
            Recipe::Semaphore(_) => ["locks", "leases"].as_slice(),
            Recipe::Slots => &["locks", "leases", "slots/0", "slots/1"],
            Recipe::Once => &["runs/key"],
            _ => return children(&self.admin, &self.path).await,
        };
        let mut all = Vec::new();
        for folder in folders {
            let names = children(&self.admin, &format!("{}/{folder}", self.path)).await;
            all.extend(names.into_iter().map(|name| format!("{folder}/{name}")));
        }
        all
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

fn builder(testbed: &Testbed, session: Duration) -> CuratorBuilder {
    testbed.builder().session_timeout(session)
}

/// With pauses so short that a case does not take long.
pub(crate) fn retry() -> RetryPolicy {
    RetryPolicy::n_times(200, Duration::from_millis(50))
}

fn read_write(curator: &Curator, path: &str) -> InterProcessReadWriteLock {
    curator.read_write_lock(path).unwrap()
}

fn semaphore(curator: &Curator, path: &str, limit: usize) -> InterProcessSemaphoreV2 {
    curator.semaphore(path, limit).unwrap()
}

fn slots(curator: &Curator, path: &str) -> Slots {
    curator.slots(path, 2).unwrap()
}

async fn leads(curator: &Curator, path: &str) -> LeaderLatch {
    let latch = latch(curator, path);
    latch.leadership().await.unwrap();
    latch
}

fn latch(curator: &Curator, path: &str) -> LeaderLatch {
    curator.with_retry(retry()).leader_latch(path).unwrap()
}

fn member(curator: &Curator, path: &str) -> GroupMember {
    curator.group_member(path, "one").unwrap().with_data("first")
}

fn job(curator: &Curator, path: &str) -> InterProcessOnce {
    curator.once(path, "key").unwrap()
}

fn number(name: &str) -> i64 {
    name[name.len() - 10..].parse().unwrap()
}
