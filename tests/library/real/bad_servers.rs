//! Servers that are there and cannot serve: a clear error, or recovery as `docs/guide/session-and-security.md` says.

use std::io;
use std::sync::Mutex;
use std::time::Instant;

use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;
use zookeeper_recipes_dev::{Servers, is_before};
use zookeeper_testkit::TestEnsemble;

use crate::prelude::*;

const PATIENCE: Duration = Duration::from_secs(3);
const READ_ONLY: &str = "Mode: read-only";

fn patient() -> CuratorBuilder {
    Curator::builder().session_timeout(Duration::from_secs(4)).connection_timeout(PATIENCE)
}

/// Without a quorum no client gets a session, and a client that has one keeps its hold no longer than the lease, whether the
/// remaining member serves no requests or only reads.
async fn without_a_quorum(ensemble: TestEnsemble, state_of_the_last: &str) {
    let connect_string = ensemble.connect_string();
    let curator = patient().connection_timeout(LONG).connect(connect_string).await.unwrap();
    let mutex = curator.mutex("/lock").unwrap();
    let guard = within("the lock", mutex.acquire()).await.unwrap();
    let mut state = curator.watch_state();
    for number in [0, 1] {
        ensemble.member(number).kill().await.unwrap();
    }
    let loss = within("the loss", guard.lost()).await;
    assert!(matches!(loss, Loss::LeaseEnded | Loss::SessionExpired), "{loss:?}");
    let last = ensemble.member(2);
    eventually(state_of_the_last, async || {
        last.four_letter_word("srvr").await.is_ok_and(|answer| answer.contains(state_of_the_last))
    })
    .await;
    for connect_string in [connect_string, last.connect_string()] {
        let began = Instant::now();
        let refused = within("the error", patient().connect(connect_string)).await;
        let text = fails(refused, ErrorKind::Unavailable).to_string();
        let elapsed = began.elapsed();
        assert!((PATIENCE..PATIENCE * 5).contains(&elapsed), "after {elapsed:?}");
        assert!(text.contains(connect_string), "{text}");
        assert!(text.contains("without a quorum or read-only"), "{text}");
    }
    let asked = mutex.acquire_timeout(Duration::from_secs(1));
    assert!(
        within("an acquire", asked).await.is_err(),
        "no server can say that it is free, or busy"
    );
    assert!(!matches!(curator.state(), ConnectionState::Connected | ConnectionState::Reconnected));
    ensemble.member(0).start_again().await.unwrap();
    let reconnected = state.wait_for(|state| *state == ConnectionState::Reconnected);
    drop(within("reconnected", reconnected).await.unwrap());
    let version = last.four_letter_word("srvr").await.unwrap();
    if state_of_the_last == READ_ONLY && is_before(&version, [3, 7]) {
        return does_not_apply("a server before 3.7 that was read-only can keep deleted nodes");
    }
    within("the next lock", mutex.acquire()).await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ensemble_without_a_quorum() {
    let ensemble = TestEnsemble::start(3).await.unwrap();
    without_a_quorum(ensemble, "not currently serving requests").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_server() {
    let builder = TestEnsemble::builder(3).jvm_flag("-Dreadonlymode.enabled=true");
    without_a_quorum(builder.start().await.unwrap(), READ_ONLY).await;
}

/// The server accepts the connection and closes it without an answer.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_takes_no_more_connections_of_an_address() {
    let server = TestServer::builder().property("maxClientCnxns", "1").start().await.unwrap();
    // No pause of this machine makes it give its connection up to the other one.
    let holds = Curator::builder().session_timeout(LONG).connection_timeout(LONG);
    let holds = holds.connect(server.connect_string()).await.unwrap();
    let refused = within("the error", patient().connect(server.connect_string())).await;
    let error = fails(refused, ErrorKind::Unavailable);
    assert!(error.to_string().contains("`maxClientCnxns`"), "{error}");
    holds.close().await;
}

/// The server closes the connection at a request above its `jute.maxbuffer`, and answers nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_create_that_is_too_large_for_the_server() {
    let server = TestServer::builder().jvm_flag("-Djute.maxbuffer=20000").start().await.unwrap();
    let testbed = Testbed::on(Servers::One(Arc::new(server))).await;
    let builder = testbed.patient_builder().identity("x".repeat(30_000));
    let builder = builder.retry(RetryPolicy::one_time(Duration::from_millis(100)));
    let curator = testbed.connect(builder).await;
    let mutex = testbed.mutex(&curator);
    let permit = testbed.semaphore(&curator, 1);
    let acquired = within("the error", mutex.acquire()).await;
    let permitted = within("the error", permit.acquire()).await.map(drop);
    for refused in [acquired.map(drop), permitted] {
        fails(refused, ErrorKind::Unavailable);
    }
    // The session outlasts it.
    let small = testbed.mutex(&testbed.curator().await);
    within("a small one", small.acquire()).await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_timeout_that_the_server_cuts_down() {
    let server = TestServer::builder().property("maxSessionTimeout", "6000").start().await.unwrap();
    let testbed = Testbed::on(Servers::One(Arc::new(server))).await;
    let curator = testbed.connect(testbed.patient_builder()).await;
    assert_eq!(curator.session_timeout().unwrap(), Duration::from_secs(6));
    let guard = within("the lock", testbed.mutex(&curator).acquire()).await.unwrap();
    let began = Instant::now();
    testbed.server.pause().await.unwrap();
    assert_eq!(within("the loss", guard.lost()).await, Loss::LeaseEnded);
    let elapsed = began.elapsed();
    testbed.server.resume().await.unwrap();
    // By what was asked for it would be 40 s.
    assert!(elapsed < Duration::from_secs(20), "after {elapsed:?}");
}

/// CURATOR-724. Curator: `TestLeaderLatch#testGetChildrenHitsNoNode`. The servers' data is gone, and with it the sessions, the lock
/// paths and the count of transactions: they refuse a client that has seen more of them than they have.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_comes_back_empty() {
    let testbed = Testbed::real_own().await;
    let road = Road::to(testbed.server.connect_string()).await;
    let connect = async || {
        let builder = testbed.short_lived_builder();
        builder.namespace("/in/a/namespace").connect(&road.connect_string).await.unwrap()
    };
    let (holds, waits) = (connect().await, connect().await);
    let mutex = holds.mutex(&testbed.path).unwrap();
    let theirs = waits.mutex(&testbed.path).unwrap();
    // So that the old count is far ahead of the new one.
    for _ in 0..50 {
        mutex.acquire().await.unwrap().release().await.unwrap();
    }
    let guard = within("the lock", mutex.acquire()).await.unwrap();
    let waiting = tokio::spawn(async move { theirs.acquire().await });
    eventually("a waiter", async || mutex.participants().await.unwrap().len() == 2).await;

    let empty = Testbed::real_own().await;
    testbed.server.kill().await.unwrap();
    road.turn_to(empty.server.connect_string());
    within("the loss", guard.lost()).await;
    let next = within("the waiter", waiting).await.unwrap().unwrap();
    assert!(next.is_held());
    let stat = empty.stat(&format!("/in/a/namespace{}", next.node())).await;
    assert_eq!(stat.unwrap().ephemeral_owner, waits.session_id().unwrap());
    // The old holder's release is an error, and it can queue again.
    guard.release().await.unwrap_err();
    let again = tokio::spawn(async move { mutex.acquire().await });
    next.release().await.unwrap();
    within("the old holder", again).await.unwrap().unwrap().release().await.unwrap();
}

