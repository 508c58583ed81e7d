//! The semaphore.

use std::time::Duration;

use zookeeper_recipes::{InterProcessSemaphore, InterProcessSemaphoreMutex, Revoker};

use crate::harness::{Arena, within};

#[tokio::test]
async fn smoke() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    let semaphore = InterProcessSemaphore::new(&curator, &arena.path, 3).unwrap();
    let a = within("a", semaphore.acquire()).await.unwrap();
    let b = within("b", semaphore.acquire_many(2)).await.unwrap();
    assert!(within("try", semaphore.try_acquire()).await.unwrap().is_none());
    let c = within("t", semaphore.acquire_timeout(Duration::from_millis(300))).await.unwrap();
    assert!(c.is_none());
    println!("{:?}", semaphore.participants().await.unwrap());
    let s = semaphore.clone();
    let waiting = tokio::spawn(async move { s.acquire_many(3).await.unwrap() });
    a.release().await.unwrap();
    assert!(!waiting.is_finished());
    b.release().await.unwrap();
    let c = within("three", waiting).await.unwrap();
    assert_eq!(c.len(), 3);
    c.release().await.unwrap();
    for _ in 0..3 {
        within("again", semaphore.acquire()).await.unwrap().release().await.unwrap();
    }
    let mutex = InterProcessSemaphoreMutex::new(&curator, &arena.path).unwrap();
    let guard = within("mutex", mutex.acquire()).await.unwrap();
    assert!(within("try", mutex.try_acquire()).await.unwrap().is_none());
    Revoker::new(&curator).attempt_revoke(guard.node()).await.unwrap();
    within("revoked", guard.revocation_requested()).await.unwrap();
    guard.release().await.unwrap();
}
