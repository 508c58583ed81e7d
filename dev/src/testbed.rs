//! The servers and the lock path of one test.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use zookeeper_recipes::leader::{LeaderLatch, LeaderObserver, LeaderSelector};
use zookeeper_recipes::session::{ConnectionState, RetryPolicy};
use zookeeper_recipes::simulation::{Ensemble, EnsembleBuilder};
use zookeeper_recipes::zookeeper_client::{
    Acl, Acls, AuthId, Client, CreateMode, Permission, Stat,
};
use zookeeper_recipes::{
    Curator, CuratorBuilder, Guard, Hold, InterProcessMutex, InterProcessReadWriteLock,
    InterProcessSemaphoreV2, WriteGuard,
};
use zookeeper_testkit::{
    self as testkit, FaultProxy, TestEnsemble, TestServer, TestServerBuilder, TestkitError,
};

use crate::checks::{SHORT, anyone, children, eventually, until, within};
use crate::world::{self, Admin, Fault, Link, Server, Servers};

/// A session timeout whose lease ends after a test that hangs, so that no test sees its end.
const PATIENT: Duration = Duration::from_secs(120);

/// Longer than any test.
const NEVER: Duration = Duration::from_secs(86_400);

/// One real server for all tests that run at the same time. The last one to end stops it.
static SHARED: Mutex<Weak<TestServer>> = Mutex::const_new(Weak::new());

thread_local! {
    /// The simulated servers of the test that runs on this thread.
    static HERE: RefCell<Weak<Ensemble>> = const { RefCell::new(Weak::new()) };
    static TESTBEDS: Cell<usize> = const { Cell::new(0) };
}

/// A task that waits for a hold.
pub type Waiting<G = Guard> = JoinHandle<Result<G, zookeeper_recipes::Error>>;

/// Servers, a lock path of the test's own, and an administrator's client.
pub struct Testbed {
    pub path: String,
    pub admin: Admin,
    pub servers: Servers,
    /// The first of the servers.
    pub server: Server,
}

impl Testbed {
    /// Simulated servers of the test's own; in the real world a path on the shared server.
    pub async fn new() -> Self {
        if world::is_real() { Self::real().await } else { Self::simulated(|one| one).await }
    }

    /// Creates the test's path as well, without children.
    pub async fn with_parent() -> Self {
        let testbed = Self::new().await;
        testbed.create(&testbed.path, CreateMode::Persistent).await;
        testbed
    }

    /// Connects a client as well.
    pub async fn with_curator() -> (Self, Curator) {
        let (testbed, [curator]) = Self::with_curators().await;
        (testbed, curator)
    }

    /// Connects several clients as well.
    pub async fn with_curators<const COUNT: usize>() -> (Self, [Curator; COUNT]) {
        let testbed = Self::new().await;
        let curators = testbed.curators().await;
        (testbed, curators)
    }

    /// Connects a client behind a link of its own as well.
    pub async fn with_link(builder: fn(&Self) -> CuratorBuilder) -> (Self, Link, Curator) {
        let testbed = Self::new().await;
        let (link, curator) = testbed.linked(builder(&testbed)).await;
        (testbed, link, curator)
    }

    /// A server that no other test uses.
    pub async fn own() -> Self {
        Self::with(server(), |one| one).await
    }

    /// A server that no other test uses, and that deletes empty containers at this interval.
    pub async fn reaping(interval: Duration) -> Self {
        let real = TestServer::builder().container_check_interval(interval);
        Self::with(real, |one| one.container_check_interval(interval)).await
    }

    /// A server that no other test uses, with options for either world.
    pub async fn with(
        real: TestServerBuilder,
        simulated: impl FnOnce(EnsembleBuilder) -> EnsembleBuilder,
    ) -> Self {
        if world::is_real() {
            Self::on(Servers::One(Arc::new(real.start().await.expect("a server")))).await
        } else {
            Self::simulated(simulated).await
        }
    }

    /// Three servers that no other test uses. A server that hears nothing for this many ticks leaves the quorum.
    pub async fn three(tick: Duration, ticks: u32) -> Self {
        if world::is_real() {
            let builder = TestEnsemble::builder(3).tick_time(tick);
            let ensemble = builder.property("syncLimit", ticks.to_string()).start().await.unwrap();
            Self::on(Servers::Three(Arc::new(ensemble))).await
        } else {
            Self::simulated(|one| one.servers(3).tick_time(tick).sync_limit(ticks)).await
        }
    }

