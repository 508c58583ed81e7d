//! What each recipe counts as.

use std::sync::Arc;

use zookeeper_recipes::{
    InterProcessLock, InterProcessMultiLock, InterProcessSemaphore, InterProcessSemaphoreMutex,
    LeaderLatch, LeaderSelector, Owner,
};

use super::scrape::Scraped;
use crate::harness::{Arena, within};

/// Before the first acquire: a query for recipes that are not held would find nothing otherwise.
#[tokio::test(start_paused = true)]
async fn what_is_made_begins_at_zero_and_sets_no_other_back() {
    let (scraped, arena) = (Scraped::new(), Arena::new().await);
    let curator = arena.curator().await;
    let all_are = |recipe, count| {
        for gauge in ["waiting", "holding"] {
            assert_eq!(scraped.find(gauge, &[("recipe", recipe)]), count, "{gauge} {recipe}");
        }
    };
    all_are("leader_latch", None);
    let _latch = LeaderLatch::new(&curator, &arena.path).unwrap();
    all_are("leader_latch", Some(0.0));
    let _lock = arena.read_write(&curator);
    all_are("read_lock", Some(0.0));
    all_are("write_lock", Some(0.0));
    let guard = arena.mutex(&curator).acquire().await.unwrap();
    let _other = arena.mutex(&curator);
    assert_eq!(scraped.find("holding", &[("recipe", "mutex")]), Some(1.0));
    guard.release().await.unwrap();
    all_are("mutex", Some(0.0));
}

/// A multi-lock counts as its members, which are mutexes.
#[tokio::test(start_paused = true)]
async fn each_lock_counts_as_its_recipe() {
    let (scraped, arena) = (Scraped::new(), Arena::new().await);
    let curator = arena.curator().await;
    let paths = ["a", "b", "c"].map(|member| format!("{}/{member}", arena.path));
    let locks: [(_, _, Arc<dyn InterProcessLock>); 4] = [
        ("read_lock", 1.0, Arc::new(arena.read_write(&curator).read())),
        ("write_lock", 1.0, Arc::new(arena.read_write(&curator).write())),
        ("mutex", 3.0, Arc::new(InterProcessMultiLock::from_paths(&curator, &paths).unwrap())),
        (
            "semaphore_mutex",
            1.0,
            Arc::new(InterProcessSemaphoreMutex::new(&curator, &arena.path).unwrap()),
        ),
    ];
    for (recipe, count, lock) in locks {
        let guard = lock.acquire().await.unwrap();
        scraped.is(&[("holding", &[("recipe", recipe)], count), ("holding", &[], count)]);
        guard.release().await.unwrap();
        scraped.is(&[("holding", &[], 0.0), ("hold_seconds_count", &[("recipe", recipe)], count)]);
        assert_eq!(scraped.find("losses_total", &[("recipe", recipe)]), Some(0.0));
    }
    // An owner that re-enters holds once.
    let mutex = arena.mutex(&curator);
    let nested = async {
        let guards = (mutex.acquire().await.unwrap(), mutex.acquire().await.unwrap());
        scraped.is(&[("holding", &[], 1.0), ("acquire_seconds_count", &[], 7.0)]);
        drop(guards);
    };
    Owner::new().scope(nested).await;
    scraped.is(&[("holding", &[], 0.0)]);
    // A read beside a write is a hold of its own.
    let write = arena.read_write(&curator).write().acquire().await.unwrap();
    let read = write.read().await.unwrap();
    scraped.is(&[("holding", &[("recipe", "read_lock")], 1.0), ("holding", &[], 2.0)]);
    write.release().await.unwrap();
    scraped.is(&[("holding", &[("recipe", "write_lock")], 0.0), ("holding", &[], 1.0)]);
    drop(read);
    scraped.is(&[("holding", &[], 0.0), ("losses_total", &[], 0.0)]);
}

#[tokio::test(start_paused = true)]
async fn leases_count_one_by_one_and_the_mutex_beside_them_does_not() {
    let (scraped, arena) = (Scraped::new(), Arena::new().await);
    let curator = arena.curator().await;
    let labels = [("recipe", "semaphore")];
    let semaphore = InterProcessSemaphore::new(&curator, &arena.path, 3).unwrap();
    let two = semaphore.acquire_many(2).await.unwrap();
    scraped.is(&[
        ("holding", &labels, 2.0),
        ("holding", &[], 2.0),
        ("acquire_seconds_count", &labels, 1.0),
        ("acquire_seconds_count", &[], 1.0),
    ]);
    assert!(semaphore.try_acquire_many(2).await.unwrap().is_none());
    scraped.is(&[("acquire_seconds_count", &[("outcome", "busy")], 1.0)]);
    let waiting = tokio::spawn(async move { semaphore.acquire_many(2).await });
    scraped.comes_to("waiting", &labels, 1.0).await;
    drop(two);
    let two = within("leases", waiting).await.unwrap().unwrap();
    scraped.is(&[("waiting", &[], 0.0), ("holding", &labels, 2.0)]);
    two.release().await.unwrap();
    scraped.is(&[("holding", &[], 0.0), ("hold_seconds_count", &labels, 4.0)]);
}

#[tokio::test(start_paused = true)]
async fn leaders_hold_and_candidates_wait() {
    let (scraped, arena) = (Scraped::new(), Arena::new().await);
    let (curator, other) = (arena.curator().await, arena.curator().await);
    let labels = [("recipe", "leader_latch")];
    let [first, second] =
        [&curator, &other].map(|curator| LeaderLatch::new(curator, &arena.path).unwrap());
    first.start().unwrap();
    within("a leader", first.await_leadership()).await.unwrap();
    second.start().unwrap();
    arena.children_are(2).await;
    scraped.is(&[("holding", &labels, 1.0), ("waiting", &labels, 1.0)]);
    // The first latch loses its session and enters again, behind the second.
    arena.kill_session(&curator).await;
    within("the next leader", second.await_leadership()).await.unwrap();
    scraped.comes_to("waiting", &labels, 1.0).await;
    let expired = [("recipe", "leader_latch"), ("cause", "session_expired")];
    scraped.is(&[("holding", &labels, 1.0), ("losses_total", &expired, 1.0)]);
    first.close().await.unwrap();
    scraped.is(&[("holding", &labels, 1.0), ("waiting", &labels, 0.0)]);
    second.close().await.unwrap();
    scraped.is(&[("holding", &[], 0.0), ("waiting", &[], 0.0), ("losses_total", &[], 1.0)]);
    let labels = [("recipe", "leader_selector")];
    let selector = LeaderSelector::new(&curator, &arena.path).unwrap();
    let run = selector.run(async |leadership| leadership.lost().await);
    scraped.comes_to("holding", &labels, 1.0).await;
    scraped.is(&[("waiting", &[], 0.0)]);
    run.close().await.unwrap();
    scraped.is(&[("holding", &[], 0.0), ("hold_seconds_count", &labels, 1.0)]);
}
