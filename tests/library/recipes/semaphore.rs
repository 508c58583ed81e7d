//! What a semaphore does while nothing fails.

use zookeeper_recipes::{InterProcessSemaphore, Loss};

use super::leases::asks;
use crate::harness::{Arena, within};

/// Curator: TestInterProcessSemaphore#testSimple2. kazoo: test_non_blocking, test_non_blocking_release. (kazoo refuses when it merely cannot look.)
#[tokio::test(start_paused = true)]
async fn who_does_not_wait_is_told_at_once_and_leaves_nothing() {
    let arena = Arena::new().await;
    let (curator, other) = (arena.curator().await, arena.curator().await);
    let semaphore = arena.semaphore(&curator, 2);
    let rival = arena.semaphore(&other, 2);
    let first = semaphore.try_acquire().await.unwrap().unwrap();
    let second = rival.try_acquire().await.unwrap().unwrap();
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    assert!(rival.try_acquire_many(2).await.unwrap().is_none());
    arena.nodes_are(0, 2).await;
    second.release().await.unwrap();
    assert!(rival.try_acquire_many(2).await.unwrap().is_none(), "one of two is free");
    let third = rival.try_acquire().await.unwrap().unwrap();
    assert!(first.is_held() && third.is_held());
    first.release().await.unwrap();
    third.release().await.unwrap();
    assert_eq!(rival.try_acquire_many(2).await.unwrap().unwrap().len(), 2);
}

/// Names, modes and data are Curator's; a lease tells what any guard does.
#[tokio::test(start_paused = true)]
async fn the_nodes_are_curators_and_a_lease_tells_of_its_own() {
    let arena = Arena::new().await;
    let curator = arena.connect(arena.builder().identity("me@here")).await;
    let semaphore = InterProcessSemaphore::new(&curator, &arena.path, 2).unwrap();
    assert_eq!((semaphore.path(), semaphore.limit()), (arena.path.as_str(), 2));
    let lease = within("a lease", semaphore.acquire()).await.unwrap();
    let [node] = arena.leases().await.try_into().unwrap();
    assert_eq!(lease.node(), node);
    let name = node.rsplit('/').next().unwrap();
    assert_eq!(name.len(), 56);
    assert!(name.starts_with("_c_") && name.ends_with("-lease-0000000000"), "{name}");
    let (data, stat) = arena.admin.get_data(&node).await.unwrap();
    assert_eq!((lease.data(), data.as_slice()), (&b"me@here"[..], &b"me@here"[..]));
    assert_eq!(stat.ephemeral_owner, curator.session_id().unwrap());
    assert_eq!(stat.czxid, lease.fencing_token().value());
    let named = semaphore.clone().with_identity("second").unwrap();
    let second = within("another", named.acquire()).await.unwrap();
    assert_eq!(second.data(), b"second");
    assert_eq!(arena.admin.get_data(second.node()).await.unwrap().0, b"second");
    let (token, lost) = (lease.cancellation_token(), lease.lost());
    assert!(lease.is_held() && lease.loss().is_none() && !token.is_cancelled());
    assert_eq!(lease.path(), arena.path);
    lease.fenced().create(&format!("{}/data", arena.path), b"").await.unwrap();
    lease.release().await.unwrap();
    assert!(token.is_cancelled());
    assert_eq!(within("the end", lost).await, Loss::Released);
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
    arena.admin.delete(&format!("{}/data", arena.path), None).await.unwrap();
}
