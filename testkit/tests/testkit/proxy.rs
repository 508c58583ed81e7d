//! The fault proxy before a real server: what it counts, and the faults of a whole link.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use zookeeper_client::{Acls, AddWatchMode, Client, CreateMode, Error};
use zookeeper_testkit::{Direction, FaultProxy, Operation, TestServer, random_path};

use crate::support::{LIMIT, LONG_SESSION, connect, create, eventually, server};

/// One server for all tests that run at the same time.
static SHARED: Mutex<Weak<TestServer>> = Mutex::const_new(Weak::new());

/// A client behind a proxy, one beside it, and a path.
pub(crate) struct Link {
    pub(crate) client: Client,
    pub(crate) proxy: FaultProxy,
    pub(crate) admin: Client,
    pub(crate) path: String,
    _server: Arc<TestServer>,
}

impl Link {
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
        let admin = connect(server.connect_string()).await;
        let proxy = FaultProxy::start(server.connect_string()).await.expect("a proxy");
        let client = connect_through(&proxy, LONG_SESSION).await;
        Self { client, proxy, admin, path: random_path("proxy"), _server: server }
    }

    /// Whether the server has the node.
    pub(crate) async fn exists(&self, path: &str) -> bool {
        self.admin.check_stat(path).await.expect("an answer").is_some()
    }

    /// With a node at the path.
    pub(crate) async fn with_node() -> Self {
        let link = Self::new().await;
        create(&link.admin, &link.path, CreateMode::Persistent).await;
        link
    }

    /// The session lives on, on a connection of its own.
    pub(crate) async fn is_back(&self) {
        let back = async {
            while let Err(error) = self.client.check_stat("/").await {
                assert!(is_loss(&error), "{error:?}");
            }
        };
        timeout(LIMIT, back).await.expect("a connection");
        assert_eq!(self.proxy.connections(), 1);
    }
}

/// What the client says of a request without an answer.
pub(crate) fn is_loss(error: &Error) -> bool {
    match error {
        Error::ConnectionLoss => true,
        Error::Custom(error) => error.to_string().contains("reset"),
        _ => false,
    }
}

pub(crate) async fn connect_through(proxy: &FaultProxy, session: Duration) -> Client {
    let connector = Client::connector().with_session_timeout(session);
    connector.connect(proxy.connect_string()).await.expect("a connection")
}

#[tokio::test]
async fn requests_replies_bytes_and_connections_are_counted() {
    let Link { client, proxy, path, _server, .. } = Link::new().await;
    assert_eq!((proxy.requests(Operation::Connect), proxy.requests(Operation::Any)), (1, 0));
    let bytes = (proxy.bytes(Direction::ToServer), proxy.bytes(Direction::ToClient));
    assert_eq!(bytes.0 + bytes.1, proxy.bytes(Direction::Both));
    create(&client, &path, CreateMode::Persistent).await;
    create(&client, &format!("{path}/c"), CreateMode::Container).await;
    client.check_stat(&path).await.unwrap();
    client.set_data(&path, b"other", None).await.unwrap();
    client.get_data(&path).await.unwrap();
    client.list_children(&path).await.unwrap();
    client.get_children(&path).await.unwrap();
    client.sync(&path).await.unwrap();
    client.delete(&format!("{path}/c"), None).await.unwrap();
    client.delete(&path, Some(77)).await.unwrap_err();
    let mut writer = client.new_multi_writer();
    writer.add_check_version(&path, 1).unwrap();
    writer.commit().await.unwrap();
    let watcher = client.watch(&path, AddWatchMode::Persistent).await.unwrap();
    client.auth("digest", b"user:word").await.unwrap();
    client.get_acl(&path).await.unwrap();
    let expected = [
        Operation::Create,
        Operation::Create,
        Operation::Exists,
        Operation::SetData,
        Operation::GetData,
        Operation::List,
        Operation::List,
        Operation::Sync,
        Operation::Delete,
        Operation::Delete,
        Operation::Multi,
        Operation::AddWatch,
        Operation::Auth,
        Operation::Other(6),
    ];
    assert_eq!(proxy.log(), expected);
    for operation in expected {
        let count = expected.iter().filter(|one| **one == operation).count();
        assert_eq!(proxy.requests(operation), count, "{operation:?}");
        assert_eq!(proxy.replies(operation), count, "{operation:?}");
    }
    assert_eq!(proxy.requests(Operation::Any), expected.len());
    assert_eq!(proxy.replies(Operation::Any), expected.len());
    assert!(proxy.bytes(Direction::ToServer) > bytes.0 + 14 * 12);
    assert!(proxy.bytes(Direction::ToClient) > bytes.1 + 14 * 20);
    assert_eq!((proxy.connections(), proxy.accepted()), (1, 1));
    proxy.clear_log();
    assert_eq!(proxy.log(), []);
    drop(watcher);
    drop(client);
    eventually("the connection is over", || proxy.connections() == 0).await;
    assert_eq!(proxy.log().last(), Some(&Operation::CloseSession));
    assert_eq!(proxy.accepted(), 1);
}

#[tokio::test]
async fn a_long_message_passes_and_a_round_trip_costs_little() {
    let Link { client, proxy, admin, path, _server } = Link::with_node().await;
    let data = vec![7; 1_000_000];
    client.set_data(&path, &data, None).await.unwrap();
    assert!(client.get_data(&path).await.unwrap().0 == data);
    assert!(proxy.bytes(Direction::ToServer) > 1_000_000);
    // In turn, so that a busy machine is as busy for both.
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..1000 {
        for (client, times) in [&admin, &client].into_iter().zip(&mut times) {
            let start = Instant::now();
            client.check_stat(&path).await.unwrap();
            times.push(start.elapsed());
        }
    }
    let [direct, proxied] = times.map(|mut times| {
        times.sort_unstable();
        times[times.len() / 2]
    });
    println!("median of a round trip: {direct:?} direct, {proxied:?} through the proxy");
    // Two trips and the proxy's own work; Nagle's algorithm would cost 40 ms.
    assert!(proxied < direct * 4 + Duration::from_millis(20), "{direct:?}, {proxied:?}");
}

#[tokio::test]
async fn a_stall_holds_the_session_and_healing_delivers() {
    for direction in [Direction::ToServer, Direction::ToClient, Direction::Both] {
        let link = Link::new().await;
        let stall = link.proxy.stall(direction);
        let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
        let creating = link.client.create(&link.path, b"", &options);
        timeout(LIMIT, stall.struck()).await.unwrap();
        let is_done = direction == Direction::ToClient;
        assert_eq!(link.exists(&link.path).await, is_done, "{direction:?}");
        assert_eq!(link.proxy.requests(Operation::Create), 1);
        assert_eq!(link.proxy.replies(Operation::Create), usize::from(is_done));
        assert_eq!(stall.strikes(), 1);
        stall.heal();
        creating.await.unwrap();
        assert!(link.exists(&link.path).await);
        assert_eq!(link.proxy.accepted(), 1);
    }
}
