//! What the tests share: a world, a path of its own for each, and waiting for what the servers show.

mod world;

use std::cell::{Cell, RefCell};
use std::fmt::Debug;
use std::future::Future;
use std::ops::Deref;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use zookeeper_recipes::session::{ConnectionState, RetryPolicy};
use zookeeper_recipes::simulation::{Ensemble, EnsembleBuilder};
use zookeeper_recipes::zookeeper_client::{
    Acl, Acls, AuthId, Client, CreateMode, Error, Permission, Stat,
};
use zookeeper_recipes::{
    Attempt, Curator, CuratorBuilder, ErrorKind, Guard, Hold, InterProcessMutex,
    InterProcessReadWriteLock, Loss,
};
use zookeeper_testkit::{
    self as testkit, FaultProxy, TestEnsemble, TestServer, TestServerBuilder, TestkitError,
};

#[allow(unused_imports)] // not all tests need all
pub(crate) use self::world::{
    Admin, Cut, Direction, Fault, Link, Message, Operation, Server, Servers, is_real,
};

/// Longer than anything takes on a busy machine; a test that waits so long has failed.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A session timeout that a test can outlive. Two thirds of it are a lease, long against what a busy machine holds a task up for.
pub(crate) const SHORT: Duration = Duration::from_secs(6);

/// A session timeout whose lease ends after a test that hangs, so that no test sees its end.
const PATIENT: Duration = Duration::from_secs(120);

/// Of servers that part soon from one that falls silent.
pub(crate) const TICK: Duration = Duration::from_millis(200);

/// Longer than any test.
const NEVER: Duration = Duration::from_secs(86_400);

/// How long a lock that is not free is waited for: so long that the server answers in between on a busy machine, else the time
/// is up with nothing known, which is an error.
pub(crate) const BUSY: Duration = Duration::from_secs(3);

/// One real server for all tests that run at the same time. The last one to end stops it.
static SHARED: Mutex<Weak<TestServer>> = Mutex::const_new(Weak::new());

thread_local! {
    /// The simulated servers of the test that runs on this thread.
    static HERE: RefCell<Weak<Ensemble>> = const { RefCell::new(Weak::new()) };
    static ARENAS: Cell<usize> = const { Cell::new(0) };
}

/// A task that waits for a hold.
pub(crate) type Waiting<G = Guard> = JoinHandle<Result<G, zookeeper_recipes::Error>>;

/// Servers, a path of its own, and a client beside the crate's.
pub(crate) struct Arena {
    pub(crate) path: String,
    pub(crate) admin: Admin,
    pub(crate) servers: Servers,
    /// The first of them.
    pub(crate) server: Server,
}

impl Arena {
    /// A world of its own; a path on the shared server if it is real.
    pub(crate) async fn new() -> Self {
        if world::is_real() { Self::real().await } else { Self::simulated(|one| one).await }
    }

    /// With a client.
    pub(crate) async fn with_curator() -> (Self, Curator) {
        let (arena, [curator]) = Self::with_curators().await;
        (arena, curator)
    }

    /// With several clients.
    pub(crate) async fn with_curators<const COUNT: usize>() -> (Self, [Curator; COUNT]) {
        let arena = Self::new().await;
        let curators = arena.curators().await;
        (arena, curators)
    }

    /// With a client behind a link of its own.
    pub(crate) async fn with_link(builder: fn(&Self) -> CuratorBuilder) -> (Self, Link, Curator) {
        let arena = Self::new().await;
        let (link, curator) = arena.linked(builder(&arena)).await;
        (arena, link, curator)
    }

    /// With a server of its own.
    pub(crate) async fn own() -> Self {
        Self::with(server(), |one| one).await
    }

    /// A server of its own that deletes empty containers so often.
    pub(crate) async fn reaping(interval: Duration) -> Self {
        let real = TestServer::builder().container_check_interval(interval);
        Self::with(real, |one| one.container_check_interval(interval)).await
    }

    pub(crate) async fn with(
        real: TestServerBuilder,
        simulated: impl FnOnce(EnsembleBuilder) -> EnsembleBuilder,
    ) -> Self {
        if world::is_real() {
            Self::on(Servers::One(Arc::new(real.start().await.expect("a server")))).await
        } else {
            Self::simulated(simulated).await
        }
    }

