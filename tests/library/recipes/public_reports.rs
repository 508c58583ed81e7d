//! Problems that users of other libraries reported, by their ids, whose absence no other test shows.

use zookeeper_recipes::PersistentNodeState;

use crate::prelude::*;
use crate::support::selectors::{Ended, Led};

const T: Duration = Duration::from_secs(18);

/// Redisson, issues 3194 and 3712: a lock that was acquired again after a loss was not renewed.
#[tokio::test(start_paused = true)]
async fn a_hold_after_a_lost_one_is_renewed() {
    let testbed = Testbed::new().await;
    let (link, curator) = testbed.linked(testbed.builder().session_timeout(T)).await;
    let mutex = testbed.mutex(&curator);
    for loss in [Loss::LeaseEnded, Loss::SessionExpired] {
        let lost = mutex.acquire().await.unwrap();
        if loss == Loss::LeaseEnded {
            let cut = cut_off(&link).await;
            lost.lost().await;
            cut.heal();
        } else {
            testbed.kill_session(&curator).await;
        }
        assert_eq!(within("the loss", lost.lost()).await, loss);
        drop(lost);
        let next = within("the next", mutex.acquire()).await.unwrap();
        if is_real() {
            return does_not_apply(REAL_PAUSES);
        }
        tokio::time::sleep(5 * T).await;
        assert!(next.is_held(), "{:?}", next.loss());
        next.release().await.unwrap();
    }
}

/// Spring Integration, issue 11113: the registry forgot a lock that was held, and a second task got it.
#[tokio::test(start_paused = true)]
async fn more_paths_than_are_remembered_cost_no_hold() {
    let (testbed, curator) = Testbed::with_curator().await;
    let lock = |number: usize| curator.mutex(format!("{}/{number}", testbed.path)).unwrap();
    let first = lock(0).acquire().await.unwrap();
    join_all((1..600).map(async |number| {
        lock(number).acquire().await.unwrap().release().await.unwrap();
    }))
    .await;
    fails(lock(0).try_acquire().await, ErrorKind::Busy);
    assert!(first.is_held());
    first.release().await.unwrap();
    lock(0).try_acquire().await.unwrap().release().await.unwrap();
}

/// Redisson, pull request 3178: each waiter that had died delayed the next one by a timeout of its own.
#[tokio::test(start_paused = true)]
async fn waiters_that_died_together_cost_one_session_timeout() {
    let testbed = Testbed::new().await;
    let holder = testbed.mutex(&testbed.patient_curator().await).acquire().await.unwrap();
    let mut dead = Vec::new();
    for _ in 0..5 {
        let (link, curator) = testbed.linked(testbed.builder().session_timeout(T)).await;
        let waiting = testbed.waits(&curator).await;
        dead.push((link, curator, waiting));
    }
    let last = testbed.waits(&testbed.patient_curator().await).await;
    let _cuts = join_all(dead.iter().map(|(link, ..)| cut_off(link))).await;
    let began = Instant::now();
    holder.release().await.unwrap();
    let served = timeout(5 * T, last).await.expect("its turn").unwrap().unwrap();
    assert!(began.elapsed() < T + T / 3 + lateness(), "{:?}", began.elapsed());
    served.release().await.unwrap();
}

/// Pulsar, issue 23125: nobody heard of a node that came and went, and the path stayed without an owner.
#[tokio::test(start_paused = true)]
async fn a_znode_that_came_and_went_during_a_disconnection_is_not_waited_for() {
    let testbed = Testbed::with_parent().await;
    let (link, curator) = testbed.linked(testbed.builder()).await;
    let path = format!("{}/one", testbed.path);
    testbed.create(&path, CreateMode::Ephemeral).await;
    let node = curator.persistent_node(&path, "ours").unwrap();
    let start = async { node.start().await };
    let meanwhile = async {
        let is_taken = async || matches!(node.state(), PersistentNodeState::Taken { .. });
        eventually("the other one", is_taken).await;
        let cut = cut_off(&link).await;
        testbed.remove(&path).await;
        testbed.create(&path, CreateMode::Ephemeral).await;
        testbed.remove(&path).await;
        cut.heal();
    };
    let (hold, ()) = within("the znode", async { tokio::join!(start, meanwhile) }).await;
    assert!(hold.unwrap().is_held());
}

/// CURATOR-518: after a second request the candidate never queued again.
#[tokio::test(start_paused = true)]
async fn two_requests_to_step_down_end_one_term() {
    let (testbed, curator) = Testbed::with_curator().await;
    let mut led = Led::obedient(&testbed.selector(&curator).auto_requeue());
    for _ in 0..3 {
        let _term = led.leads().await;
        assert!(led.run.step_down() && led.run.step_down());
        assert_eq!(led.report().await.unwrap(), Ended::SteppedDown);
    }
    let term = led.leads().await;
    round_trip(&curator).await;
    assert!(!term.is_over());
    led.close().await;
}
