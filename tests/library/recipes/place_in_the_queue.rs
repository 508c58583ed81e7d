//! The place of a caller among those of its process that leave, fail or pause, and among other processes.

use crate::prelude::*;

/// The call creates a node of its own, in place of one of `nodes`, while `holder` holds. A process that comes later is served later.
async fn served_before_a_later_caller(
    testbed: &Testbed,
    nodes: &[String],
    early: impl Future<Output = Result<Guard, Error>>,
    holder: Guard,
) {
    eventually("a node of its own", async || {
        let now = children(&testbed.admin, &testbed.path).await;
        now.len() == 2 && now != nodes
    })
    .await;
    let late = testbed.mutex(&testbed.curator().await);
    let late = tokio::spawn(async move { late.acquire().await });
    testbed.children_are(3).await;
    holder.release().await.unwrap();
    let early = within("the early call", early).await.unwrap();
    assert!(!late.is_finished());
    early.release().await.unwrap();
    within("the late call", late).await.unwrap().unwrap().release().await.unwrap();
}

/// The node of a dropped call cannot serve a call that began after the create. That one has a place of its own at once, and not only
/// when the useless node is first.
#[tokio::test(start_paused = true)]
async fn a_call_beside_a_dropped_one_is_served_before_later_callers() {
    for (is_in_flight, is_beside) in [(false, false), (false, true), (true, false), (true, true)] {
        let testbed = Testbed::new().await;
        let (link, curator) = testbed.linked(testbed.builder()).await;
        let mutex = testbed.mutex(&curator);
        mutex.acquire().await.unwrap().release().await.unwrap();
        let holder = testbed.mutex(&testbed.curator().await).acquire().await.unwrap();
        let answer = is_in_flight.then(|| link.hold(Message::reply(Operation::Create)));
        let mut dropped = Box::pin(mutex.acquire());
        assert!(futures_util::poll!(&mut dropped).is_pending());
        testbed.children_are(2).await;
        if !is_in_flight {
            round_trip(&curator).await;
        }
        let nodes = children(&testbed.admin, &testbed.path).await;

        let mut early = Box::pin(mutex.acquire());
        if is_beside {
            assert!(futures_util::poll!(&mut early).is_pending());
        }
        drop(dropped);
        assert!(futures_util::poll!(&mut early).is_pending());
        drop(answer);
        served_before_a_later_caller(&testbed, &nodes, early, holder).await;
    }
}

/// The same, if the retries of the first call run out while it waits.
#[tokio::test(start_paused = true)]
async fn a_call_beside_one_that_gave_up_is_served_before_later_callers() {
    let testbed = Testbed::new().await;
    let (link, curator) = testbed.linked_with_parent(testbed.builder()).await;
    let holder = testbed.mutex(&testbed.curator().await).acquire().await.unwrap();
    let watch = link.hold(Message::reply(Operation::GetData));
    let hasty = testbed.mutex(&curator.with_retry(RetryPolicy::never()));
    let mut gives_up = Box::pin(hasty.acquire());
    assert!(futures_util::poll!(&mut gives_up).is_pending());
    within("the watch", watch.struck()).await;
    let nodes = children(&testbed.admin, &testbed.path).await;

    let mutex = testbed.mutex(&curator);
    let mut early = Box::pin(mutex.acquire());
    assert!(futures_util::poll!(&mut early).is_pending());
    assert_eq!(link.cut(Cut::Reset), 1);
    watch.heal();
    fails(within("the error", gives_up).await, ErrorKind::Unavailable);
    served_before_a_later_caller(&testbed, &nodes, early, holder).await;
}

/// A third party deletes the node of a call that pauses for a minute before each retry. The servers answer all the time.
#[tokio::test(start_paused = true)]
async fn a_call_waits_for_no_pause_of_another() {
    let (testbed, [curator, holder]) = Testbed::with_curators().await;
    let minute = RetryPolicy::forever(Duration::from_secs(60));
    for leaves in [false, true] {
        let held = testbed.mutex(&holder).acquire().await.unwrap();
        let patient = testbed.mutex(&curator.with_retry(minute.clone()));
        let mut pauses = tokio::spawn(async move { patient.acquire().await });
        testbed.children_are(2).await;
        round_trip(&curator).await;
        let node = testbed.newcomer(&[held.node()]).await;
        testbed.remove(&node).await;
        held.release().await.unwrap();
        round_trip(&curator).await;
        assert!(!pauses.is_finished());
        let began = Instant::now();
        if leaves {
            pauses.abort();
            let guard = testbed.mutex(&curator).try_acquire().await.expect("a free lock");
            guard.release().await.unwrap();
        } else {
            // The call that came first is served first.
            fails(testbed.mutex(&curator).try_acquire().await, ErrorKind::Busy);
            drop(within("the call that paused", &mut pauses).await.unwrap().unwrap());
        }
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    }
}