    /// Three servers of its own. One that hears nothing for so many ticks parts from the others.
    pub(crate) async fn three(tick: Duration, ticks: u32) -> Self {
        if world::is_real() {
            let builder = TestEnsemble::builder(3).tick_time(tick);
            let ensemble = builder.property("syncLimit", ticks.to_string()).start().await.unwrap();
            Self::on(Servers::Three(Arc::new(ensemble))).await
        } else {
            Self::simulated(|one| one.servers(3).tick_time(tick).sync_limit(ticks)).await
        }
    }

    /// The servers of this test's world, which begins with its first arena.
    async fn simulated(options: impl FnOnce(EnsembleBuilder) -> EnsembleBuilder) -> Self {
        let ensemble = HERE.with_borrow(Weak::upgrade).unwrap_or_else(|| {
            let builder = Ensemble::builder(world::seed()).container_check_interval(NEVER);
            let ensemble = Arc::new(options(builder).start());
            HERE.set(Arc::downgrade(&ensemble));
            ensemble
        });
        Self::on(Servers::Simulated(ensemble)).await
    }

    /// With a real server of its own.
    pub(crate) async fn real_own() -> Self {
        Self::on(Servers::One(Arc::new(server().start().await.expect("a server")))).await
    }

    /// On the shared real server: for what only such a one can show.
    pub(crate) async fn real() -> Self {
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

    pub(crate) async fn on(servers: Servers) -> Self {
        let admin = servers.admin().await;
        let path = match &servers {
            Servers::Simulated(_) => {
                ARENAS.set(ARENAS.get() + 1);
                format!("/test-{:x}-{}", world::seed(), ARENAS.get())
            }
            _ => testkit::random_path("test"),
        };
        let server = Server::new(servers.clone(), 0);
        Self { path, admin, servers, server }
    }

    pub(crate) fn builder(&self) -> CuratorBuilder {
        let builder = Curator::builder()
            .session_timeout(Duration::from_secs(30))
            .retry(RetryPolicy::n_times(100, Duration::from_millis(100)));
        // Of the process, another one in each run.
        match self.servers {
            Servers::Simulated(_) => builder.identity("a test"),
            _ => builder,
        }
    }

    pub(crate) async fn curator(&self) -> Curator {
        self.connect(self.builder()).await
    }

    /// Several, each with a session of its own.
    pub(crate) async fn curators<const COUNT: usize>(&self) -> [Curator; COUNT] {
        let mut curators = Vec::with_capacity(COUNT);
        for _ in 0..COUNT {
            curators.push(self.curator().await);
        }
        curators.try_into().expect("as many")
    }

    /// With a session that outlives a restart of the server, however busy the machine is.
    pub(crate) async fn patient_curator(&self) -> Curator {
        self.connect(self.patient_builder()).await
    }

    pub(crate) fn patient_builder(&self) -> CuratorBuilder {
        self.builder().session_timeout(PATIENT)
    }

    /// With a session that a test can outlive.
    pub(crate) async fn short_lived_curator(&self) -> Curator {
        self.connect(self.short_lived_builder()).await
    }

    pub(crate) fn short_lived_builder(&self) -> CuratorBuilder {
        self.builder().session_timeout(SHORT)
    }

    /// The node of a hold is looked after within a sixth of the timeout: 3 s, while a busy machine has 12 s to renew the lease.
    pub(crate) async fn attentive_curator(&self) -> Curator {
        self.connect(self.builder().session_timeout(Duration::from_secs(18))).await
    }

    pub(crate) async fn connect(&self, builder: CuratorBuilder) -> Curator {
        builder.connect(self.servers.connect_string()).await.expect("a session")
    }

    /// A link of its own to the servers.
    pub(crate) async fn link(&self) -> Link {
        match &self.servers {
            Servers::Simulated(ensemble) => Link::Simulated(ensemble.link()),
            real => Link::Real(FaultProxy::start(real.connect_string()).await.unwrap()),
        }
    }

    /// A client behind a link of its own.
    pub(crate) async fn linked(&self, builder: CuratorBuilder) -> (Link, Curator) {
        let link = self.link().await;
        let curator = builder.connect(link.connect_string()).await.unwrap();
        (link, curator)
    }

    /// The parent is there, so that the next create is a contender's.
    pub(crate) async fn linked_with_parent(&self, builder: CuratorBuilder) -> (Link, Curator) {
        let (link, curator) = self.linked(builder).await;
        self.mutex(&curator).acquire().await.unwrap().release().await.unwrap();
        link.clear_log();
        (link, curator)
    }

    /// A client behind a proxy that was started: no server is to be reached before the fault is healed.
    pub(crate) async fn unconnected(&self, builder: CuratorBuilder) -> (Link, Fault, Curator) {
        let link = self.link().await;
        let refused = link.refuse();
        let curator = builder.connect_lazy(link.connect_string()).unwrap();
        (link, refused, curator)
    }

    /// With a connection timeout so short that only what comes after the connection is to meet it.
    pub(crate) async fn impatient(&self, connect_string: &str, builder: CuratorBuilder) -> Curator {
        let curator = builder.connect_lazy(connect_string).expect("a curator");
        until(&curator, ConnectionState::Connected).await;
        curator
    }

    /// For a `Curator` from a client, by a link of its own.
    pub(crate) async fn linked_client(&self) -> (Link, Client) {
        let link = self.link().await;
        let client = long_lived(link.connect_string()).await;
        (link, client)
    }

    /// For a `Curator` from a client.
    pub(crate) async fn client(&self) -> Client {
        long_lived(self.server.connect_string()).await
    }

    pub(crate) fn mutex(&self, curator: &Curator) -> InterProcessMutex {
        curator.mutex(&self.path).expect("a lock path")
    }

    pub(crate) fn read_write(&self, curator: &Curator) -> InterProcessReadWriteLock {
        curator.read_write_lock(&self.path).expect("a lock path")
    }

    /// Starts a task, which has a node at the test's path when this returns.
    pub(crate) async fn enters<T: Send + 'static>(
        &self,
        acquiring: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        let before = self.children().await.len();
        let waiting = tokio::spawn(acquiring);
        self.children_are(before + 1).await;
        waiting
    }

