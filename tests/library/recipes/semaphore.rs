//! What a semaphore does, also one whose limit is a shared count; and its tries, which wait for no holder.

use tokio::runtime::Runtime;
use zookeeper_recipes::zookeeper_client::Client;

use crate::prelude::*;
use crate::support::leases::{Asks, asks, asks_for, served, spawned};

/// Curator: TestInterProcessSemaphoreMutex#testReentrant and its two like are disabled there: it is not reentrant. A mutex
/// right at its path is another lock.
#[tokio::test(start_paused = true)]
async fn nobody_re_enters_not_even_an_owner() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let semaphore = testbed.semaphore(&curator, 1);
    let scoped = async {
        let guard = semaphore.acquire().await.unwrap();
        assert!(semaphore.try_acquire().await.unwrap_err().is_busy());
        assert!(semaphore.acquire_timeout(BUSY).await.unwrap_err().is_busy());
        // By the guard it is, as any.
        let nested = guard.reenter();
        assert_eq!(guard.release().await.unwrap(), Released::StillHeld);
        let mutex = within("the mutex", testbed.mutex(&other).acquire()).await.unwrap();
        assert!(mutex.is_held() && nested.is_held());
        assert!(semaphore.try_acquire().await.unwrap_err().is_busy());
        assert_eq!(nested.release().await.unwrap(), Released::Confirmed);
        mutex.release().await.unwrap();
    };
    within("the owner", Owner::new().scope(scoped)).await;
    testbed.nodes_are(0, 0).await;
}

/// Else two could have nodes that are not granted, and each count the other's.
#[tokio::test(start_paused = true)]
async fn a_waiter_whose_lock_an_administrator_deletes_gives_its_leases_up_and_queues_again() {
    let testbed = Testbed::new().await;
    let mut semaphores = Vec::new();
    for _ in 0..3 {
        semaphores.push(testbed.semaphore(&testbed.attentive_curator().await, 2));
    }
    let holder = within("a lease", semaphores[0].acquire()).await.unwrap();
    let robbed = asks_for(&semaphores[1], 2);
    testbed.nodes_are(1, 3).await;
    let behind = asks_for(&semaphores[2], 2);
    testbed.nodes_are(2, 3).await;
    let (locks, leases) = (testbed.locks().await, testbed.leases().await);
    testbed.delete(&locks[..1]).await;
    eventually("it is behind the other, with no lease", async || {
        let (now, theirs) = (testbed.locks().await, testbed.leases().await);
        now.len() == 2
            && now[0] == locks[1]
            && theirs.len() == 3
            && !theirs.contains(&leases[1])
            && !theirs.contains(&leases[2])
    })
    .await;
    holder.release().await.unwrap();
    let behind = served(behind).await;
    testbed.nodes_are(1, 4).await;
    assert!(!robbed.is_finished());
    behind.release().await.unwrap();
    served(robbed).await.release().await.unwrap();
    testbed.nodes_are(0, 0).await;
}

/// One of its leases is left, and two were asked for.
#[tokio::test(start_paused = true)]
async fn a_waiter_of_whose_leases_an_administrator_deletes_one_takes_none_of_the_others() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let holder = testbed.semaphore(&other, 3).acquire_many(2).await.unwrap();
    for robbed in 0..2 {
        let waiting = asks_for(&testbed.semaphore(&curator, 3), 2);
        testbed.nodes_are(1, 4).await;
        let leases = testbed.leases().await;
        // Three are left, which is the limit.
        testbed.remove(&leases[2 + robbed]).await;
        eventually("it enters again, with two", async || {
            let now = testbed.leases().await;
            now.len() == 4 && !now.contains(&leases[2]) && !now.contains(&leases[3])
        })
        .await;
        assert!(!waiting.is_finished());
        drop(waiting);
        testbed.nodes_are(0, 2).await;
    }
    holder.release().await.unwrap();
}

