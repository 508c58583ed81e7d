//! The promises of every recipe when something fails.

use zookeeper_recipes::zookeeper_client::Error as ClientError;

use super::{Node, ROWS, Row, each, locks, nodes};
use crate::prelude::*;

/// A server that stops whenever a test likes, and clients whose sessions outlive that.
async fn restartable() -> (Testbed, Curator, Curator) {
    let testbed = Testbed::own().await;
    let (curator, other) = (testbed.patient_curator().await, testbed.patient_curator().await);
    (testbed, curator, other)
}

/// An administrator ends its session, or deletes its node.
async fn robbed(testbed: &Testbed, row: Row, loss: Loss) {
    let (curator, other) = (testbed.attentive_curator().await, testbed.curator().await);
    let (ours, rival) = (row.ours(testbed, &curator), row.rival(testbed, &other));
    let guard = row.holds(&ours).await;
    let view = guard.view();
    let lost = tokio::spawn(async move { view.lost().await });
    let next = row.queues(testbed, &other, &rival).await;
    if loss == Loss::SessionExpired {
        testbed.kill_session(&curator).await;
    } else {
        testbed.remove(guard.node()).await;
    }
    assert_eq!(within(row.name, lost).await.unwrap(), loss, "{row:?}");
    assert!(!guard.is_held(), "{row:?}");
    let before = guard.fencing_token();
    // Another member than the first stays held.
    let is_whole = loss == Loss::SessionExpired || row.name != "multi";
    let next = if is_whole { Ok(next.served(row).await) } else { Err(next) };
    assert!(!guard.is_held(), "{row:?}: once and for good");
    let released = guard.release().await;
    assert!(released.is_err() || !row.is_lock, "{row:?}: {released:?}");
    let next = match next {
        Ok(next) => next,
        Err(next) => next.served(row).await,
    };
    assert!(next.fencing_token() > before, "{row:?}: invariant 4");
    next.release().await.unwrap();
    // The same handle works on, in the next session too.
    row.holds(&ours).await.release().await.unwrap();
    row.nothing_is_left(testbed).await;
}

/// Curator: TestInterProcessMutexBase#testKilledSession. (There the second waits for the servers to expire the first one's
/// session, and the first is never told.) CURATOR-696: nobody leads by a node of the session before.
#[tokio::test(start_paused = true)]
async fn a_holder_whose_session_is_killed_knows_and_the_next_is_served() {
    let testbed = &Testbed::new().await;
    each(|row| robbed(testbed, row, Loss::SessionExpired)).await;
}

/// CURATOR-171 and 49. (The latch of `zookeeper-async` hangs here for ever.)
#[tokio::test(start_paused = true)]
async fn a_holder_whose_node_an_administrator_deletes_knows_and_the_next_is_served() {
    let testbed = &Testbed::new().await;
    each(|row| robbed(testbed, row, Loss::NodeDeleted)).await;
}

/// Kills its session, or deletes its nodes.
async fn disturbed(testbed: &Testbed, row: Row, killed: bool) {
    let curators =
        [testbed.curator().await, testbed.attentive_curator().await, testbed.curator().await];
    let holder = row.holds(&row.rival(testbed, &curators[0])).await;
    let ours = row.ours(testbed, &curators[1]);
    let waiting = row.queues(testbed, &curators[1], &ours).await;
    let behind = row.rival(testbed, &curators[2]);
    // Two that read would not wait for each other.
    let behind = if row.name == "write" { row.ours(testbed, &curators[2]) } else { behind };
    let behind = row.queues(testbed, &curators[2], &behind).await;
    let before = row.nodes_of(testbed, &curators[1]).await;
    if killed {
        testbed.kill_session(&curators[1]).await;
    } else {
        for node in &before {
            // With the first it may take back the others.
            let deleted = testbed.admin.delete(&node.path, None).await;
            assert!(matches!(deleted, Ok(()) | Err(ClientError::NoNode)), "{deleted:?}");
        }
    }
    eventually(&format!("{row:?}: it is back at the tail"), async || {
        let mut queue = row.nodes(testbed).await;
        queue.retain(|node| !node.path.contains("-lease-"));
        let last = queue.last().map(|node| node.session);
        last.is_some() && last == curators[1].session_id().ok() && queue.len() > 1
    })
    .await;
    let again = row.nodes_of(testbed, &curators[1]).await;
    let has_its_guid = |node: &Node| before.iter().any(|old| old.guid() == node.guid());
    assert!(!again.iter().any(has_its_guid), "{row:?}: {again:?} after {before:?}");
    assert!(holder.is_held(), "{row:?}");
    holder.release().await.unwrap();
    let next = behind.served(row).await;
    assert!(!waiting.0.is_finished(), "{row:?}: it has lost its place");
    next.release().await.unwrap();
    waiting.served(row).await.release().await.unwrap();
    row.nothing_is_left(testbed).await;
}

/// CURATOR-211 and 307, of readers. CURATOR-489: each node has a GUID of its own.
#[tokio::test(start_paused = true)]
async fn a_waiter_whose_session_is_killed_enters_again_at_the_tail() {
    let testbed = &Testbed::new().await;
    each(|row| disturbed(testbed, row, true)).await;
}

