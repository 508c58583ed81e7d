//! What a multi-lock does with its members, in which order, and what it says of them. The members are locks of this
//! process, so that each order can be forced.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use zookeeper_recipes::LocalLock;
use zookeeper_recipes::{
    AcquireError, ConfigError, InterProcessLock, InterProcessMultiLock, Loss, ReleaseError,
    Released, WithError,
};

use super::odd_locks::Members;

const LONG: Duration = Duration::from_secs(60);

fn multi<'a>(locks: impl IntoIterator<Item = &'a LocalLock>) -> InterProcessMultiLock {
    InterProcessMultiLock::new(locks.into_iter().map(member)).unwrap()
}

fn member(lock: &LocalLock) -> Arc<dyn InterProcessLock> {
    Arc::new(lock.clone())
}

#[test]
fn bad_members_are_refused() {
    match InterProcessMultiLock::new([]) {
        Err(ConfigError::InvalidOption { option: "members", .. }) => {}
        other => panic!("{other:?}"),
    }
    let [a, b, c] = ["/a", "/b", "/c"].map(LocalLock::new);
    let nested = |locks| -> Arc<dyn InterProcessLock> { Arc::new(multi(locks)) };
    let twice = [
        vec![member(&a), member(&b), member(&a)],
        // Another lock, on the same path.
        vec![member(&a), member(&LocalLock::new("/a"))],
        vec![nested([&b, &a]), member(&a)],
        vec![nested([&b, &a]), nested([&a, &c])],
    ];
    for members in twice {
        match InterProcessMultiLock::new(members) {
            Err(error @ ConfigError::InvalidPath { option: "member", .. }) => {
                let text = error.to_string();
                assert!(text.contains("\"/a\"") && text.contains("twice"), "{text}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn members_are_acquired_in_order_and_released_in_reverse() {
    let members = Members::new(3);
    assert_eq!(members.multi.path(), "/a + /b + /c");
    let guard = members.multi.acquire().await.unwrap();
    assert_eq!(members.asked(), ["acquire /a", "acquire /b", "acquire /c"]);
    assert!(guard.is_held() && guard.loss().is_none());
    assert_eq!(guard.path(), "/a + /b + /c");
    let paths: Vec<_> = guard.members().iter().map(|member| member.path()).collect();
    assert_eq!(paths, ["/a", "/b", "/c"]);
    assert!(guard.members().iter().all(|member| member.fencing_token().is_some()));
    assert!(members.multi.try_acquire().await.unwrap().is_none());
    assert_eq!(members.asked(), ["acquire /a"], "those behind a busy one are not asked");
    let (token, lost) = (guard.cancellation_token(), guard.lost());
    assert_eq!(guard.release().await.unwrap(), Released::Unlocked);
    assert!(token.is_cancelled());
    assert_eq!(lost.await.loss, Loss::Released);
    assert_eq!(members.asked(), ["release /c", "release /b", "release /a"]);
    assert_eq!(members.held(), [false; 3]);
    // Dropping goes the same way.
    drop(members.multi.try_acquire().await.unwrap().unwrap());
    assert_eq!(members.asked()[3..], ["drop /c", "drop /b", "drop /a"]);
    drop(members.multi.acquire().await.unwrap().release());
    assert_eq!(members.asked()[3..], ["drop /c", "drop /b", "drop /a"]);
}

#[tokio::test]
async fn the_first_failure_stops_and_rolls_back() {
    let members = Members::new(4);
    members.locks[2].fail_next_acquire(AcquireError::other("/c", "as the test wants"));
    // The clean-up's own failure does not hide the first.
    members.locks[0].fail_next_release(ReleaseError::other("/a", "nor this"));
    let error = members.multi.acquire().await.unwrap_err();
    match &error {
        AcquireError::Member { path, position: 2, .. } => assert_eq!(path, "/c"),
        other => panic!("{other:?}"),
    }
    assert_eq!(error.to_string(), "member 2, /c, was not acquired");
    let cause = error.source().unwrap();
    assert_eq!(cause.to_string(), "cannot acquire /c");
    assert_eq!(cause.source().unwrap().to_string(), "as the test wants");
    let expected = ["acquire /a", "acquire /b", "acquire /c", "release /b", "release /a"];
    assert_eq!(members.asked(), expected);
    assert_eq!(members.held(), [true, false, false, false]);
    members.locks[0].lose(Loss::NodeDeleted);
    assert!(members.multi.try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn the_first_that_is_busy_stops_and_rolls_back() {
    let members = Members::new(3);
    let holder = members.locks[1].acquire().await.unwrap();
    assert!(members.multi.try_acquire().await.unwrap().is_none());
    assert_eq!(members.asked(), ["acquire /a", "acquire /b", "release /a"]);
    let limit = Duration::from_secs(60);
    assert!(members.multi.acquire_timeout(limit).await.unwrap().is_none());
    // The time is up: it is not exceeded for the report of the release.
    assert_eq!(members.asked(), ["acquire /a", "acquire /b", "release /a"]);
    assert_eq!(members.held(), [false, true, false]);
    drop(holder);
}

#[tokio::test]
async fn one_deadline_covers_all_members() {
    let takes = Duration::from_millis(30);
    let members = Members::changed(3, |member| member.takes = takes);
    let holder = members.locks[2].acquire().await.unwrap();
    // Long against what a busy machine holds a task up for: what is left stops at zero.
    let limit = Duration::from_secs(3);
    assert!(members.multi.acquire_timeout(limit).await.unwrap().is_none());
    let limits = members.limits.lock().unwrap().clone();
    assert_eq!(limits.len(), 3);
    assert!(limits[0] <= limit);
    for (before, after) in limits.iter().zip(&limits[1..]) {
        assert!(*after + takes <= *before, "{limits:?}");
    }
    drop(holder);
    assert!(members.multi.acquire_timeout(LONG).await.unwrap().is_some());
}

#[tokio::test]
async fn all_failures_of_a_release_are_told() {
    let members = Members::new(4);
    let guard = members.multi.acquire().await.unwrap();
    members.locks[1].lose(Loss::SessionExpired);
    let stuck = ReleaseError::unconfirmed("/d", LONG);
    members.locks[3].fail_next_release(stuck.clone());
    let error = guard.release().await.unwrap_err();
    let failures = error.failures();
    assert_eq!(failures.len(), 2, "{error}");
    assert_eq!((failures[0].path.as_str(), failures[0].position), ("/d", 3));
    assert_eq!(failures[0].error, stuck);
    assert_eq!((failures[1].path.as_str(), failures[1].position), ("/b", 1));
    assert_eq!(failures[1].error, ReleaseError::lost("/b", Loss::SessionExpired));
    assert_eq!(error.loss(), Some(("/b", Loss::SessionExpired)));
    let text = error.to_string();
    assert!(text.starts_with("member 3, /d: ") && text.contains("; member 1, /b: "), "{text}");
    assert_eq!(members.held(), [false, false, false, true], "the others were released");
}

#[tokio::test]
async fn one_that_is_lost_is_told_at_once_and_stays_the_one() {
    let members = Members::new(3);
    let guard = members.multi.acquire().await.unwrap();
    let (lost, token) = (guard.lost(), guard.cancellation_token());
    guard.cancellation_token().cancel();
    assert!(!token.is_cancelled(), "cancelling one's own has no effect");
    members.locks[1].lose(Loss::SessionExpired);
    let first = lost.await;
    assert_eq!((first.path.as_str(), first.position), ("/b", 1));
    assert_eq!(first.to_string(), "member 1, /b: the session expired");
    token.cancelled().await;
    assert!(!guard.is_held());
    assert_eq!(members.held(), [true, false, true], "the others are held until the guard goes");
    members.locks[0].lose(Loss::NodeDeleted);
    assert_eq!(guard.loss(), Some(first.clone()));
    assert_eq!(guard.lost().await, first);
    drop(guard);
    assert_eq!(members.held(), [false; 3]);
}

#[test]
fn a_token_can_be_had_outside_the_runtime() {
    let members = Members::new(2);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let guard = runtime.block_on(members.multi.acquire()).unwrap();
    let token = guard.cancellation_token();
    members.locks[0].lose(Loss::SessionExpired);
    runtime.block_on(token.cancelled());
    drop(guard);
    let guard = runtime.block_on(members.multi.acquire()).unwrap();
    let token = guard.cancellation_token();
    runtime.shutdown_timeout(LONG);
    assert!(token.is_cancelled(), "nobody looks any more");
    assert!(guard.cancellation_token().is_cancelled());
    drop(guard);
    assert_eq!(members.held(), [false; 2]);
}

#[tokio::test]
async fn one_that_is_lost_while_the_next_is_waited_for_ends_the_attempt() {
    let members = Members::new(3);
    let holder = members.locks[1].acquire().await.unwrap();
    let mut tasks = JoinSet::new();
    let multi = members.multi.clone();
    tasks.spawn(async move { multi.acquire().await.map(drop) });
    members.locks[1].until_waiters(1).await;
    members.locks[0].lose(Loss::SessionExpired);
    let ended = tokio::time::timeout(LONG, tasks.join_next()).await.expect("it waits on");
    let error = ended.unwrap().unwrap().unwrap_err();
    match error {
        AcquireError::MemberLost { path, position: 0, loss: Loss::SessionExpired, .. } => {
            assert_eq!(path, "/a");
        }
        other => panic!("{other:?}"),
    }
    assert!(members.locks[1].waiters().is_empty());
    assert_eq!(members.held(), [false, true, false]);
    drop(holder);
}

#[tokio::test]
async fn one_that_is_lost_already_is_never_given() {
    let members = Members::changed(2, |member| member.loss = Some(Loss::LeaseEnded));
    let error = members.multi.acquire().await.unwrap_err();
    let lost =
        matches!(error, AcquireError::MemberLost { position: 0, loss: Loss::LeaseEnded, .. });
    assert!(lost, "{error:?}");
    assert_eq!(members.held(), [false; 2]);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_is_not_exceeded_for_a_release() {
    let members = Members::changed(2, |member| member.is_silent = true);
    let acquired = async || {
        let acquiring = members.multi.acquire_timeout(Duration::from_millis(20));
        tokio::time::timeout(LONG, acquiring).await.expect("it waits for the release")
    };
    let holder = members.locks[1].acquire().await.unwrap();
    assert!(acquired().await.unwrap().is_none());
    assert_eq!(members.held(), [false, true]);
    // Nor does one that fails for another reason.
    drop(holder);
    members.locks[1].fail_next_acquire(AcquireError::other("/b", "as the test wants"));
    let failed = acquired().await;
    assert!(matches!(failed, Err(AcquireError::Member { position: 1, .. })), "{failed:?}");
    assert_eq!(members.held(), [false; 2]);
}

/// Two that take the same members in opposite order, each holding its first when it asks for the other.
#[tokio::test]
async fn opposite_orders_wait_for_each_other_until_a_deadline() {
    let [a, b] = ["/a", "/b"].map(LocalLock::new);
    let (forth, back) = (multi([&a, &b]), multi([&b, &a]));
    let gates = (a.acquire().await.unwrap(), b.acquire().await.unwrap());
    let mut tasks = JoinSet::new();
    // Long against what a busy machine holds a task up for: both must be there before either gives up.
    for (both, limit) in [(forth.clone(), 3_000), (back.clone(), 3_050)] {
        tasks.spawn(async move { both.acquire_timeout(Duration::from_millis(limit)).await });
    }
    tokio::join!(a.until_waiters(1), b.until_waiters(1));
    drop(gates);
    // Whoever gives up first lets the other go on, if that has not given up as well.
    let got: Vec<_> = tasks.join_all().await.into_iter().map(Result::unwrap).collect();
    assert!(got.iter().any(Option::is_none), "one must give up");
    drop(got);
    assert_eq!((a.holder(), b.holder()), (None, None));
    // Sorted, they queue up for the first.
    let mut tasks = JoinSet::new();
    for both in [forth, back].map(|both| both.sorted_by_path()) {
        tasks.spawn(async move {
            for _ in 0..100 {
                both.acquire().await.unwrap().release().await.unwrap();
            }
        });
    }
    tokio::time::timeout(LONG, tasks.join_all()).await.expect("a dead-lock");
}

#[tokio::test]
async fn multi_locks_can_be_nested() {
    let [a, b, c, d] = ["/a", "/b", "/c", "/d"].map(LocalLock::new);
    let inner: Arc<dyn InterProcessLock> = Arc::new(multi([&d, &a]));
    let outer = InterProcessMultiLock::new([member(&c), inner, member(&b)]).unwrap();
    assert_eq!(outer.path(), "/c + /d + /a + /b");
    let order = |multi: &InterProcessMultiLock| -> Vec<String> {
        multi.members().iter().map(|member| member.path().to_owned()).collect()
    };
    assert_eq!(order(&outer), ["/c", "/d + /a", "/b"]);
    assert_eq!(order(&outer.sorted_by_path()), ["/a", "/b", "/c", "/d"]);

    let guard = outer.acquire().await.unwrap();
    assert!([&a, &b, &c, &d].iter().all(|lock| lock.holder().is_some()));
    assert_eq!(guard.members()[1].fencing_token(), None, "an inner one has no one token");
    let lost = guard.lost();
    a.lose(Loss::LeaseEnded);
    let lost = lost.await;
    assert_eq!((lost.path.as_str(), lost.loss), ("/d + /a", Loss::LeaseEnded));
    assert_eq!(guard.members()[1].lost().await, Loss::LeaseEnded);
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.loss(), Some(("/a", Loss::LeaseEnded)));
    assert!(matches!(error.failures()[0].error, ReleaseError::Members { .. }), "{error:?}");
    assert!([&a, &b, &c, &d].iter().all(|lock| lock.holder().is_none()));

    d.fail_next_acquire(AcquireError::other("/d", "as the test wants"));
    let error = outer.try_acquire().await.unwrap_err();
    let AcquireError::Member { position: 1, source, .. } = error else { panic!("{error:?}") };
    assert!(matches!(*source, AcquireError::Member { position: 0, .. }), "{source:?}");
    assert_eq!(c.holder(), None);
}

#[tokio::test]
async fn with_runs_its_body_under_all_and_says_which_was_lost() {
    let members = Members::new(2);
    let body = async |guard: &zookeeper_recipes::MultiGuard| {
        assert!(guard.is_held());
        members.held()
    };
    assert_eq!(members.multi.with(body).await.unwrap(), [true, true]);
    assert_eq!(members.held(), [false, false]);
    let lost = members.multi.with(async |_| {
        members.locks[1].lose(Loss::Suspended);
        std::future::pending::<()>().await;
    });
    match lost.await {
        Err(WithError::Lost { path, loss: Loss::Suspended, .. }) => assert_eq!(path, "/b"),
        other => panic!("{other:?}"),
    }
    assert_eq!(members.held(), [false, false]);
    members.locks[0].fail_next_acquire(AcquireError::other("/a", "as the test wants"));
    let refused = members.multi.with(async |_| panic!("it must not run")).await;
    assert!(matches!(refused, Err(WithError::Acquire(AcquireError::Member { .. }))));
    // What a release fails of is no loss.
    members.locks[0].fail_next_release(ReleaseError::unconfirmed("/a", LONG));
    members.multi.with(async |_| ()).await.unwrap();
    assert_eq!(members.held(), [true, false]);
}
