//! What a multi-lock does while its servers answer. (Orders and failures that can be forced without one: `tests/library/api`.)

use std::sync::Arc;
use std::time::Duration;

use zookeeper_recipes::{
    InterProcessLock, InterProcessMultiLock, InterProcessMutex, InterProcessReadWriteLock,
    InterProcessSemaphore, InterProcessSemaphoreMutex, Released,
};

use crate::harness::{Arena, within};

#[tokio::test(start_paused = true)]
async fn every_recipe_can_be_a_member() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    let path = |name: &str| format!("{}/{name}", arena.path);
    let read_write = |name: &str| InterProcessReadWriteLock::new(&curator, &path(name)).unwrap();
    let semaphore = InterProcessSemaphore::new(&curator, &path("semaphore"), 2).unwrap();
    let semaphore_mutex = InterProcessSemaphoreMutex::new(&curator, &path("one")).unwrap();
    let mutex = InterProcessMutex::new(&curator, &path("mutex")).unwrap();
    let all = InterProcessMultiLock::new([
        Arc::new(mutex) as Arc<dyn InterProcessLock>,
        Arc::new(semaphore_mutex),
        Arc::new(read_write("read").read()),
        Arc::new(read_write("write").write()),
        Arc::new(semaphore),
    ])
    .unwrap();
    let guard = within("all", all.acquire()).await.unwrap();
    let mut tokens = guard.members().iter().map(|member| member.fencing_token());
    assert!(tokens.len() == 5 && tokens.all(|token| token.is_some()));
    // Two of them can be shared.
    for name in ["read", "write"] {
        let free = read_write(name).read().try_acquire().await.unwrap().is_some();
        assert_eq!(free, name == "read");
    }
    assert!(all.try_acquire().await.unwrap().is_none());
    assert_eq!(guard.release().await, Ok(Released::Unlocked));
    let limit = Duration::from_secs(10);
    assert!(all.acquire_timeout(limit).await.unwrap().is_some());
    // Both halves of one lock would wait for each other.
    let lock = read_write("both");
    let halves: [Arc<dyn InterProcessLock>; 2] = [Arc::new(lock.read()), Arc::new(lock.write())];
    assert!(InterProcessMultiLock::new(halves).is_err());
}
