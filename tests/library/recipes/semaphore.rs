//! What a semaphore does, and who learns of a place in its queue that is lost.

use std::time::Duration;

use zookeeper_recipes::interop::Owner;
use zookeeper_recipes::{Attempt, Curator, Released};

use super::leases::{asks, asks_for};
use crate::harness::{Arena, BUSY, acquired, eventually, within};

/// Curator: TestInterProcessSemaphore#testSimple2. kazoo: test_non_blocking, test_non_blocking_release. (kazoo refuses when it merely cannot look.)
#[tokio::test(start_paused = true)]
async fn who_does_not_wait_is_told_at_once_and_leaves_nothing() {
    let (arena, [curator, other]) = Arena::with_curators().await;
    let semaphore = arena.semaphore(&curator, 2);
    let rival = arena.semaphore(&other, 2);
    let first = acquired(semaphore.try_acquire().await.unwrap()).unwrap();
    let second = acquired(rival.try_acquire().await.unwrap()).unwrap();
    assert!(matches!(semaphore.try_acquire().await.unwrap(), Attempt::Busy));
    assert!(matches!(rival.try_acquire_many(2).await.unwrap(), Attempt::Busy));
    arena.nodes_are(0, 2).await;
    second.release().await.unwrap();
    assert!(
        matches!(rival.try_acquire_many(2).await.unwrap(), Attempt::Busy),
        "one of two is free"
    );
    let third = acquired(rival.try_acquire().await.unwrap()).unwrap();
    assert!(first.is_held() && third.is_held());
    first.release().await.unwrap();
    third.release().await.unwrap();
    assert_eq!(acquired(rival.try_acquire_many(2).await.unwrap()).unwrap().iter().count(), 2);
}

/// Names, modes and data of leases are in `conformance`; a lease tells what any guard does.
#[tokio::test(start_paused = true)]
async fn the_nodes_are_curators_and_a_lease_tells_of_its_own() {
    let arena = Arena::new().await;
    let curator = arena.connect(arena.builder().identity("me@here")).await;
    let semaphore = curator.semaphore(&arena.path, 2).unwrap();
    assert_eq!((semaphore.path(), semaphore.limit()), (arena.path.as_str(), 2));
    let lease = within("a lease", semaphore.acquire()).await.unwrap();
    let [node] = arena.leases().await.try_into().unwrap();
    assert_eq!(lease.node(), node);
    let named = arena.semaphore(&curator.with_identity("second"), 2);
    let second = within("another", named.acquire()).await.unwrap();
    assert_eq!(arena.admin.get_data(second.node()).await.unwrap().0, b"second");
    let token = lease.cancellation_token();
    assert!(lease.is_held() && lease.loss().is_none() && !token.is_cancelled());
    assert_eq!(lease.path(), arena.path);
    let data = format!("{}/data", arena.path);
    lease.fenced().create(&data, b"").await.unwrap();
    lease.release().await.unwrap();
    assert!(token.is_cancelled());
    // `locks` holds a mutex of Curator's.
    let waiting = asks(&semaphore);
    let last = asks(&semaphore);
    arena.nodes_are(1, 3).await;
    let [lock] = arena.locks().await.try_into().unwrap();
    assert!(lock.rsplit('/').next().unwrap().contains("-lock-"), "{lock}");
    second.release().await.unwrap();
    for waiting in [waiting, last] {
        waiting.served().await.release().await.unwrap();
    }
    arena.remove(&data).await;
}

/// Curator: TestInterProcessSemaphoreMutex#testReentrant and its two like are disabled there: it is not reentrant. A mutex
/// right at its path is another lock.
#[tokio::test(start_paused = true)]
async fn nobody_re_enters_not_even_an_owner() {
    let (arena, [curator, other]) = Arena::with_curators().await;
    let semaphore = arena.semaphore(&curator, 1);
    let scoped = async {
        let guard = semaphore.acquire().await.unwrap();
        assert!(matches!(semaphore.try_acquire().await.unwrap(), Attempt::Busy));
        assert!(matches!(semaphore.acquire_timeout(BUSY).await.unwrap(), Attempt::Busy));
        // By the guard it is, as any.
        let nested = guard.reenter();
        assert_eq!(guard.release().await.unwrap(), Released::StillHeld);
        let mutex = within("the mutex", arena.mutex(&other).acquire()).await.unwrap();
        assert!(mutex.is_held() && nested.is_held());
        assert!(matches!(semaphore.try_acquire().await.unwrap(), Attempt::Busy));
        assert_eq!(nested.release().await.unwrap(), Released::Confirmed);
        mutex.release().await.unwrap();
    };
    within("the owner", Owner::new().scope(scoped)).await;
    arena.nodes_are(0, 0).await;
}

/// A hold's node is looked after within a sixth of its session's timeout: 3 s, while a busy machine has 12 s to renew the lease.
async fn attentive(arena: &Arena) -> Curator {
    arena.connect(arena.builder().session_timeout(Duration::from_secs(18))).await
}

/// Else two could have nodes that are not granted, and each count the other's.
#[tokio::test(start_paused = true)]
async fn a_waiter_whose_lock_an_administrator_deletes_gives_its_leases_up_and_queues_again() {
    let arena = Arena::new().await;
    let curators = [attentive(&arena).await, attentive(&arena).await, attentive(&arena).await];
    let semaphores = curators.each_ref().map(|curator| arena.semaphore(curator, 2));
    let holder = within("a lease", semaphores[0].acquire()).await.unwrap();
    let robbed = asks_for(&semaphores[1], 2);
    arena.nodes_are(1, 3).await;
    let behind = asks_for(&semaphores[2], 2);
    arena.nodes_are(2, 3).await;
    let (locks, leases) = (arena.locks().await, arena.leases().await);
    arena.delete(&locks[..1]).await;
    eventually("it is behind the other, with no lease", async || {
        let (now, theirs) = (arena.locks().await, arena.leases().await);
        now.len() == 2
            && now[0] == locks[1]
            && theirs.len() == 3
            && !theirs.contains(&leases[1])
            && !theirs.contains(&leases[2])
    })
    .await;
    holder.release().await.unwrap();
    let behind = behind.served().await;
    arena.nodes_are(1, 4).await;
    assert!(!robbed.is_finished());
    behind.release().await.unwrap();
    robbed.served().await.release().await.unwrap();
    arena.nodes_are(0, 0).await;
}