/// A way to a server that can be made to lead to another one.
struct Road {
    connect_string: String,
    target: Arc<Mutex<String>>,
    _task: AbortOnDropHandle<()>,
}

impl Road {
    async fn to(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let connect_string = listener.local_addr().unwrap().to_string();
        let target = Arc::new(Mutex::new(server.to_owned()));
        let at = target.clone();
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut client, _)) = listener.accept().await {
                let target = at.lock().unwrap().clone();
                connections.spawn(async move {
                    let mut server = TcpStream::connect(target).await?;
                    tokio::io::copy_bidirectional(&mut client, &mut server).await?;
                    Ok::<_, io::Error>(())
                });
            }
        });
        Self { connect_string, target, _task: AbortOnDropHandle::new(task) }
    }

    fn turn_to(&self, server: &str) {
        server.clone_into(&mut self.target.lock().unwrap());
    }
}

/// A client that leaves a silent server may come to it again before it comes to another: by the client's own limits the
/// lease is over by then.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_silent_twice_costs_nothing() {
    let testbed = Testbed::real().await;
    let (link, curator) = testbed.linked(testbed.patient_builder()).await;
    let guard = within("the lock", testbed.mutex(&curator).acquire()).await.unwrap();
    let silence = link.stall(Direction::Both);
    let tries = link.accepted();
    eventually("a second try", async || link.accepted() >= tries + 2).await;
    silence.heal();
    until(&curator, ConnectionState::Reconnected).await;
    assert!(guard.is_held());
    guard.release().await.unwrap();
}

/// By the client's own limits it would be longer at the first than the default `connection_timeout`.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_opened_where_the_first_server_is_silent() {
    let testbed = Testbed::real().await;
    let link = testbed.link().await;
    let silence = link.stall(Direction::Both);
    let builder = testbed.patient_builder().connection_timeout(Duration::from_secs(20));
    let connecting = builder.connect(link.connect_string());
    let next_answers = async {
        eventually("a second try", async || link.accepted() >= 2).await;
        silence.heal();
    };
    let (curator, ()) = within("a session", async { tokio::join!(connecting, next_answers) }).await;
    curator.unwrap().close().await;
}

#[tokio::test]
async fn an_only_server_whose_name_does_not_resolve_is_said_so() {
    let builder = Curator::builder().connection_timeout(Duration::from_secs(1));
    // A label that is too long is refused without a question to a name server.
    let servers = format!("{}.invalid:2181", "x".repeat(64));
    let error = fails(builder.connect(&servers).await, ErrorKind::Unavailable);
    assert!(error.to_string().contains("no server's name can be resolved"), "{error}");
}
