//! Asking a holder to give its lock back: who is asked, who sees it, and who does not have to.

use super::contract::plain_locks;
use crate::prelude::*;

/// How long nothing is to happen.
const QUIET: Duration = Duration::from_millis(300);

/// A hold of each kind of lock that has one node, at a path of its own.
async fn holds(testbed: &Testbed, curator: &Curator) -> Vec<Guard> {
    let mut holds = Vec::new();
    for lock in plain_locks(testbed, curator) {
        holds.push(within(lock.path(), lock.acquire()).await.unwrap());
    }
    holds
}

async fn is_quiet(held: &Hold) {
    let requested = timeout(QUIET, held.revocation_requested());
    assert!(requested.await.is_err(), "nobody asked");
}

/// Also CURATOR-650, a wish: leases are asked for as any hold. A listener is notified, as often as it listens; so is one that listens
/// only afterwards, which Curator's holder does not notice (it has no id).
#[tokio::test(start_paused = true)]
async fn a_request_is_seen_whenever_the_holder_listens_and_the_hold_goes_on() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    for (before, meanwhile) in [(false, false), (true, false), (true, true)] {
        for held in holds(&testbed, &curator).await {
            let kind = held.path().to_owned();
            if before {
                is_quiet(&held).await;
            }
            let listening = [held.revocation_requested(), held.revocation_requested()];
            let mut listening = join_all(listening.map(Box::pin));
            if meanwhile {
                assert!(timeout(QUIET, &mut listening).await.is_err(), "nobody asked");
            }
            assert!(Revoker::new(&other).attempt_revoke(held.node()).await.unwrap(), "{kind}");
            within(&kind, listening).await;
            within(&kind, held.revocation_requested()).await;
            assert!(held.is_held(), "{kind}: it is a request");
            let data = testbed.admin.get_data(held.node()).await.unwrap().0;
            assert_eq!(data, b"__REVOKE__");
            held.release().await.unwrap();
        }
    }
}

/// It is told when it holds.
#[tokio::test(start_paused = true)]
async fn a_waiter_can_be_asked_before_it_holds() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let holder = within("the lock", testbed.mutex(&curator).acquire()).await.unwrap();
    let acquiring = testbed.waits(&other).await;
    let waits = testbed.mutex(&curator).participants().await.unwrap().pop().unwrap();
    assert!(!waits.holds);
    assert!(Revoker::new(&curator).attempt_revoke(&waits.node).await.unwrap());
    // Who looks sees it of who was asked, and of nobody else.
    let all = testbed.mutex(&curator).participants().await.unwrap();
    let asked: Vec<_> = all.iter().map(Participant::revocation_requested).collect();
    assert_eq!(asked, [false, true]);
    // And is no less in the queue for it.
    assert!(!acquiring.is_finished());
    is_quiet(&holder).await;
    holder.release().await.unwrap();
    let guard = within("the waiter", acquiring).await.unwrap().unwrap();
    within("the request", guard.revocation_requested()).await;
}

/// The task of the same client that is next has joined before the other client, and would get the lock without a request.
#[tokio::test(start_paused = true)]
async fn a_node_that_was_asked_for_is_given_up_and_not_passed_on() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let mutex = testbed.mutex(&curator);
    let holder = within("the lock", mutex.acquire()).await.unwrap();
    let next = tokio::spawn(async move { mutex.acquire().await });
    is_quiet(&holder).await;
    let waiting = testbed.waits(&other).await;
    assert!(Revoker::new(&other).attempt_revoke(holder.node()).await.unwrap());
    within("the request", holder.revocation_requested()).await;
    holder.release().await.unwrap();
    let served = held(waiting).await;
    assert!(!next.is_finished());
    served.release().await.unwrap();
    held(next).await.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn other_data_is_no_request() {
    let (testbed, curator) = Testbed::with_curator().await;
    for held in holds(&testbed, &curator).await {
        for data in [&b"x"[..], b"", b"__REVOKE__ ", b"__revoke__"] {
            testbed.admin.set_data(held.node(), data, None).await.unwrap();
            is_quiet(&held).await;
        }
        testbed.admin.set_data(held.node(), b"__REVOKE__", None).await.unwrap();
        within(held.path(), held.revocation_requested()).await;
    }
}

/// It is no request that the hold ended, in whatever way.
#[tokio::test(start_paused = true)]
async fn who_listens_is_not_asked_by_the_end_of_the_hold() {
    let (testbed, curator) = Testbed::with_curator().await;
    for (nth, held) in holds(&testbed, &curator).await.into_iter().enumerate() {
        let view = held.view();
        if nth % 2 == 0 {
            testbed.remove(held.node()).await
        } else {
            drop(held)
        }
        within("the end", view.cancellation_token().cancelled()).await;
        is_quiet(&view).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_gone_cannot_be_asked() {
    let (testbed, curator) = Testbed::with_curator().await;
    let mut gone = vec![format!("{}/nowhere/_c_x-lock-0000000007", testbed.path)];
    for held in holds(&testbed, &curator).await {
        gone.push(held.node().to_owned());
        held.release().await.unwrap();
    }
    for node in gone {
        assert!(!Revoker::new(&curator).attempt_revoke(&node).await.unwrap(), "{node}");
        assert!(testbed.stat(&node).await.is_none(), "nothing was made");
    }
}

/// A lock's own path, say, has other data, which nobody wants to have overwritten.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_no_contenders_is_not_written() {
    let (testbed, curator) = Testbed::with_curator().await;
    let _held = within("the lock", testbed.mutex(&curator).acquire()).await.unwrap();
    let (parent, revoker) = (testbed.path.as_str(), Revoker::new(&curator));
    let before = testbed.stat(parent).await.unwrap();
    for node in ["/", "", "relative-0000000001", "/a//b-0000000001", parent, "/x/_c_y-lock-"] {
        let error = fails(revoker.attempt_revoke(node).await, ErrorKind::InvalidInput);
        assert!(error.to_string().contains(&format!("{node:?}")), "{error}");
    }
    assert_eq!(testbed.stat(parent).await.unwrap().version, before.version);
}

#[tokio::test(start_paused = true)]
async fn who_may_not_write_is_told_and_the_holder_is_not() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    testbed.create(&testbed.path, CreateMode::Persistent).await;
    let acls = [anyone(Permission::READ | Permission::DELETE)];
    let mutex = testbed.mutex(&curator.with_acls(Acls::new(&acls)));
    let guard = mutex.acquire().await.unwrap();
    let asked = Revoker::new(&other).attempt_revoke(guard.node()).await;
    assert_eq!(fails(asked, ErrorKind::PermissionDenied).path(), Some(guard.node()));
    is_quiet(&guard).await;
}