    /// The same of a task that asks for the mutex.
    pub(crate) async fn waits(&self, curator: &Curator) -> Waiting {
        let mutex = self.mutex(curator);
        self.enters(async move { mutex.acquire().await }).await
    }

    /// The children of the test's path, as the server has them.
    pub(crate) async fn children(&self) -> Vec<String> {
        children(&self.admin, &self.path).await
    }

    /// Waits until the test's path has so many children.
    pub(crate) async fn children_are(&self, count: usize) {
        eventually(&format!("{count} children"), async || self.children().await.len() == count)
            .await;
    }

    pub(crate) async fn stat(&self, path: &str) -> Option<Stat> {
        self.admin.check_stat(path).await.expect("a stat")
    }

    pub(crate) async fn create(&self, path: &str, mode: CreateMode) {
        self.admin.create(path, &[], mode, &Acls::anyone_all()).await.expect("a node");
    }

    /// A node with data and ACLs; its path, with a number if it is sequential.
    pub(crate) async fn node(
        &self,
        path: &str,
        data: &[u8],
        mode: CreateMode,
        acls: &[Acl],
    ) -> String {
        self.admin.create(path, data, mode, acls).await.expect("a node")
    }

    /// Makes the test's path, where everybody may do only that; the administrator may do all.
    pub(crate) async fn restrict(&self, permission: Permission) {
        self.admin.auth("admin:admin").await;
        let acls = [anyone(permission), Acl::new(Permission::ALL, AuthId::authed())];
        self.node(&self.path, &[], CreateMode::Persistent, &acls).await;
    }

    /// Everybody may do all again.
    pub(crate) async fn open(&self) {
        self.admin.set_acl(&self.path, &Acls::anyone_all()).await.expect("its ACLs");
    }

    /// Deletes the test's path and its children, all at once.
    pub(crate) async fn wipe(&self) {
        let children = self.children().await.into_iter();
        let mut all: Vec<_> = children.map(|one| format!("{}/{one}", self.path)).collect();
        all.push(self.path.clone());
        self.admin.delete_all(&all).await;
    }

    /// Ends the session of `curator` as if the servers had expired it.
    pub(crate) async fn kill_session(&self, curator: &Curator) {
        self.end_session(curator).await.expect("a session");
    }

