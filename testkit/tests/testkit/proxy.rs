//! The fault proxy before a real server: what it counts, and the faults of a whole link.

use std::time::Duration;

use tokio::sync::OnceCell;
use tokio::time::timeout;
use zookeeper_client::{AddWatchMode, Client, CreateMode, Error};
use zookeeper_testkit::{Direction, FaultProxy, Operation, TestServer, random_path};

use crate::support::{LIMIT, LONG_SESSION, connect, create, eventually, server};

/// One server for all tests. It ends with the process.
static SERVER: OnceCell<TestServer> = OnceCell::const_new();

/// A client behind a proxy, one beside it, and a path.
pub(crate) struct Link {
    pub(crate) client: Client,
    pub(crate) proxy: FaultProxy,
    pub(crate) admin: Client,
    pub(crate) path: String,
}

impl Link {
    pub(crate) async fn new() -> Self {
        let server = SERVER.get_or_init(server).await;
        let admin = connect(server.connect_string()).await;
        let proxy = FaultProxy::start(server.connect_string()).await.expect("a proxy");
        let client = connect_through(&proxy, LONG_SESSION).await;
        Self { client, proxy, admin, path: random_path("proxy") }
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
    let Link { client, proxy, path, .. } = Link::new().await;
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
    client.auth("digest", b"user:word").await.unwrap();
    client.get_acl(&path).await.unwrap();
    let watcher = match client.watch(&path, AddWatchMode::Persistent).await {
        // A server before 3.6 says so, and closes the connection.
        Err(Error::Unimplemented) => {
            assert_eq!(proxy.replies(Operation::AddWatch), 1);
            return;
        }
        watcher => watcher.unwrap(),
    };
    let log = proxy.log();
    let expected = "[Create, Create, Exists, SetData, GetData, List, List, Sync, Delete, Delete, Multi, Auth, \
                    Other(6), AddWatch]";
    assert_eq!(format!("{log:?}"), expected);
    for operation in log.iter().copied() {
        let count = log.iter().filter(|one| **one == operation).count();
        let counted = (proxy.requests(operation), proxy.replies(operation));
        assert_eq!(counted, (count, count), "{operation:?}");
    }
    let all = (proxy.requests(Operation::Any), proxy.replies(Operation::Any));
    assert_eq!(all, (log.len(), log.len()));
    assert!(proxy.bytes(Direction::ToServer) > bytes.0 + 14 * 12);
    assert!(proxy.bytes(Direction::ToClient) > bytes.1 + 14 * 20);
    assert_eq!((proxy.connections(), proxy.accepted()), (1, 1));
    proxy.clear_log();
    assert_eq!(proxy.log(), []);
    drop((watcher, client));
    eventually("the connection is over", || proxy.connections() == 0).await;
    assert_eq!(proxy.log().last(), Some(&Operation::CloseSession));
}
