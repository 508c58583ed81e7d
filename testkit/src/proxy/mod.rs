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
#[cfg(test)]
mod tests;

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

/// A TCP proxy in front of one server, with faults at will: on the whole link, or at one message of the client's
/// protocol.
///
/// Code under test connects to [`connect_string`](Self::connect_string). What a method breaks stays broken while its
/// [`Fault`] lives. Several faults at a time add up: what two of them stall waits until both are healed.
///
/// A message is seen, and counted, when the proxy has read all of it. A fault has it when its turn to be forwarded has
/// come, after stalls and delays.
///
/// Connections that begin otherwise than ZooKeeper's (TLS, the words of four letters), and messages of more than 16 MiB
/// with all that follows, pass as they are: faults about a [`Message`] and counts by [`Operation`] do not see them.
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
    /// Listens on a free port of 127.0.0.1 in front of the server at `upstream`, one `HOST:PORT`, or `tcp+tls://HOST:PORT`.
    ///
    /// The server need not be there: a client that comes while it is not is reset. As long as there are other ports, it is
    /// not one of an earlier proxy of this process: that one's clients may still try to connect.
    ///
    /// # Cancel safety
    ///
    /// Nothing remains.
    ///
    /// # Errors
    ///
    /// [`TestkitError::InvalidOption`] if `upstream` is not one of these; [`TestkitError::Failed`] if no port can be had.
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

    /// Where clients connect: `127.0.0.1:PORT`, after the scheme of the server's address if it has one.
    #[must_use]
    pub fn connect_string(&self) -> &str {
        &self.connect_string
    }

    pub(super) fn port(&self) -> u16 {
        self.address.port()
    }

    /// What goes that way arrives later by `latency`, in order and without a limit on how much is under way but 4 MiB of
    /// each connection. Delays add up. Healing it delivers at once what is under way.
    pub fn delay(&self, direction: Direction, latency: Duration) -> Fault {
        self.shared.board.install(Kind::Delay(direction, latency))
    }

    /// What goes that way is held back, and delivered when the fault is healed: a black hole with both ends still
    /// connected. Once 4 MiB of a connection wait, nothing more is read from who sends.
    ///
    /// The ends of connections are held back too: the server does not learn that a client has gone. New connections are
    /// accepted. Those that begin in a stall towards the server reach it only if their client still waits at its end.
    pub fn stall(&self, direction: Direction) -> Fault {
        self.shared.board.install(Kind::Stall(direction))
    }

    /// New connections are reset at once; those there are stay.
    pub fn refuse(&self) -> Fault {
        self.shared.board.install(Kind::Refuse)
    }

    /// Cuts all connections there are, now. Says how many they were.
    #[allow(clippy::must_use_candidate)] // it is called for what it does
    pub fn cut(&self, cut: Cut) -> usize {
        self.shared.connections.cut_all(cut)
    }

    /// Exactly that message is lost. TCP does not lose a message alone, so its connection is reset there. If it is a
    /// reply, the server has done what the request asked for.
    pub fn lose(&self, message: Message) -> Fault {
        self.shared.board.install(Kind::Break(message, Break::Before))
    }

    /// That message, and what comes behind it in its direction, is held until the fault is healed.
    pub fn hold(&self, message: Message) -> Fault {
        self.shared.board.install(Kind::Hold(message))
    }

    /// Forwards the first half of that message's bytes, then resets its connection.
    pub fn cut_within(&self, message: Message) -> Fault {
        self.shared.board.install(Kind::Break(message, Break::Within))
    }

    /// Forwards that message, then cuts its connection.
    ///
    /// A server need not process a request that was forwarded this way: when the client's session comes back on another
    /// connection, ZooKeeper closes the old one and drops what it has not read there. [Refuse](Self::refuse) connections
    /// until the effect is there to be sure of it.
    pub fn cut_at(&self, message: Message, cut: Cut) -> Fault {
        self.shared.board.install(Kind::Break(message, Break::After(cut)))
    }

    /// How many such requests have come from clients, also those that a fault held back or lost.
    #[must_use]
    pub fn requests(&self, operation: Operation) -> usize {
        self.shared.counters.messages(Direction::ToServer, operation)
    }

    /// How many replies to such requests have come from the server, also those that a fault held back or lost.
    #[must_use]
    pub fn replies(&self, operation: Operation) -> usize {
        self.shared.counters.messages(Direction::ToClient, operation)
    }

    /// How many bytes have been forwarded.
    #[must_use]
    pub fn bytes(&self, direction: Direction) -> u64 {
        self.shared.counters.bytes(direction)
    }

    /// How many connections there are now, those in a stall before they reach the server included.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.connections.count()
    }

    /// How many connections there ever were, without those refused.
    #[must_use]
    pub fn accepted(&self) -> usize {
        self.shared.connections.accepted()
    }

    /// The requests that have come, in order, over all connections and without handshakes and pings: the `n`-th of the
    /// requests [`Operation::Any`]. The last 100,000.
    #[must_use]
    pub fn log(&self) -> Vec<Operation> {
        self.shared.counters.log()
    }

    /// Begins the [`log`](Self::log) anew.
    pub fn clear_log(&self) {
        self.shared.counters.clear_log();
    }

    /// Closes all connections and the port, and returns when that is done.
    ///
    /// # Cancel safety
    ///
    /// Everything is closed all the same, as when the proxy is dropped.
    pub async fn close(mut self) {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
    }
}

/// Owns the connections; they end with it.
async fn listen(listener: TcpListener, shared: Arc<Shared>, stop: CancellationToken) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = select! {
            () = stop.cancelled() => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let Ok((client, _)) = accepted else {
            // Most likely out of file descriptors.
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
