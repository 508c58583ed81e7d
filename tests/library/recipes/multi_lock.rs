//! What a multi-lock does while its servers answer. (Orders and failures that can be forced without one: `tests/library/api`.)

use std::sync::Arc;
use std::time::Duration;

use zookeeper_recipes::{InterProcessLock, InterProcessMultiLock, Released};

use super::conformance::locks;
use crate::harness::{Arena, within};

#[tokio::test(start_paused = true)]
async fn every_recipe_can_be_a_member() {
    let (arena, [curator, other]) = Arena::with_curators().await;
    let all = InterProcessMultiLock::new(locks(&arena, &curator)).unwrap();
    let guard = within("all", all.acquire()).await.unwrap();
    for (member, lock) in guard.members().iter().zip(locks(&arena, &other)) {
        assert!(member.is_held() && member.path() == lock.path());
        let shared = lock.try_acquire().await.unwrap().is_some();
        assert_eq!(shared, lock.path().ends_with("/read"), "{lock:?}");
    }
    assert!(all.try_acquire().await.unwrap().is_none());
    assert_eq!(guard.release().await, Ok(Released::Unlocked));
    let limit = Duration::from_secs(10);
    assert!(all.acquire_timeout(limit).await.unwrap().is_some());
    // Both halves of one lock would wait for each other.
    let lock = arena.read_write(&curator);
    let halves: [Arc<dyn InterProcessLock>; 2] = [Arc::new(lock.read()), Arc::new(lock.write())];
    assert!(InterProcessMultiLock::new(halves).is_err());
}
