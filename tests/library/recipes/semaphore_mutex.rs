//! The mutex that is a semaphore with one lease: the tests that Curator runs for all its mutexes, and what is its own.

use zookeeper_recipes::{InterProcessMutex, Owner, Released};

use crate::harness::{Arena, BUSY, within};

/// Curator: TestInterProcessSemaphoreMutex#testReentrant and its two like are disabled there: it is not reentrant.
#[tokio::test(start_paused = true)]
async fn nobody_re_enters_not_even_an_owner() {
    let (arena, curator) = Arena::with_curator().await;
    let mutex = arena.semaphore_mutex(&curator);
    let scoped = async {
        let guard = mutex.acquire().await.unwrap();
        assert!(mutex.try_acquire().await.unwrap().is_none());
        let again = mutex.acquire_timeout(BUSY).await;
        assert!(again.unwrap().is_none());
        // By the guard it is, as any.
        let nested = guard.reenter();
        assert_eq!(guard.release().await.unwrap(), Released::StillHeld);
        assert!(mutex.try_acquire().await.unwrap().is_none());
        assert_eq!(nested.release().await.unwrap(), Released::Unlocked);
    };
    within("the owner", Owner::new().scope(scoped)).await;
    arena.nodes_are(0, 0).await;
}

/// As Curator's. A warning is all there is.
#[tokio::test(start_paused = true)]
async fn a_mutex_right_at_its_path_is_another_lock() {
    let (arena, [curator, other]) = Arena::with_curators().await;
    let mutex = InterProcessMutex::new(&other, &arena.path).unwrap();
    let one = within("the mutex", mutex.acquire()).await.unwrap();
    let two = within("the lock", arena.semaphore_mutex(&curator).acquire()).await.unwrap();
    assert!(one.is_held() && two.is_held());
    one.release().await.unwrap();
    two.release().await.unwrap();
}