    /// The servers of this test's world, which begins with its first testbed.
    async fn simulated(options: impl FnOnce(EnsembleBuilder) -> EnsembleBuilder) -> Self {
        let ensemble = HERE.with_borrow(Weak::upgrade).unwrap_or_else(|| {
            let builder = Ensemble::builder(world::seed()).version(world::version());
            let builder = builder.container_check_interval(NEVER);
            let ensemble = Arc::new(options(builder).start());
            HERE.set(Arc::downgrade(&ensemble));
            ensemble
        });
        Self::on(Servers::Simulated(ensemble)).await
    }

    /// A real server that no other test uses, in either world.
    pub async fn real_own() -> Self {
        Self::on(Servers::One(Arc::new(server().start().await.expect("a server")))).await
    }

    /// The shared real server, in either world.
    pub async fn real() -> Self {
        let mut shared = SHARED.lock().await;
        let one = match shared.upgrade() {
            Some(server) => server,
            None => {
                let server = Arc::new(server().start().await.expect("a ZooKeeper server"));
                *shared = Arc::downgrade(&server);
                server
            }
        };
        drop(shared);
        Self::on(Servers::One(one)).await
    }

    pub async fn on(servers: Servers) -> Self {
        let admin = servers.admin().await;
        let path = match &servers {
            Servers::Simulated(_) => {
                TESTBEDS.set(TESTBEDS.get() + 1);
                format!("/test-{:x}-{}", world::seed(), TESTBEDS.get())
            }
            _ => testkit::random_path("test"),
        };
        let server = Server::new(servers.clone(), 0);
        Self { path, admin, servers, server }
    }

    pub fn builder(&self) -> CuratorBuilder {
        let builder = Curator::builder()
            .session_timeout(Duration::from_secs(30))
            .retry(RetryPolicy::n_times(100, Duration::from_millis(100)));
        // The identity of a process differs in each run.
        match self.servers {
            Servers::Simulated(_) => builder.identity("a test"),
            _ => builder,
        }
    }

    pub async fn curator(&self) -> Curator {
        self.connect(self.builder()).await
    }

    /// Connects several clients, each with a session of its own.
    pub async fn curators<const COUNT: usize>(&self) -> [Curator; COUNT] {
        let mut curators = Vec::with_capacity(COUNT);
        for _ in 0..COUNT {
            curators.push(self.curator().await);
        }
        curators.try_into().expect("as many")
    }

    /// Connects with a session that outlives a restart of the server, however busy the machine is.
    pub async fn patient_curator(&self) -> Curator {
        self.connect(self.patient_builder()).await
    }

    pub fn patient_builder(&self) -> CuratorBuilder {
        self.builder().session_timeout(PATIENT)
    }

    /// Connects with a session that a test can outlive.
    pub async fn short_lived_curator(&self) -> Curator {
        self.connect(self.short_lived_builder()).await
    }

    pub fn short_lived_builder(&self) -> CuratorBuilder {
        self.builder().session_timeout(SHORT)
    }

    /// Connects a client that checks the node of a hold within a sixth of the timeout, which is 3 s. A busy machine has 12 s to
    /// renew the lease.
    pub async fn attentive_curator(&self) -> Curator {
        self.connect(self.builder().session_timeout(Duration::from_secs(18))).await
    }

    pub async fn connect(&self, builder: CuratorBuilder) -> Curator {
        builder.connect(self.servers.connect_string()).await.expect("a session")
    }

    /// Opens a link to the servers.
    pub async fn link(&self) -> Link {
        match &self.servers {
            Servers::Simulated(ensemble) => Link::Simulated(ensemble.link()),
            real => Link::Real(FaultProxy::start(real.connect_string()).await.unwrap()),
        }
    }

    /// Connects a client behind a link of its own.
    pub async fn linked(&self, builder: CuratorBuilder) -> (Link, Curator) {
        let link = self.link().await;
        let curator = builder.connect(link.connect_string()).await.unwrap();
        (link, curator)
    }

    /// Connects a client behind a link of its own, and makes the lock path: the next create is a contender's.
    pub async fn linked_with_parent(&self, builder: CuratorBuilder) -> (Link, Curator) {
        let (link, curator) = self.linked(builder).await;
        self.mutex(&curator).acquire().await.unwrap().release().await.unwrap();
        link.clear_log();
        (link, curator)
    }

    /// A client that reaches no server before the fault is healed.
    pub async fn unconnected(&self, builder: CuratorBuilder) -> (Link, Fault, Curator) {
        let link = self.link().await;
        let refused = link.refuse();
        let curator = builder.connect_lazy(link.connect_string()).unwrap();
        (link, refused, curator)
    }

