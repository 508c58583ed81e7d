//! The fault proxy before a real server: what it counts, and the faults of a whole link.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use zookeeper_client;
use zookeeper_client::{AddWatchMode, Client, CreateMode, Error, SessionState};
use zookeeper_testkit::{Cut, Direction, FaultProxy, Operation, TestServer, random_path};

use crate::support::{LIMIT, LONG_SESSION, connect, create, eventually};

/// One server for all tests that run at the same time.
static SHARED: Mutex<Weak<TestServer>> = Mutex::const_new(Weak::new());

/// A client behind a proxy, one beside it, and a path.
pub(crate) struct Link {
    pub(crate) client: Client,
    pub(crate) proxy: FaultProxy,
    pub(crate) admin: Client,
    pub(crate) path: String,
    server: Arc<TestServer>,
}

impl Link {
    pub(crate) async fn new() -> Self {
        let mut shared = SHARED.lock().await;
        let server = match shared.upgrade() {
            Some(server) => server,
            None => {
                let server = Arc::new(TestServer::start().await.expect("a server"));
                *shared = Arc::downgrade(&server);
                server
            }
        };
        drop(shared);
        let admin = connect(&server).await;
        let proxy = FaultProxy::start(server.connect_string()).await.expect("a proxy");
        let client = connect_through(&proxy, LONG_SESSION).await;
        Self { client, proxy, admin, path: random_path("proxy"), server }
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
    let Link { client, proxy, path, server: _server, .. } = Link::new().await;
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
    let Link { client, proxy, admin, path, server: _server } = Link::with_node().await;
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
        let options = CreateMode::Persistent.with_acls(zookeeper_client::Acls::anyone_all());
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

#[tokio::test]
async fn a_connection_can_be_stalled_before_its_handshake() {
    let Link { proxy, server: _server, .. } = Link::new().await;
    for direction in [Direction::ToServer, Direction::ToClient] {
        let stall = proxy.stall(direction);
        let connecting = connect_through(&proxy, LONG_SESSION);
        tokio::pin!(connecting);
        tokio::select! {
            _ = &mut connecting => panic!("connected through a stall {direction:?}"),
            () = stall.struck() => {}
        }
        stall.heal();
        timeout(LIMIT, connecting).await.unwrap();
    }
}

#[tokio::test]
async fn a_delay_adds_to_each_round_trip_and_not_to_each_message() {
    let link = Link::with_node().await;
    let latency = Duration::from_millis(50);
    let delays = [Direction::Both, Direction::ToServer]
        .map(|direction| link.proxy.delay(direction, latency));
    let start = Instant::now();
    let mut requests: Vec<_> =
        (0..100).map(|_| Box::pin(link.client.get_data(&link.path))).collect();
    for request in &mut requests {
        request.await.unwrap();
    }
    let took = start.elapsed();
    assert!(took >= latency * 3, "{took:?}");
    // One direction that delays message by message takes at least that long.
    assert!(took < latency * 100, "{took:?}");
    assert!(delays.iter().all(|delay| delay.strikes() > 0));
    assert_eq!(link.proxy.replies(Operation::GetData), 100);
}

#[tokio::test]
async fn a_cut_costs_the_connection_and_not_the_session() {
    let link = Link::new().await;
    let session = link.client.session_id();
    for (number, cut) in [Cut::Reset, Cut::Finish, Cut::Reset].into_iter().enumerate() {
        let mut states = link.client.state_watcher();
        assert_eq!(link.proxy.cut(cut), 1);
        let state = timeout(LIMIT, states.changed()).await.unwrap();
        assert_eq!(state, SessionState::Disconnected, "{cut:?}");
        link.is_back().await;
        assert_eq!(link.proxy.requests(Operation::Connect), number + 2);
    }
    assert_eq!(link.client.session_id(), session);
}

#[tokio::test]
async fn a_refusal_keeps_a_client_out_until_it_is_healed() {
    let link = Link::new().await;
    let refusal = link.proxy.refuse();
    link.client.check_stat("/").await.expect("the connection stays");
    assert_eq!((refusal.strikes(), link.proxy.cut(Cut::Reset)), (0, 1));
    timeout(LIMIT, refusal.struck()).await.unwrap();
    assert_eq!((link.proxy.connections(), link.proxy.accepted()), (0, 1));
    refusal.heal();
    link.is_back().await;
    assert_eq!(link.proxy.accepted(), 2);
}

#[tokio::test]
async fn what_is_not_the_clients_protocol_passes_as_it_is() {
    let Link { proxy, server, client: _client, .. } = Link::new().await;
    let mut answers = Vec::new();
    for address in [server.connect_string(), proxy.connect_string()] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"conf").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answers.push(answer);
    }
    assert!(answers[0].contains("clientPort"), "{answers:?}");
    assert_eq!(answers[0], answers[1]);
    assert_eq!((proxy.requests(Operation::Any), proxy.requests(Operation::Connect)), (0, 1));
}

#[tokio::test]
async fn a_server_may_go_and_return_behind_the_proxy() {
    let server = TestServer::start().await.expect("a server");
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let client = connect_through(&proxy, LONG_SESSION).await;
    let mut states = client.state_watcher();
    server.stop().await.unwrap();
    assert_eq!(timeout(LIMIT, states.changed()).await.unwrap(), SessionState::Disconnected);
    server.start_again().await.unwrap();
    // Another client, for the first one takes its time between tries.
    let other = connect_through(&proxy, LONG_SESSION).await;
    let mut states = other.state_watcher();
    proxy.close().await;
    assert_eq!(timeout(LIMIT, states.changed()).await.unwrap(), SessionState::Disconnected);
}
