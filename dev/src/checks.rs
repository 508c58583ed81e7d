//! Durations, and what tests wait for and compare.

use std::fmt::Debug;
use std::future::Future;
use std::ops::Deref;
use std::time::Duration;

use zookeeper_recipes::session::ConnectionState;
use zookeeper_recipes::zookeeper_client::{Acl, AuthId, Error, Permission};
use zookeeper_recipes::{Attempt, Curator, ErrorKind, Hold, Loss};

use crate::testbed::Waiting;
use crate::world::{Admin, Cut, Fault, Link, Operation};

/// Longer than anything takes on a busy machine; a test that waits so long has failed.
pub const LONG: Duration = Duration::from_secs(60);

/// A session timeout that a test can outlive. Two thirds of it are a lease, long against what a busy machine holds a task up for.
pub const SHORT: Duration = Duration::from_secs(6);

/// The tick time of servers that soon disconnect from one that falls silent.
pub const TICK: Duration = Duration::from_millis(200);

/// How long a lock that is not free is waited for: so long that the server answers in between on a busy machine, else the time
/// is up with nothing known, which is an error.
pub const BUSY: Duration = Duration::from_secs(3);

pub fn anyone(permission: Permission) -> Acl {
    Acl::new(permission, AuthId::anyone())
}

/// The guard, if it was free.
pub fn acquired<G>(attempt: Attempt<G>) -> Option<G> {
    match attempt {
        Attempt::Acquired(guard) => Some(guard),
        Attempt::Busy => None,
    }
}

/// The error of what must fail, by this kind; what else it says goes with the kind.
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

/// How the hold was lost that something failed by.
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

/// None where the path is missing.
pub async fn children(admin: &Admin, path: &str) -> Vec<String> {
    match admin.list_children(path).await {
        Ok(children) => children,
        Err(Error::NoNode) => Vec::new(),
        Err(error) => panic!("cannot list {path}: {error}"),
    }
}

/// Cuts a link, one way or the other, and waits until it is back.
pub async fn flap(link: &Link, nth: usize) {
    let cut = if nth.is_multiple_of(2) { Cut::Reset } else { Cut::Finish };
    let (before, answered) = (link.accepted(), link.replies(Operation::Sync));
    assert!(link.cut(cut) > 0);
    eventually("the link is back", async || {
        link.accepted() > before && link.replies(Operation::Sync) > answered
    })
    .await;
}

/// Cuts a link, and refuses connections while the fault lasts.
pub async fn cut_off(link: &Link) -> Fault {
    let refused = link.refuse();
    assert!(link.cut(Cut::Reset) > 0);
    within("a refusal", refused.struck()).await;
    refused
}

/// What a task waited for, which holds.
pub async fn held<G: Deref<Target = Hold>>(waiting: Waiting<G>) -> G {
    let guard = within("the waiter", waiting).await.unwrap().unwrap();
    assert!(guard.is_held(), "{:?}", guard.loss());
    guard
}

/// Its fault has struck, once. It is counted a moment after the connection was cut.
pub async fn struck_once(fault: &Fault) {
    within("a strike", fault.struck()).await;
    assert_eq!(fault.strikes(), 1);
}

/// What the client had been sent before, the crate has been told of after this. Without a connection it waits for one.
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

/// Waits until `condition` holds. For what the server shows only to those who ask.
pub async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    within(what, waiting).await;
}

/// Awaits `future`, which must not take for ever.
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, future).await.unwrap_or_else(|_| panic!("hung: {what}"))
}