    /// Connects without regard to the short connection timeout of `builder`, which only later requests are meant to meet.
    pub async fn impatient(&self, connect_string: &str, builder: CuratorBuilder) -> Curator {
        let curator = builder.connect_lazy(connect_string).expect("a curator");
        until(&curator, ConnectionState::Connected).await;
        curator
    }

    /// Connects a ZooKeeper client behind a link, for a `Curator` that is made from a client.
    pub async fn linked_client(&self) -> (Link, Client) {
        let link = self.link().await;
        let client = long_lived(link.connect_string()).await;
        (link, client)
    }

    /// Connects a ZooKeeper client, for a `Curator` that is made from a client.
    pub async fn client(&self) -> Client {
        long_lived(self.server.connect_string()).await
    }

    // Recipes at the path.

    pub fn mutex(&self, curator: &Curator) -> InterProcessMutex {
        curator.mutex(&self.path).expect("a lock path")
    }

    pub fn read_write(&self, curator: &Curator) -> InterProcessReadWriteLock {
        curator.read_write_lock(&self.path).expect("a lock path")
    }

    pub fn semaphore(&self, curator: &Curator, limit: usize) -> InterProcessSemaphoreV2 {
        curator.semaphore(&self.path, limit).expect("a semaphore path")
    }

    /// A latch, which is a candidate at once.
    pub fn latch(&self, curator: &Curator) -> LeaderLatch {
        curator.leader_latch(&self.path).expect("a latch path")
    }

    /// A latch whose node is there.
    pub async fn queued_latch(&self, curator: &Curator) -> LeaderLatch {
        let before = self.children().await.len();
        let latch = self.latch(curator);
        self.children_are(before + 1).await;
        latch
    }

    /// A latch that leads.
    pub async fn leading_latch(&self, curator: &Curator) -> (LeaderLatch, Hold) {
        let latch = self.latch(curator);
        let leadership = within("leadership", latch.leadership()).await.unwrap();
        (latch, leadership)
    }

    pub fn selector(&self, curator: &Curator) -> LeaderSelector {
        curator.leader_selector(&self.path).expect("a leader path")
    }

    pub fn observer(&self, curator: &Curator) -> LeaderObserver {
        curator.observe_leader(&self.path).expect("a leader path")
    }

    // Waiters in tasks of their own.

