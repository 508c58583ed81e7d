//! The server, the links to it, and the nodes that must be there before a peer begins.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tools::Failure;
use zookeeper_recipes::zookeeper_client::{Acls, Client, CreateMode};
use zookeeper_testkit::{Backend, Direction, Fault, FaultProxy, TestServer, random_path};

/// Of every session of every peer.
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(30);
/// Of the link `8ms`, each way.
const LATENCY: Duration = Duration::from_millis(4);

/// The way from a peer to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Link {
    Direct,
    /// Through a proxy that delays what goes each way by 4 ms.
    Delayed,
    /// Through a proxy that counts.
    Counted,
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Link::Direct => "direct",
            Link::Delayed => "8ms",
            Link::Counted => "counted",
        })
    }
}

/// The server of a run, with a proxy that delays and one that counts.
pub(crate) struct BenchServer {
    delayed: FaultProxy,
    _delays: Fault,
    pub(crate) counted: FaultProxy,
    admin: Client,
    root: String,
    server: TestServer,
}

impl BenchServer {
    pub(crate) async fn set(proxies: Arc<Runtime>) -> Result<Self, Failure> {
        let server = start().await?;
        let delayed = on(&proxies, server.connect_string()).await?;
        let counted = on(&proxies, server.connect_string()).await?;
        let delays = delayed.delay(Direction::Both, LATENCY);
        let admin = Client::connect(server.connect_string()).await?;
        let bench_server =
            Self { delayed, _delays: delays, counted, admin, root: random_path("bench"), server };
        bench_server.make(&bench_server.root).await?;
        Ok(bench_server)
    }

    pub(crate) fn backend(&self) -> Backend {
        self.server.backend()
    }

    /// Where a peer connects.
    pub(crate) fn connect_string(&self, link: Link) -> &str {
        match link {
            Link::Direct => self.server.connect_string(),
            Link::Delayed => self.delayed.connect_string(),
            Link::Counted => self.counted.connect_string(),
        }
    }

    /// A place for `locks` lock paths, `0` and so on, which are made.
    pub(crate) async fn place(&self, name: &str, locks: usize) -> Result<String, Failure> {
        let place = format!("{}/{name}", self.root);
        for lock in 0..locks {
            self.make(&format!("{place}/{lock}")).await?;
        }
        Ok(place)
    }

    /// The same, and each of them has been used, by another client.
    pub(crate) async fn used_place(&self, name: &str, locks: usize) -> Result<String, Failure> {
        let place = self.place(name, locks).await?;
        let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
        for lock in 0..locks {
            let prefix = format!("{place}/{lock}/_c_00000000-0000-0000-0000-000000000000-lock-");
            let (_, sequence) = self.admin.create(&prefix, b"admin", &options).await?;
            self.admin.delete(&format!("{prefix}{sequence}"), None).await?;
        }
        Ok(place)
    }

    async fn make(&self, path: &str) -> Result<(), Failure> {
        let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
        Ok(self.admin.mkdir(path, &options).await?)
    }

    pub(crate) async fn close(self) -> Result<(), Failure> {
        drop(self.admin);
        Ok(self.server.close().await?)
    }
}

/// Its data are in memory where the system has a place for that.
async fn start() -> Result<TestServer, Failure> {
    // The testkit's servers are to start fast; this one is to be fast when it has warmed up, as one in production is.
    let builder = TestServer::builder()
        .tick_time(Duration::from_secs(2))
        .jvm_flag("-XX:TieredStopAtLevel=4")
        .jvm_flag("-Xmx512m")
        .property("snapCount", "1000000");
    Ok(builder.start().await?)
}

fn on(runtime: &Runtime, upstream: &str) -> impl Future<Output = Result<FaultProxy, Failure>> {
    let upstream = upstream.to_owned();
    let started = runtime.spawn(async move { FaultProxy::start(&upstream).await });
    async move { Ok(started.await??) }
}
