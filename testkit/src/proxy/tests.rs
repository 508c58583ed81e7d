//! Bytes of no protocol, through a proxy that knows none. The client's protocol is tested against a server.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::{Cut, Direction, Fault, FaultProxy, Protocol};

const LIMIT: Duration = Duration::from_secs(60);
/// Long enough for what would come if nothing held it.
const SILENCE: Duration = Duration::from_millis(100);

async fn raw(upstream: SocketAddr) -> FaultProxy {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    FaultProxy::start_as(listener, upstream.to_string(), Protocol::Quorum).unwrap()
}

/// A server that says what it hears, and the proxy before it.
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
        let (one, other) = (link.proxy.stall(direction), link.proxy.stall(direction));
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
    // Bound, so that nobody else listens there.
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