    /// Starts a task, and waits until it has a node at the test's path.
    pub async fn enters<T: Send + 'static>(
        &self,
        acquiring: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        let before = self.children().await.len();
        let waiting = tokio::spawn(acquiring);
        self.children_are(before + 1).await;
        waiting
    }

    /// Starts to acquire the mutex, and waits until the node is there.
    pub async fn waits(&self, curator: &Curator) -> Waiting {
        let mutex = self.mutex(curator);
        self.enters(async move { mutex.acquire().await }).await
    }

    /// Starts to read, and waits until the node is there.
    pub async fn reads(&self, curator: &Curator) -> Waiting {
        let lock = self.read_write(curator);
        self.enters(async move { lock.read().await }).await
    }

    /// Starts to write, and waits until the node is there.
    pub async fn writes(&self, curator: &Curator) -> Waiting<WriteGuard> {
        let lock = self.read_write(curator);
        self.enters(async move { lock.write().await }).await
    }

    // Nodes.

    /// Lists the children of the test's path.
    pub async fn children(&self) -> Vec<String> {
        children(&self.admin, &self.path).await
    }

    /// Waits until the test's path has this many children.
    pub async fn children_are(&self, count: usize) {
        eventually(&format!("{count} children"), async || self.children().await.len() == count)
            .await;
    }

    /// The paths of the nodes in `locks`, in the order of their numbers.
    pub async fn locks(&self) -> Vec<String> {
        self.sorted("locks").await
    }

    /// The paths of the nodes in `leases`, in the order of their numbers.
    pub async fn leases(&self) -> Vec<String> {
        self.sorted("leases").await
    }

    async fn sorted(&self, folder: &str) -> Vec<String> {
        let mut names = children(&self.admin, &format!("{}/{folder}", self.path)).await;
        names.sort_by_key(|name| name.rsplit('-').next().map(str::to_owned));
        names.into_iter().map(|name| self.below(folder, &name)).collect()
    }

    /// The path of a child of `locks` or `leases`.
    pub fn below(&self, folder: &str, child: &str) -> String {
        format!("{}/{folder}/{child}", self.path)
    }

    /// Waits until `locks` and `leases` have this many children.
    pub async fn nodes_are(&self, locks: usize, leases: usize) {
        eventually(&format!("{locks} in locks, {leases} in leases"), async || {
            (self.locks().await.len(), self.leases().await.len()) == (locks, leases)
        })
        .await;
    }

    /// The path of the one child that is not among `others`.
    pub async fn newcomer(&self, others: &[&str]) -> String {
        let mut children = self.children().await;
        children.retain(|name| !others.iter().any(|other| other.ends_with(name.as_str())));
        assert_eq!(children.len(), 1, "{children:?}");
        format!("{}/{}", self.path, children[0])
    }

    pub async fn stat(&self, path: &str) -> Option<Stat> {
        self.admin.check_stat(path).await.expect("a stat")
    }

    pub async fn data(&self, path: &str) -> Option<Vec<u8>> {
        self.admin.get_data(path).await.ok().map(|(data, _)| data)
    }

    pub async fn create(&self, path: &str, mode: CreateMode) {
        self.admin.create(path, &[], mode, &Acls::anyone_all()).await.expect("a node");
    }

    /// Creates a node with data and ACLs, and returns its path. The path of a sequential node ends with the number.
    pub async fn node(&self, path: &str, data: &[u8], mode: CreateMode, acls: &[Acl]) -> String {
        self.admin.create(path, data, mode, acls).await.expect("a node")
    }

    /// Creates a contender's node of another client, named as Curator names it, and returns its path.
    pub async fn stranger(&self) -> String {
        let guid = "1b4e28ba-2fa1-41d2-883f-0016d3cca427";
        let prefix = format!("{}/_c_{guid}-lock-", self.path);
        let mode = CreateMode::EphemeralSequential;
        self.node(&prefix, &[], mode, &Acls::anyone_all()).await
    }

    /// Creates and deletes this many nodes at the test's path, which advances the sequence counter.
    pub async fn count_up(&self, creates: usize) {
        for _ in 0..creates {
            let node = self.stranger().await;
            self.remove(&node).await;
        }
    }

    pub async fn remove(&self, node: &str) {
        self.admin.delete(node, None).await.unwrap();
    }

    pub async fn delete(&self, nodes: &[String]) {
        for node in nodes {
            self.remove(node).await;
        }
    }

    /// Deletes the test's path with its children, and creates the path again.
    pub async fn make_again(&self) {
        for child in self.children().await {
            self.remove(&format!("{}/{child}", self.path)).await;
        }
        self.remove(&self.path).await;
        self.create(&self.path, CreateMode::Persistent).await;
    }

    /// Creates the test's path with ACLs: every client has this permission, and the administrator has all.
    pub async fn restrict(&self, permission: Permission) {
        self.admin.auth("admin:admin").await;
        let acls = [anyone(permission), Acl::new(Permission::ALL, AuthId::authed())];
        self.node(&self.path, &[], CreateMode::Persistent, &acls).await;
    }

    /// Gives every client all permissions again.
    pub async fn open(&self) {
        self.admin.set_acl(&self.path, &Acls::anyone_all()).await.expect("its ACLs");
    }

    /// Deletes the test's path and its children in one transaction.
    pub async fn wipe(&self) {
        let children = self.children().await.into_iter();
        let mut all: Vec<_> = children.map(|one| format!("{}/{one}", self.path)).collect();
        all.push(self.path.clone());
        self.admin.delete_all(&all).await;
    }

    // Sessions.

    /// Ends the session of `curator` as if the servers had expired it.
    pub async fn kill_session(&self, curator: &Curator) {
        self.end_session(curator).await.expect("a session");
    }

    /// Ends the session of `curator` as if the servers had expired it. A session that is over is an error.
    pub async fn end_session(&self, curator: &Curator) -> Result<(), TestkitError> {
        if let Servers::Simulated(ensemble) = &self.servers {
            let before = ensemble.sessions();
            ensemble.expire(curator);
            let expired = ensemble.until(|ensemble| ensemble.sessions() < before);
            let over = |_| TestkitError::KillSession { session: "that is over".to_owned() };
            return tokio::time::timeout(Duration::from_secs(1), expired).await.map_err(over);
        }
        let session = curator.client().expect("a session").session().clone();
        testkit::kill_session(self.servers.connect_string(), &session).await
    }
}

/// A server that deletes no empty container while the tests run, because that would add requests to those that a test counts.
/// The server grants the session timeout [`PATIENT`].
fn server() -> TestServerBuilder {
    let builder = TestServer::builder().container_check_interval(NEVER);
    builder.property("maxSessionTimeout", PATIENT.as_millis().to_string())
}

/// Connects with a session timeout so long that no node is checked within a test's time, and that no busy server ends
/// the lease.
async fn long_lived(connect_string: &str) -> Client {
    let connector = Client::connector().with_session_timeout(Duration::from_secs(60));
    connector.connect(connect_string).await.unwrap()
}