/// The lease was counted after an outage, when no hold could begin yet. By then it may not exist any more.
#[tokio::test(start_paused = true)]
async fn leases_are_counted_again_when_the_session_is_proven() {
    const T: Duration = Duration::from_secs(18);
    let testbed = Testbed::new().await;
    let (link, curator) = testbed.linked(testbed.builder().session_timeout(T)).await;
    let semaphore = testbed.semaphore(&curator, 1);
    within("the path", semaphore.acquire()).await.unwrap().release().await.unwrap();
    let refused = link.refuse();
    // The create of the lease follows that of the lock.
    let lost = link.lose(Message::reply(Operation::Create).nth(2));
    let waiting = asks(&semaphore);
    struck_once(&lost).await;
    // The probe of the reconnection alone is too late to renew the lease again in time.
    tokio::time::sleep(T * 2 / 3).await;
    drop(refused);
    until(&curator, ConnectionState::Reconnected).await;
    testbed.nodes_are(1, 1).await;
    assert!(!waiting.is_finished(), "no hold can begin yet");
    testbed.delete(&testbed.leases().await).await;
    let lease = served(waiting).await;
    assert!(testbed.stat(lease.node()).await.is_some());
    lease.release().await.unwrap();
}

/// Curator takes any number, and waits for ever.
#[tokio::test(start_paused = true)]
async fn a_limit_that_cannot_be_curators_is_refused() {
    let (testbed, curator) = Testbed::with_curator().await;
    let largest = i32::MAX as usize;
    for limit in [0, largest + 1, usize::MAX] {
        let error = fails(curator.semaphore(&testbed.path, limit), ErrorKind::InvalidInput);
        assert_eq!(error.option(), Some("limit"));
        assert!(error.to_string().contains(&limit.to_string()), "{error}");
    }
    for limit in [1, largest] {
        let semaphore = curator.semaphore(&testbed.path, limit).unwrap();
        assert_eq!(semaphore.limit(), limit);
        within("a lease", semaphore.acquire()).await.unwrap().release().await.unwrap();
    }
}

/// As Curator counts them. Nobody gets in by mistake; but one lease less is there.
#[tokio::test(start_paused = true)]
async fn children_of_others_under_leases_count() {
    let (testbed, curator) = Testbed::with_curator().await;
    testbed.create(&testbed.path, CreateMode::Persistent).await;
    testbed.create(&format!("{}/leases", testbed.path), CreateMode::Persistent).await;
    let foreign = testbed.below("leases", "zzz");
    testbed.create(&foreign, CreateMode::Persistent).await;
    let semaphore = testbed.semaphore(&curator, 2);
    let lease = within("the other lease", semaphore.acquire()).await.unwrap();
    assert!(semaphore.try_acquire().await.unwrap_err().is_busy());
    let waiting = asks(&semaphore);
    testbed.nodes_are(1, 3).await;
    assert!(!waiting.is_finished());
    testbed.delete(&[foreign]).await;
    served(waiting).await.release().await.unwrap();
    lease.release().await.unwrap();
}

async fn count(testbed: &Testbed, curator: &Curator, seed: i32) -> SharedCount {
    SharedCount::start(curator, &format!("{}-limit", testbed.path), seed).await.expect("a count")
}

fn semaphore(testbed: &Testbed, curator: &Curator, count: &SharedCount) -> InterProcessSemaphoreV2 {
    InterProcessSemaphoreV2::with_shared_count(curator, &testbed.path, count).expect("a semaphore")
}

/// Curator's `TestInterProcessSemaphore#testThreadedLeaseIncrease`, CURATOR-75. While it is zero or less nobody gets one.
#[tokio::test(start_paused = true)]
async fn raising_the_limit_wakes_who_waits() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let limit = count(&testbed, &curator, 1).await;
    // Set by another process.
    let theirs = count(&testbed, &other, 7).await;
    for (low, high) in [(1, 2), (0, 1), (-1, 1), (i32::MIN, 1)] {
        limit.set(low).await.unwrap();
        let semaphore = semaphore(&testbed, &curator, &limit);
        let known = usize::try_from(low).unwrap_or(0);
        eventually("it is known", async || semaphore.limit() == known).await;
        let held = if known == 1 { Some(semaphore.acquire().await.unwrap()) } else { None };
        assert!(semaphore.try_acquire().await.unwrap_err().is_busy(), "{low}");
        let waiting = asks(&semaphore);
        eventually("it waits", async || testbed.leases().await.len() == known + 1).await;
        assert!(!waiting.is_finished(), "{low}");
        theirs.set(high).await.unwrap();
        let lease = served(waiting).await;
        assert!(lease.is_held() && held.is_none_or(|held| held.is_held()), "{low}");
    }
}