    /// The same; an error if it is over.
    pub(crate) async fn end_session(&self, curator: &Curator) -> Result<(), TestkitError> {
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

/// It reaps no container while the tests run: that would add requests to those that a test counts, whenever its path is empty
/// at the wrong moment. It grants sessions as long as the patient ask for.
fn server() -> TestServerBuilder {
    let builder = TestServer::builder().container_check_interval(NEVER);
    builder.property("maxSessionTimeout", PATIENT.as_millis().to_string())
}

/// So long a session that nobody looks after it within a test's time, and no busy server ends its lease.
async fn long_lived(connect_string: &str) -> Client {
    let connector = Client::connector().with_session_timeout(Duration::from_secs(60));
    connector.connect(connect_string).await.unwrap()
}

pub(crate) fn anyone(permission: Permission) -> Acl {
    Acl::new(permission, AuthId::anyone())
}

/// The guard, if it was free.
pub(crate) fn acquired<G>(attempt: Attempt<G>) -> Option<G> {
    match attempt {
        Attempt::Acquired(guard) => Some(guard),
        Attempt::Busy => None,
    }
}

/// The error of what must fail, by this kind; what else it says goes with the kind.
#[track_caller]
pub(crate) fn fails<T: Debug>(
    outcome: Result<T, zookeeper_recipes::Error>,
    kind: ErrorKind,
) -> zookeeper_recipes::Error {
    let error = outcome.expect_err("it must fail");
    assert_eq!(error.kind(), kind, "{error:?}");
    let is_transient = matches!(kind, ErrorKind::Unavailable | ErrorKind::LimitReached);
    assert_eq!(error.is_transient(), is_transient, "{error:?}");
    assert_eq!(error.option().is_some(), kind == ErrorKind::InvalidInput, "{error:?}");
    assert_eq!(error.loss().is_some(), kind == ErrorKind::Lost, "{error:?}");
    let is_named = error.path().is_none_or(|path| error.to_string().contains(path));
    assert!(is_named, "{error:?}");
    error
}

/// How the hold was lost that something failed by.
#[track_caller]
pub(crate) fn lost_by<T: Debug>(outcome: Result<T, zookeeper_recipes::Error>) -> Loss {
    fails(outcome, ErrorKind::Lost).loss().expect("a loss")
}

/// Waits until the connection of `curator` is in this state.
pub(crate) async fn until(curator: &Curator, wanted: ConnectionState) {
    let mut state = curator.watch_state();
    let reached = state.wait_for(|state| *state == wanted);
    drop(within("a state of the connection", reached).await.unwrap());
}

/// None where the path is missing.
pub(crate) async fn children(admin: &Admin, path: &str) -> Vec<String> {
    match admin.list_children(path).await {
        Ok(children) => children,
        Err(Error::NoNode) => Vec::new(),
        Err(error) => panic!("cannot list {path}: {error}"),
    }
}

/// Cuts a link, one way or the other, and waits until it is back.
pub(crate) async fn flap(link: &Link, nth: usize) {
    let cut = if nth.is_multiple_of(2) { Cut::Reset } else { Cut::Finish };
    let (before, answered) = (link.accepted(), link.replies(Operation::Sync));
    assert!(link.cut(cut) > 0);
    eventually("the link is back", async || {
        link.accepted() > before && link.replies(Operation::Sync) > answered
    })
    .await;
}

/// Cuts a link, and refuses connections while the fault lasts.
pub(crate) async fn cut_off(link: &Link) -> Fault {
    let refused = link.refuse();
    assert!(link.cut(Cut::Reset) > 0);
    within("a refusal", refused.struck()).await;
    refused
}

/// What a task waited for, which holds.
pub(crate) async fn held<G: Deref<Target = Hold>>(waiting: Waiting<G>) -> G {
    let guard = within("the waiter", waiting).await.unwrap().unwrap();
    assert!(guard.is_held(), "{:?}", guard.loss());
    guard
}

/// Its fault has struck, once. It is counted a moment after the connection was cut.
pub(crate) async fn struck_once(fault: &Fault) {
    within("a strike", fault.struck()).await;
    assert_eq!(fault.strikes(), 1);
}

/// What the client had been sent before, the crate has been told of after this. Without a connection it waits for one.
pub(crate) async fn round_trip(curator: &Curator) {
    if let Ok(client) = curator.client() {
        eventually("a round trip", async || client.sync("/").await.is_ok()).await;
    } else {
        let connected = [ConnectionState::Connected, ConnectionState::Reconnected];
        eventually("a connection", async || connected.contains(&curator.state())).await;
        // Longer than a message takes in a simulation.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until `condition` holds. For what the server shows only to those who ask.
pub(crate) async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    within(what, waiting).await;
}

/// Awaits `future`, which must not take for ever.
pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, future).await.unwrap_or_else(|_| panic!("hung: {what}"))
}
