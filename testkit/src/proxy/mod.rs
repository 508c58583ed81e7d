//! A proxy that breaks the link between client and server.

mod alarm;
mod connection;
mod counters;
mod fault;
mod frame;
mod lane;
mod operation;
mod protocol;
mod shared;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::select;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use self::fault::{Break, Kind};
pub use self::fault::{Cut, Direction, Fault, Message};
pub use self::operation::Operation;
pub(super) use self::protocol::Protocol;
use self::shared::Shared;
use super::TestkitError;
use super::port::listen_anew;

/// A TCP proxy in front of one server that injects faults on demand: on the whole link, or at one message of the
/// client protocol.
///
/// The code under test connects to [`connect_string`](Self::connect_string). A fault lasts until its [`Fault`] is
/// healed or dropped. Several faults add up: bytes that two of them stall wait until both are healed.
///
/// A message is counted when the proxy has read all of it. A fault acts on it when its turn to be forwarded has come,
/// after stalls and delays.
///
/// Connections that do not begin like ZooKeeper's (TLS, four-letter words) pass unchanged, and so does a message of
/// more than 16 MiB with everything that follows it. Faults about a [`Message`] and counts by [`Operation`] do not
/// see them.
///
/// Dropping the proxy closes its connections and its port.
///
/// # Examples
///
/// The reply to a create is lost: the client does not know whether its node exists, and it does.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use zookeeper_client::{Acls, Client, CreateMode};
/// use zookeeper_testkit::{FaultProxy, Message, Operation, TestServer, random_path};
///
/// let server = TestServer::start().await?;
/// let proxy = FaultProxy::start(server.connect_string()).await?;
/// let client = Client::connect(proxy.connect_string()).await?;
///
/// let lost = proxy.lose(Message::reply(Operation::Create));
/// let (path, options) = (random_path("node"), CreateMode::Persistent.with_acls(Acls::anyone_all()));
/// client.create(&path, b"", &options).await.expect_err("no reply");
/// assert_eq!(lost.strikes(), 1);
/// assert!(client.check_stat(&path).await?.is_some()); // on the next connection
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping the proxy closes its connections"]
pub struct FaultProxy {
    address: SocketAddr,
    connect_string: String,
    shared: Arc<Shared>,
    stop: CancellationToken,
    tasks: JoinSet<()>,
}

impl FaultProxy {
    /// Starts a proxy on a free port of 127.0.0.1, in front of the server at `upstream`: one `HOST:PORT`, or
    /// `tcp+tls://HOST:PORT`.
    ///
    /// The server does not have to be up: while it is down, the proxy resets its clients. As long as there are other
    /// ports, the port is not that of an earlier proxy of this process, whose clients may still try to connect.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    ///
    /// # Errors
    ///
    /// [`TestkitError::InvalidOption`] if `upstream` has neither form; [`TestkitError::Failed`] if no port is
    /// available.
    pub async fn start(upstream: &str) -> Result<Self, TestkitError> {
        let listener = listen_anew().await?;
        let schemes = ["tcp+tls://", "tcp://"];
        let scheme = schemes.into_iter().find(|scheme| upstream.starts_with(scheme)).unwrap_or("");
        let server = upstream[scheme.len()..].to_owned();
        let mut proxy = Self::start_as(listener, server, Protocol::Client)?;
        proxy.connect_string.insert_str(0, scheme);
        Ok(proxy)
    }

    pub(super) fn start_as(
        listener: TcpListener,
        upstream: String,
        protocol: Protocol,
    ) -> Result<Self, TestkitError> {
        let port = upstream.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
        if !matches!(port, Some(Ok(_))) || upstream.contains([',', '/']) {
            let reason = "a proxy stands in front of one server, HOST:PORT";
            return Err(TestkitError::InvalidOption {
                option: "upstream",
                value: upstream,
                reason,
            });
        }
        let address = listener.local_addr().map_err(TestkitError::cannot("tell a proxy's port"))?;
        let shared = Arc::new(Shared::new(upstream, protocol));
        let stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        tasks.spawn(listen(listener, shared.clone(), stop.clone()));
        Ok(Self { address, connect_string: address.to_string(), shared, stop, tasks })
    }

    /// Returns the connect string for clients: `127.0.0.1:PORT`, after the scheme of the server's address if it has
    /// one.
    #[must_use]
    pub fn connect_string(&self) -> &str {
        &self.connect_string
    }

    pub(super) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Delays the bytes in a direction by `latency`, and keeps their order. Each connection may have 4 MiB under way.
    /// Several delays add up. When the fault is healed, the delayed bytes are delivered at once.
    pub fn delay(&self, direction: Direction, latency: Duration) -> Fault {
        self.shared.board.install(Kind::Delay(direction, latency))
    }