#[tokio::test(start_paused = true)]
async fn lowering_the_limit_takes_nothing_from_holders() {
    let (testbed, curator) = Testbed::with_curator().await;
    let limit = count(&testbed, &curator, 3).await;
    let semaphore = semaphore(&testbed, &curator, &limit);
    let three = within("three leases", semaphore.acquire_many(3)).await.unwrap();
    limit.set(1).await.unwrap();
    eventually("it is known", async || semaphore.limit() == 1).await;
    assert!(three.is_held());
    assert!(semaphore.acquire_timeout(BUSY).await.unwrap_err().is_busy());
    let mut three = three.into_iter();
    for _ in 0..2 {
        three.next().unwrap().release().await.unwrap();
        assert!(semaphore.try_acquire().await.unwrap_err().is_busy(), "one is enough now");
    }
    three.next().unwrap().release().await.unwrap();
    within("the one there is", semaphore.acquire()).await.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn more_than_there_are_is_an_error_when_asked_and_while_waiting() {
    let (testbed, curator) = Testbed::with_curator().await;
    let limit = count(&testbed, &curator, 2).await;
    let semaphore = semaphore(&testbed, &curator, &limit);
    let error = fails(semaphore.acquire_many(3).await, ErrorKind::InvalidInput).to_string();
    assert!(error.contains('3') && error.contains('2'), "{error}");
    let held = within("a lease", semaphore.acquire()).await.unwrap();
    let waiting = asks_for(&semaphore, 2);
    eventually("it waits with its nodes", async || testbed.leases().await.len() == 3).await;
    limit.set(1).await.unwrap();
    let error =
        fails(within("the error", waiting).await.unwrap(), ErrorKind::InvalidInput).to_string();
    assert!(error.contains('2') && error.contains('1'), "{error}");
    eventually("its nodes are gone", async || testbed.leases().await.len() == 1).await;
    held.release().await.unwrap();
}

fn tries(semaphore: &InterProcessSemaphoreV2, count: usize) -> Asks<Guards> {
    let semaphore = semaphore.clone();
    spawned(async move { semaphore.try_acquire_many(count).await })
}

/// A node of somebody else's in a folder, as Curator makes it.
async fn stranger(testbed: &Testbed, folder: &str, kind: &str) -> String {
    let prefix = testbed.below(folder, &format!("_c_1b4e28ba-2fa1-41d2-883f-0016d3cca427-{kind}-"));
    testbed.node(&prefix, &[], CreateMode::EphemeralSequential, &Acls::anyone_all()).await
}

/// Curator's fails while another caller has the lock. A caller that has it and waits for no lease is about to give it back.
#[tokio::test(start_paused = true)]
async fn a_try_waits_for_a_caller_that_is_entering_at_most_for_a_connection_timeout() {
    const PATIENCE: Duration = Duration::from_secs(4);
    let testbed = Testbed::new().await;
    let curator = testbed.connect(testbed.builder().connection_timeout(PATIENCE)).await;
    let semaphore = testbed.semaphore(&curator, 4);
    within("once", semaphore.acquire()).await.unwrap().release().await.unwrap();
    for is_stuck in [false, true] {
        let lock = stranger(&testbed, "locks", "lock").await;
        let lease = stranger(&testbed, "leases", "lease").await;
        let began = Instant::now();
        let four = within("its answer", tries(&semaphore, 4)).await.unwrap();
        assert_eq!(fails(four, ErrorKind::Busy).path(), Some(semaphore.path()));
        assert!(began.elapsed() < PATIENCE, "{:?}: three are left", began.elapsed());
        let began = Instant::now();
        let three = tries(&semaphore, 3);
        testbed.nodes_are(2, 1).await;
        round_trip(&curator).await;
        assert!(!three.is_finished(), "it waits for the lock");
        if is_stuck {
            let three = within("its answer", three).await.unwrap();
            assert_eq!(fails(three, ErrorKind::Busy).path(), Some(semaphore.path()));
            assert!(began.elapsed() >= PATIENCE, "{:?}", began.elapsed());
            testbed.remove(&lock).await;
        } else {
            testbed.remove(&lock).await;
            assert_eq!(served(three).await.iter().count(), 3);
            assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
        }
        testbed.remove(&lease).await;
        testbed.nodes_are(0, 0).await;
    }
}

/// When the try counts the leases, the caller before it has none yet.
#[tokio::test(start_paused = true)]
async fn a_try_is_busy_soon_after_the_caller_before_it_took_the_last_lease() {
    let (testbed, curator) = Testbed::with_curator().await;
    let semaphore = testbed.semaphore(&curator, 1);
    within("once", semaphore.acquire()).await.unwrap().release().await.unwrap();
    let lock = stranger(&testbed, "locks", "lock").await;
    let trying = tries(&semaphore, 1);
    testbed.nodes_are(2, 0).await;
    round_trip(&curator).await;
    assert!(!trying.is_finished(), "a lease is free");
    let began = Instant::now();
    let lease = stranger(&testbed, "leases", "lease").await;
    fails(within("its answer", trying).await.unwrap(), ErrorKind::Busy);
    assert!(began.elapsed() < BUSY + lateness(), "{:?}", began.elapsed());
    testbed.delete(&[lock, lease]).await;
    testbed.nodes_are(0, 0).await;
}

mod real {
    use super::*;

    /// Its future reads the leases itself, without a task, so it may run on another runtime than the client does.
    #[test]
    fn a_client_whose_runtime_has_ended_is_an_error_and_no_panic() {
        // It polls what is woken, and then ends.
        let of_caller = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (of_client, of_curator) = (Runtime::new().unwrap(), Runtime::new().unwrap());
        let (_testbed, _link, _held, trying) = of_caller.block_on(async {
            let testbed = Testbed::real().await;
            let link = testbed.link().await;
            let connect_string = link.connect_string().to_owned();
            let connecting = async move { Client::connect(&connect_string).await };
            let client = of_client.spawn(connecting).await.unwrap().unwrap();
            let starting = async { Curator::builder().from_client(client) };
            let curator = of_curator.spawn(starting).await.unwrap().unwrap();
            let semaphore = curator.semaphore(&testbed.path, 2).unwrap();
            within("once", semaphore.acquire()).await.unwrap().release().await.unwrap();
            let held = link.hold(Message::reply(Operation::List));
            let trying = tokio::spawn(async move { semaphore.try_acquire().await });
            within("the listing of the leases", held.struck()).await;
            (testbed, link, held, trying)
        });
        of_client.shutdown_timeout(LONG);
        of_caller.block_on(async {
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
        });
        of_curator.shutdown_timeout(LONG);
        of_caller.block_on(async {
            let tried = within("an answer", trying).await;
            tried.expect("no panic").expect_err("no server can be asked any more");
        });
    }
}

/// The lease of an `acquire` that was dropped is being created, or deleted, while the try lists.
#[tokio::test(start_paused = true)]
async fn a_try_is_not_busy_by_the_lease_of_a_dropped_acquire() {
    let (testbed, curator) = Testbed::with_curator().await;
    let semaphore = testbed.semaphore(&curator, 1);
    semaphore.acquire().await.unwrap().release().await.unwrap();
    for age in (0..30).map(Duration::from_millis) {
        let dropped = timeout(age, semaphore.acquire()).await;
        drop(dropped);
        let tried = semaphore.try_acquire().await;
        let guard = tried.unwrap_or_else(|error| panic!("after {age:?}: {error}"));
        guard.release().await.unwrap();
    }
}