/// While the holder still holds. Curator: TestInterProcessSemaphore#testNoOrphanedNodes (CURATOR-315).
#[tokio::test(start_paused = true)]
async fn a_waiter_whose_nodes_an_administrator_deletes_enters_again_at_the_tail() {
    let testbed = &Testbed::new().await;
    each(|row| disturbed(testbed, row, false)).await;
}

/// Curator: TestInterProcessMutexBase#testWaitingProcessKilledServer.
#[tokio::test(start_paused = true)]
async fn a_restarted_server_costs_neither_holder_nor_waiter_its_nodes() {
    let (testbed, curator, other) = &restartable().await;
    let held = join_all(ROWS.map(async |row| {
        let guard = row.holds(&row.ours(testbed, curator)).await;
        let waiting = row.queues(testbed, other, &row.rival(testbed, other)).await;
        (row, guard, waiting)
    }))
    .await;
    let before = nodes(testbed, &testbed.path).await;
    testbed.server.restart().await.unwrap();
    for curator in [curator, other] {
        let mut state = curator.watch_state();
        let back = state.wait_for(|state| {
            matches!(state, ConnectionState::Connected | ConnectionState::Reconnected)
        });
        drop(within("the connection", back).await.unwrap());
    }
    assert_eq!(nodes(testbed, &testbed.path).await, before);
    for (row, guard, waiting) in held {
        assert!(guard.is_held(), "{row:?}: {:?}", guard.loss());
        guard.release().await.unwrap();
        waiting.served(row).await.release().await.unwrap();
        row.nothing_is_left(testbed).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_holds_when_no_server_answers() {
    let (testbed, curator, other) = &restartable().await;
    let held = join_all(ROWS.map(async |row| row.holds(&row.ours(testbed, curator)).await)).await;
    testbed.server.pause().await.unwrap();
    let limit = Duration::from_millis(500);
    for lock in locks(testbed, other) {
        let began = Instant::now();
        let acquired = within("the deadline", lock.acquire_timeout(limit)).await;
        let error = fails(acquired, ErrorKind::Unavailable);
        assert!(
            error.is_transient() && error.path().unwrap().starts_with(&testbed.path),
            "{error}"
        );
        assert!((limit..10 * limit).contains(&began.elapsed()), "{lock:?}: {:?}", began.elapsed());
    }
    testbed.server.resume().await.unwrap();
    // What was created all the same is removed.
    drop(held);
    each(|row| row.nothing_is_left(testbed)).await;
}

/// Curator: TestLeaderLatch#testSessionErrorPolicy, TestLeaderSelector#testErrorPolicies, and #testServerDying, which asserts less.
/// TestLeaderSelectorCluster#testLostRestart (CURATOR-671: it could not queue up again). Only under the suspended policy, Curator's
/// standard one, a short disconnection is a loss.
#[tokio::test(start_paused = true)]
async fn each_policy_says_when_a_hold_is_lost() {
    let policies = [
        (LossPolicy::Suspended, Loss::Suspended),
        (LossPolicy::Lease, Loss::LeaseEnded),
        (LossPolicy::SessionExpired, Loss::SessionExpired),
    ];
    let testbed = &Testbed::own().await;
    let (curator, other) = (testbed.attentive_curator().await, testbed.patient_curator().await);
    let mut all = Vec::new();
    for (place, (policy, _)) in policies.into_iter().enumerate() {
        for row in ROWS {
            let path = format!("{}-{policy:?}", row.path(testbed));
            let ours = (row.ours)(&curator.with_loss_policy(policy), &path);
            all.push((place, row, row.holds(&ours).await, ours, (row.rival)(&other, &path)));
        }
    }
    for (short, lost) in [(true, 0..1), (false, 1..3)] {
        testbed.server.stop().await.unwrap();
        for (place, row, guard, ..) in all.iter().filter(|(place, ..)| lost.contains(place)) {
            let loss = within(row.name, guard.lost()).await;
            assert_eq!(loss, policies[*place].1, "{row:?}");
            assert!(guard.cancellation_token().is_cancelled() && !guard.is_held(), "{row:?}");
            let mut later = all.iter().filter(|(other, ..)| other > place);
            assert!(later.all(|(_, _, guard, ..)| guard.is_held()), "{row:?} under {place}");
        }
        testbed.server.start_again().await.unwrap();
        if short {
            until(&curator, ConnectionState::Reconnected).await;
        }
        for (place, row, guard, _, rival) in &all {
            assert_eq!(guard.is_held(), *place >= lost.end, "{row:?}: once and for good");
            if short && row.is_lock {
                // The session is the same, so a lost hold's node still keeps others out.
                let busy = rival.try_acquire().await.unwrap_err();
                assert!(busy.is_busy(), "{row:?} under {place}: {busy}");
            }
        }
    }
    for (place, row, guard, ours, _) in all {
        let (token, released) = (guard.fencing_token(), guard.release().await);
        if row.is_lock {
            assert_eq!(lost_by(released), policies[place].1, "{row:?}");
        }
        let again = row.holds(&ours).await;
        assert!(again.is_held() && again.fencing_token() > token, "{row:?}: invariant 4");
        again.release().await.unwrap();
    }
}