    /// Holds the bytes in a direction back until the fault is healed: a black hole with both ends still connected.
    /// Once 4 MiB of a connection wait, the proxy no longer reads from the sender.
    ///
    /// The ends of connections are held back too, so the server does not notice that a client has disconnected. New
    /// connections are accepted. A connection that begins during a stall towards the server reaches it only if the
    /// client still waits when the stall ends.
    pub fn stall(&self, direction: Direction) -> Fault {
        self.shared.board.install(Kind::Stall(direction))
    }

    /// Resets new connections at once; existing ones stay.
    pub fn refuse(&self) -> Fault {
        self.shared.board.install(Kind::Refuse)
    }

    /// Cuts all existing connections now, and returns their number.
    #[allow(clippy::must_use_candidate)] // it is called for what it does
    pub fn cut(&self, cut: Cut) -> usize {
        self.shared.connections.cut_all(cut)
    }

    /// Loses exactly this message. TCP cannot lose a single message, so its connection is reset there. If the message
    /// is a reply, the server has carried the request out.
    pub fn lose(&self, message: Message) -> Fault {
        self.shared.board.install(Kind::Break(message, Break::Before))
    }

    /// Holds this message, and everything after it in its direction, until the fault is healed.
    pub fn hold(&self, message: Message) -> Fault {
        self.shared.board.install(Kind::Hold(message))
    }

    /// Forwards the first half of this message's bytes, then resets its connection.
    pub fn cut_within(&self, message: Message) -> Fault {
        self.shared.board.install(Kind::Break(message, Break::Within))
    }

    /// Forwards this message, then cuts its connection.
    ///
    /// A server does not necessarily process a request that was forwarded this way: when the client's session returns
    /// on another connection, ZooKeeper closes the old one and drops the bytes that it has not read there. To be sure
    /// of the effect, [refuse](Self::refuse) connections until it is visible.
    pub fn cut_at(&self, message: Message, cut: Cut) -> Fault {
        self.shared.board.install(Kind::Break(message, Break::After(cut)))
    }

    /// Returns the number of requests for this operation that clients sent, including those that a fault held back or
    /// lost.
    #[must_use]
    pub fn requests(&self, operation: Operation) -> usize {
        self.shared.counters.messages(Direction::ToServer, operation)
    }

    /// Returns the number of replies to this operation that the server sent, including those that a fault held back
    /// or lost.
    #[must_use]
    pub fn replies(&self, operation: Operation) -> usize {
        self.shared.counters.messages(Direction::ToClient, operation)
    }

    /// Returns the number of bytes forwarded in a direction.
    #[must_use]
    pub fn bytes(&self, direction: Direction) -> u64 {
        self.shared.counters.bytes(direction)
    }

    /// Returns the number of current connections, including those that a stall keeps from the server.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.connections.count()
    }

    /// Returns the number of connections accepted so far, without those refused.
    #[must_use]
    pub fn accepted(&self) -> usize {
        self.shared.connections.accepted()
    }

    /// Returns the last 100,000 requests in order, over all connections and without handshakes and pings: the
    /// requests that [`Operation::Any`] counts.
    #[must_use]
    pub fn log(&self) -> Vec<Operation> {
        self.shared.counters.log()
    }

    /// Clears the [`log`](Self::log).
    pub fn clear_log(&self) {
        self.shared.counters.clear_log();
    }

    /// Closes all connections and the port, and returns when that is done.
    ///
    /// # Cancel safety
    ///
    /// Everything is still closed, as when the proxy is dropped.
    pub async fn close(mut self) {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
    }
}

/// Accepts connections and owns them: they end with this task.
async fn listen(listener: TcpListener, shared: Arc<Shared>, stop: CancellationToken) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = select! {
            () = stop.cancelled() => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let Ok((client, _)) = accepted else {
            // The process is most likely out of file descriptors.
            sleep(Duration::from_millis(10)).await;
            continue;
        };
        if let Some(refusal) = shared.board.refusal() {
            connection::reset(client);
            refusal.strike();
            continue;
        }
        let (id, cut) = shared.connections.admit();
        let shared = shared.clone();
        connections.spawn(async move { connection::serve(&shared, id, cut, client).await });
    }
    connections.shutdown().await;
}

