//! Durations, conditions that tests wait for, and outcomes that they expect.

use std::fmt::Debug;
use std::future::Future;
use std::ops::Deref;
use std::time::Duration;

use zookeeper_recipes::session::ConnectionState;
use zookeeper_recipes::zookeeper_client::{Acl, AuthId, Error, Permission};
use zookeeper_recipes::{Curator, ErrorKind, Hold, Loss};

use crate::testbed::Waiting;
use crate::world::{Admin, Cut, Fault, Link, Operation};

/// A limit that nothing exceeds on a busy machine: a test that waits longer has failed.
pub const LONG: Duration = Duration::from_secs(60);

/// A session timeout that a test can outlive. The session lease is two thirds of it, which is long against the delays of a busy
/// machine.
pub const SHORT: Duration = Duration::from_secs(6);

/// The tick time of servers that soon disconnect from one that falls silent.
pub const TICK: Duration = Duration::from_millis(200);

/// The deadline of a wait for a lock that is not free. The server answers within it, also on a busy machine: without an answer
/// the wait would end with an error.
pub const BUSY: Duration = Duration::from_secs(3);

pub fn anyone(permission: Permission) -> Acl {
    Acl::new(permission, AuthId::anyone())
}

/// Returns the guard, or nothing if the lock is busy.
#[track_caller]
pub fn acquired<G>(answer: Result<G, zookeeper_recipes::Error>) -> Option<G> {
    match answer {
        Ok(guard) => Some(guard),
        Err(error) if error.is_busy() => None,
        Err(error) => panic!("neither acquired nor busy: {error:?}"),
    }
}

/// Expects an error of this kind, checks that its other properties agree with the kind, and returns it.
#[track_caller]
pub fn fails<T: Debug>(
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

/// Expects an error about a lost hold, and returns the loss.
#[track_caller]
pub fn lost_by<T: Debug>(outcome: Result<T, zookeeper_recipes::Error>) -> Loss {
    fails(outcome, ErrorKind::Lost).loss().expect("a loss")
}

/// Waits until the connection of `curator` is in this state.
pub async fn until(curator: &Curator, wanted: ConnectionState) {
    let mut state = curator.watch_state();
    let reached = state.wait_for(|state| *state == wanted);
    drop(within("a state of the connection", reached).await.unwrap());
}

/// Lists the children of a path. A missing path has none.
pub async fn children(admin: &Admin, path: &str) -> Vec<String> {
    match admin.list_children(path).await {
        Ok(children) => children,
        Err(Error::NoNode) => Vec::new(),
        Err(error) => panic!("cannot list {path}: {error}"),
    }
}

/// Cuts a link, by a reset if `nth` is even, and waits until the client is connected again.
pub async fn flap(link: &Link, nth: usize) {
    let cut = if nth.is_multiple_of(2) { Cut::Reset } else { Cut::Finish };
    let (before, answered) = (link.accepted(), link.replies(Operation::Sync));
    assert!(link.cut(cut) > 0);
    eventually("the link is back", async || {
        link.accepted() > before && link.replies(Operation::Sync) > answered
    })
    .await;
}

/// Cuts a link, and refuses connections until the fault is dropped.
pub async fn cut_off(link: &Link) -> Fault {
    let refused = link.refuse();
    assert!(link.cut(Cut::Reset) > 0);
    within("a refusal", refused.struck()).await;
    refused
}

/// Waits for the hold of a task, and checks that it is held.
pub async fn held<G: Deref<Target = Hold>>(waiting: Waiting<G>) -> G {
    let guard = within("the waiter", waiting).await.unwrap().unwrap();
    assert!(guard.is_held(), "{:?}", guard.loss());
    guard
}

/// Waits until the fault has struck, and checks that it struck once. The strike is counted a moment after the cut.
pub async fn struck_once(fault: &Fault) {
    within("a strike", fault.struck()).await;
    assert_eq!(fault.strikes(), 1);
}

/// Waits until the crate has processed every message that the servers sent before. A missing connection is awaited first.
pub async fn round_trip(curator: &Curator) {
    if let Ok(client) = curator.client() {
        eventually("a round trip", async || client.sync("/").await.is_ok()).await;
    } else {
        let connected = [ConnectionState::Connected, ConnectionState::Reconnected];
        eventually("a connection", async || connected.contains(&curator.state())).await;
        // Longer than a message takes in a simulation.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Polls `condition` until it is true: some states of a server have no event.
pub async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    within(what, waiting).await;
}

/// Awaits `future`, and panics if that takes [`LONG`].
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, future).await.unwrap_or_else(|_| panic!("hung: {what}"))
}
