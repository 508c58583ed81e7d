//! What the tests share: one server for all that do not disturb it, a path for each, and waiting for
//! what the server shows.

use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Mutex;
use zookeeper_recipes::zookeeper_client::{Acls, Client, CreateMode, Error, SessionInfo, Stat};
use zookeeper_recipes::{
    ConnectionState, Curator, CuratorBuilder, InterProcessMutex, InterProcessReadWriteLock,
    RetryPolicy,
};
use zookeeper_testkit::{self as testkit, Cut, Fault, FaultProxy, Operation, TestServer};

/// Longer than anything takes on a busy machine; a test that waits so long has failed.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A session timeout that a test can outlive. Two thirds of it are a lease, long against what a busy machine holds a task up for.
pub(crate) const SHORT: Duration = Duration::from_secs(6);

/// A session timeout whose lease ends after a test that hangs, so that no test sees its end.
const PATIENT: Duration = Duration::from_secs(120);

/// How long a lock that is not free is waited for: so long that the server answers in between on a busy machine, else the time
/// is up with nothing known, which is an error.
pub(crate) const BUSY: Duration = Duration::from_secs(3);

/// One server for all tests that run at the same time. The last one to end stops it.
static SHARED: Mutex<Weak<TestServer>> = Mutex::const_new(Weak::new());

/// A server, a path of its own, and a client beside the crate's.
pub(crate) struct Arena {
    pub(crate) path: String,
    pub(crate) admin: Client,
    pub(crate) server: Arc<TestServer>,
}

impl Arena {
    /// On the shared server.
    pub(crate) async fn new() -> Self {
        let mut shared = SHARED.lock().await;
        let server = match shared.upgrade() {
            Some(server) => server,
            None => {
                let server = Arc::new(server().await);
                *shared = Arc::downgrade(&server);
                server
            }
        };
        drop(shared);
        Self::on(server).await
    }

    /// On a server of its own.
    pub(crate) async fn own() -> Self {
        Self::on(Arc::new(server().await)).await
    }

    pub(crate) async fn on(server: Arc<TestServer>) -> Self {
        // So long that it outlives an outage that a test makes.
        let admin = Client::connector()
            .with_session_timeout(Duration::from_secs(60))
            .connect(server.connect_string())
            .await
            .expect("an administrator's connection");
        Self { path: testkit::random_path("test"), admin, server }
    }

    pub(crate) fn builder(&self) -> CuratorBuilder {
        Curator::builder()
            .session_timeout(Duration::from_secs(30))
            .retry(RetryPolicy::n_times(100, Duration::from_millis(100)))
    }