/// These tests send arbitrary bytes through a proxy without a protocol. The client protocol is tested against a
/// server.
#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::SocketAddr;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpSocket, TcpStream};
    use tokio::task::JoinSet;
    use tokio::time::{Instant, timeout};

    use super::{Cut, Direction, Fault, FaultProxy, Protocol};

    const LIMIT: Duration = Duration::from_secs(60);
    /// Long enough for bytes to arrive if nothing holds them.
    const SILENCE: Duration = Duration::from_millis(100);

    async fn raw(upstream: SocketAddr) -> FaultProxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        FaultProxy::start_as(listener, upstream.to_string(), Protocol::Quorum).unwrap()
    }

    /// An echo server, and the proxy in front of it.
    struct Link {
        proxy: FaultProxy,
        _echo: JoinSet<()>,
    }

    impl Link {
        async fn new() -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let proxy = raw(listener.local_addr().unwrap()).await;
            let mut echo = JoinSet::new();
            echo.spawn(async move {
                let mut connections = JoinSet::new();
                while let Ok((mut stream, _)) = listener.accept().await {
                    connections.spawn(async move {
                        let (mut from, mut to) = stream.split();
                        let _ = tokio::io::copy(&mut from, &mut to).await;
                    });
                }
            });
            Self { proxy, _echo: echo }
        }

        async fn connect(&self) -> TcpStream {
            TcpStream::connect(self.proxy.connect_string()).await.unwrap()
        }
    }

    async fn hears(stream: &mut TcpStream, text: &[u8]) {
        let mut heard = vec![0; text.len()];
        timeout(LIMIT, stream.read_exact(&mut heard)).await.unwrap().unwrap();
        assert_eq!(heard, text);
    }

    async fn echoes(stream: &mut TcpStream, text: &[u8]) {
        stream.write_all(text).await.unwrap();
        hears(stream, text).await;
    }

    async fn is_silent(stream: &mut TcpStream) {
        assert!(timeout(SILENCE, stream.read_u8()).await.is_err());
    }

    async fn end(stream: &mut TcpStream) -> ErrorKind {
        timeout(LIMIT, stream.read_u8()).await.unwrap().unwrap_err().kind()
    }

    async fn strikes(fault: &Fault) {
        timeout(LIMIT, fault.struck()).await.unwrap();
    }

    #[tokio::test]
    async fn bytes_pass_and_both_ends_of_a_stream_end() {
        let link = Link::new().await;
        let mut stream = link.connect().await;
        echoes(&mut stream, b"hello").await;
        assert_eq!(link.proxy.bytes(Direction::ToServer), 5);
        assert_eq!(link.proxy.bytes(Direction::Both), 10);
        stream.shutdown().await.unwrap();
        assert_eq!(end(&mut stream).await, ErrorKind::UnexpectedEof);
        assert_eq!(link.proxy.accepted(), 1);
    }

    #[tokio::test]
    async fn a_stall_holds_bytes_until_the_last_one_is_healed() {
        let link = Link::new().await;
        let mut stream = link.connect().await;
        for direction in [Direction::ToServer, Direction::ToClient, Direction::Both] {
            let one = link.proxy.stall(direction);
            let other = link.proxy.stall(direction);
            let before = link.proxy.bytes(Direction::ToServer);
            stream.write_all(b"held").await.unwrap();
            strikes(&one).await;
            strikes(&other).await;
            is_silent(&mut stream).await;
            let arrived = link.proxy.bytes(Direction::ToServer) - before;
            assert_eq!(arrived, if direction == Direction::ToClient { 4 } else { 0 });
            one.heal();
            is_silent(&mut stream).await;
            drop(other);
            hears(&mut stream, b"held").await;
        }
        assert_eq!(link.proxy.connections(), 1);
    }

    #[tokio::test]
    async fn a_connection_that_begins_in_a_stall_goes_on_when_it_is_healed() {
        let link = Link::new().await;
        let stall = link.proxy.stall(Direction::Both);
        let mut gone = link.connect().await;
        gone.write_all(b"never").await.unwrap();
        let mut stream = link.connect().await;
        stream.write_all(b"late").await.unwrap();
        is_silent(&mut stream).await;
        assert_eq!(link.proxy.connections(), 2);
        drop(gone);
        while link.proxy.connections() == 2 {
            tokio::task::yield_now().await;
        }
        stall.heal();
        hears(&mut stream, b"late").await;
        assert_eq!(link.proxy.bytes(Direction::ToServer), 4);
    }

    #[tokio::test]
    async fn a_stalled_sender_is_not_read_from_beyond_a_bound() {
        let link = Link::new().await;
        let mut stream = link.connect().await;
        let stall = link.proxy.stall(Direction::ToServer);
        let bytes = vec![7; 64 << 20];
        let (mut from, mut to) = stream.split();
        let sending = async { to.write_all(&bytes).await.unwrap() };
        let healing = async {
            strikes(&stall).await;
            tokio::time::sleep(SILENCE).await;
            stall.heal();
            let mut heard = vec![0; bytes.len()];
            timeout(LIMIT, from.read_exact(&mut heard)).await.unwrap().unwrap();
            assert!(heard == bytes);
        };
        let mut sending = std::pin::pin!(sending);
        assert!(timeout(SILENCE, &mut sending).await.is_err(), "64 MiB fit into a stalled link");
        tokio::join!(sending, healing);
    }

    #[tokio::test]
    async fn a_delay_is_no_limit_to_what_is_under_way() {
        let link = Link::new().await;
        let mut stream = link.connect().await;
        let delay = link.proxy.delay(Direction::Both, Duration::from_millis(500));
        let start = Instant::now();
        for _ in 0..20 {
            stream.write_all(b"x").await.unwrap();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        hears(&mut stream, &[b'x'; 20]).await;
        let took = start.elapsed();
        assert!(took >= Duration::from_secs(1), "{took:?}");
        assert!(took < Duration::from_secs(10), "one after the other: {took:?}");
        let long = link.proxy.delay(Direction::ToServer, LIMIT * 10);
        stream.write_all(b"y").await.unwrap();
        strikes(&long).await;
        long.heal();
        drop(delay);
        hears(&mut stream, b"y").await;
    }

    #[tokio::test]
    async fn a_refusal_resets_new_connections_only() {
        let link = Link::new().await;
        let mut old = link.connect().await;
        echoes(&mut old, b"1").await;
        let refusal = link.proxy.refuse();
        let refused = match TcpStream::connect(link.proxy.connect_string()).await {
            Ok(mut stream) => end(&mut stream).await,
            Err(error) => error.kind(),
        };
        assert_eq!(refused, ErrorKind::ConnectionReset);
        strikes(&refusal).await;
        assert_eq!((refusal.strikes(), link.proxy.accepted()), (1, 1));
        echoes(&mut old, b"2").await;
        refusal.heal();
        let mut new = link.connect().await;
        echoes(&mut new, b"3").await;
    }

    #[tokio::test]
    async fn a_cut_ends_all_connections_there_are() {
        let link = Link::new().await;
        for (cut, kind) in
            [(Cut::Reset, ErrorKind::ConnectionReset), (Cut::Finish, ErrorKind::UnexpectedEof)]
        {
            let mut streams = [link.connect().await, link.connect().await];
            for stream in &mut streams {
                echoes(stream, b"here").await;
            }
            assert_eq!(link.proxy.connections(), 2);
            assert_eq!(link.proxy.cut(cut), 2);
            assert_eq!(link.proxy.connections(), 0);
            for stream in &mut streams {
                assert_eq!(end(stream).await, kind);
            }
            assert_eq!(link.proxy.cut(cut), 0);
        }
    }

    #[tokio::test]
    async fn without_a_server_clients_are_reset_and_the_proxy_lives_on() {
        // Bound, so that no other process listens there.
        let nobody = TcpSocket::new_v4().unwrap();
        nobody.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let proxy = raw(nobody.local_addr().unwrap()).await;
        for _ in 0..2 {
            let mut stream = TcpStream::connect(proxy.connect_string()).await.unwrap();
            assert_eq!(end(&mut stream).await, ErrorKind::ConnectionReset);
        }
        let server = nobody.listen(1).unwrap();
        let mut stream = TcpStream::connect(proxy.connect_string()).await.unwrap();
        let (mut served, _) = timeout(LIMIT, server.accept()).await.unwrap().unwrap();
        served.write_all(b"welcome").await.unwrap();
        hears(&mut stream, b"welcome").await;
        let address = proxy.connect_string().to_owned();
        proxy.close().await;
        assert_eq!(end(&mut stream).await, ErrorKind::UnexpectedEof);
        assert!(TcpStream::connect(address).await.is_err());
    }

    #[tokio::test]
    async fn a_fault_heals_outside_a_runtime_and_while_unwinding() {
        let link = Link::new().await;
        let mut stream = link.connect().await;
        let stall = link.proxy.stall(Direction::Both);
        stream.write_all(b"x").await.unwrap();
        strikes(&stall).await;
        let panicking = std::thread::spawn(move || {
            let _stall = stall;
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(panicking.join().is_err());
        hears(&mut stream, b"x").await;
    }

    #[tokio::test]
    async fn an_address_that_is_not_one_host_and_port_is_refused() {
        for address in ["", "host", "a:1,b:2", "host:1/chroot", "host:99999"] {
            let error = FaultProxy::start(address).await.unwrap_err();
            assert!(error.to_string().contains("HOST:PORT"), "{error}");
        }
    }
}
