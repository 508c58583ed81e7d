//! The read-write lock.

use zookeeper_recipes::InterProcessReadWriteLock;

use crate::harness::{Arena, within};

#[tokio::test]
async fn smoke() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    let lock = InterProcessReadWriteLock::new(&curator, &arena.path).unwrap();
    let r1 = within("r1", lock.read().acquire()).await.unwrap();
    let r2 = within("r2", lock.read().acquire()).await.unwrap();
    assert!(lock.write().try_acquire().await.unwrap().is_none());
    r1.release().await.unwrap();
    r2.release().await.unwrap();
    let w = within("w", lock.write().acquire()).await.unwrap();
    assert!(lock.read().try_acquire().await.unwrap().is_none());
    let writer = lock.write();
    let waiting = tokio::spawn(async move { writer.acquire().await.unwrap() });
    arena.children_are(2).await;
    let r = within("downgrade", w.downgrade()).await.unwrap();
    arena.children_are(2).await;
    assert!(!waiting.is_finished());
    println!("{:?}", lock.participants().await.unwrap());
    r.release().await.unwrap();
    within("w2", waiting).await.unwrap().release().await.unwrap();
    arena.children_are(0).await;
}