    pub(crate) async fn curator(&self) -> Curator {
        self.connect(self.builder()).await
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

    pub(crate) async fn connect(&self, builder: CuratorBuilder) -> Curator {
        builder.connect(self.server.connect_string()).await.expect("a session")
    }

    /// A client behind a proxy of its own.
    pub(crate) async fn linked(&self, builder: CuratorBuilder) -> (FaultProxy, Curator) {
        let link = FaultProxy::start(self.server.connect_string()).await.unwrap();
        let curator = builder.connect(link.connect_string()).await.unwrap();
        (link, curator)
    }

    /// The parent is there, so that the next create is a contender's.
    pub(crate) async fn linked_with_parent(
        &self,
        builder: CuratorBuilder,
    ) -> (FaultProxy, Curator) {
        let (link, curator) = self.linked(builder).await;
        self.mutex(&curator).acquire().await.unwrap().release().await.unwrap();
        link.clear_log();
        (link, curator)
    }

    /// A client behind a proxy that was started: no server is to be reached before the fault is healed.
    pub(crate) async fn unconnected(
        &self,
        builder: CuratorBuilder,
    ) -> (FaultProxy, Fault, Curator) {
        let link = FaultProxy::start(self.server.connect_string()).await.unwrap();
        let refused = link.refuse();
        let curator = builder.start(link.connect_string()).unwrap();
        (link, refused, curator)
    }

    /// With a connection timeout so short that only what comes after the connection is to meet it.
    pub(crate) async fn impatient(&self, connect_string: &str, builder: CuratorBuilder) -> Curator {
        let curator = builder.start(connect_string).expect("a curator");
        let mut state = curator.watch_state();
        let connected = state.wait_for(|state| *state == ConnectionState::Connected);
        drop(within("a session", connected).await.unwrap());
        curator
    }

    /// The same behind a proxy of its own.
    pub(crate) async fn impatient_link(&self, builder: CuratorBuilder) -> (FaultProxy, Curator) {
        let link = FaultProxy::start(self.server.connect_string()).await.unwrap();
        let curator = self.impatient(link.connect_string(), builder).await;
        (link, curator)
    }

    /// For a `Curator` from a client, by a link of its own.
    pub(crate) async fn linked_client(&self) -> (FaultProxy, Client) {
        let link = FaultProxy::start(self.server.connect_string()).await.unwrap();
        let client = long_lived(link.connect_string()).await;
        (link, client)
    }

    /// For a `Curator` from a client.
    pub(crate) async fn client(&self) -> Client {
        long_lived(self.server.connect_string()).await
    }

    pub(crate) fn mutex(&self, curator: &Curator) -> InterProcessMutex {
        InterProcessMutex::new(curator, &self.path).expect("a lock path")
    }

    pub(crate) fn read_write(&self, curator: &Curator) -> InterProcessReadWriteLock {
        InterProcessReadWriteLock::new(curator, &self.path).expect("a lock path")
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
        let options = mode.with_acls(Acls::anyone_all());
        self.admin.create(path, &[], &options).await.expect("a node");
    }

    /// Ends the session of `curator` as if the servers had expired it.
    pub(crate) async fn kill_session(&self, curator: &Curator) {
        let session = session_of(curator);
        testkit::kill_session(self.server.connect_string(), &session)
            .await
            .expect("a killed session");
    }
}

/// It reaps no container while the tests run: that would add requests to those that a test counts, whenever its path is empty
/// at the wrong moment. It grants sessions as long as the patient ask for.
async fn server() -> TestServer {
    let builder = TestServer::builder().container_check_interval(Duration::from_secs(86_400));
    let builder = builder.property("maxSessionTimeout", PATIENT.as_millis().to_string());
    builder.start().await.expect("a ZooKeeper server")
}

/// So long a session that nobody looks after it within a test's time, and no busy server ends its lease.
async fn long_lived(connect_string: &str) -> Client {
    let connector = Client::connector().with_session_timeout(Duration::from_secs(60));
    connector.connect(connect_string).await.unwrap()
}

/// None where the path is missing.
pub(crate) async fn children(admin: &Client, path: &str) -> Vec<String> {
    match admin.list_children(path).await {
        Ok(children) => children,
        Err(Error::NoNode) => Vec::new(),
        Err(error) => panic!("cannot list {path}: {error}"),
    }
}

/// Cuts a link, one way or the other, and waits until it is back.
pub(crate) async fn flap(link: &FaultProxy, nth: usize) {
    let cut = if nth.is_multiple_of(2) { Cut::Reset } else { Cut::Finish };
    let (before, answered) = (link.accepted(), link.replies(Operation::Sync));
    assert!(link.cut(cut) > 0);
    eventually("the link is back", async || {
        link.accepted() > before && link.replies(Operation::Sync) > answered
    })
    .await;
}

/// Its fault has struck, once. It is counted a moment after the connection was cut.
pub(crate) async fn struck_once(fault: &Fault) {
    within("a strike", fault.struck()).await;
    assert_eq!(fault.strikes(), 1);
}

pub(crate) fn session_of(curator: &Curator) -> SessionInfo {
    curator.client().expect("a session").session().clone()
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
