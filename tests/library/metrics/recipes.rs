//! What each recipe counts as.

use zookeeper_recipes::{
    InterProcessMultiLock, InterProcessSemaphore, InterProcessSemaphoreMutex, LeaderLatch,
    LeaderSelector, Owner,
};

use super::scrape::Scraped;
use crate::harness::{Arena, BUSY, within};

/// Before anybody wants it: who asks whether nobody holds would find nothing otherwise.
#[tokio::test]
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

#[tokio::test]
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
    assert!(semaphore.acquire_many_timeout(2, BUSY).await.unwrap().is_none());
    scraped.is(&[("acquire_seconds_count", &[("outcome", "given_up")], 1.0)]);
    let waiting = {
        let semaphore = semaphore.clone();
        tokio::spawn(async move { semaphore.acquire_many(2).await })
    };
    scraped.comes_to("waiting", &labels, 1.0).await;
    drop(two);
    let two = within("leases", waiting).await.unwrap().unwrap();
    scraped.is(&[("waiting", &[], 0.0), ("holding", &labels, 2.0)]);
    two.release().await.unwrap();
    scraped.is(&[("holding", &[], 0.0), ("hold_seconds_count", &labels, 4.0)]);
}

#[tokio::test]
async fn a_semaphore_mutex() {
    let (scraped, arena) = (Scraped::new(), Arena::new().await);
    let curator = arena.curator().await;
    let labels = [("recipe", "semaphore_mutex")];
    let mutex = InterProcessSemaphoreMutex::new(&curator, &arena.path).unwrap();
    let guard = mutex.acquire().await.unwrap();
    scraped.is(&[("holding", &labels, 1.0), ("holding", &[], 1.0)]);
    guard.release().await.unwrap();
    scraped.is(&[("holding", &[], 0.0), ("hold_seconds_count", &labels, 1.0)]);
}

#[tokio::test]
async fn a_write_lock_and_a_read_beside_it() {
    let (scraped, arena) = (Scraped::new(), Arena::new().await);
    let curator = arena.curator().await;
    let write = arena.read_write(&curator).write().acquire().await.unwrap();
    scraped.is(&[("holding", &[("recipe", "write_lock")], 1.0), ("holding", &[], 1.0)]);
    let read = write.read().await.unwrap();
    scraped.is(&[("holding", &[("recipe", "read_lock")], 1.0), ("holding", &[], 2.0)]);
    write.release().await.unwrap();
    scraped.is(&[("holding", &[("recipe", "write_lock")], 0.0), ("holding", &[], 1.0)]);
    drop(read);
    scraped.is(&[("holding", &[], 0.0), ("losses_total", &[], 0.0)]);
    for recipe in ["read_lock", "write_lock"] {
        scraped.is(&[("hold_seconds_count", &[("recipe", recipe)], 1.0)]);
        assert_eq!(scraped.find("losses_total", &[("recipe", recipe)]), Some(0.0));
    }
}

/// By its members, which are mutexes. Who re-enters holds once.
#[tokio::test]
async fn a_multi_lock_and_an_owner() {
    let (scraped, arena) = (Scraped::new(), Arena::new().await);
    let curator = arena.curator().await;
    let paths = ["a", "b", "c"].map(|member| format!("{}/{member}", arena.path));
    let multi = InterProcessMultiLock::from_paths(&curator, &paths).unwrap();
    let guard = multi.acquire().await.unwrap();
    scraped.is(&[("holding", &[("recipe", "mutex")], 3.0), ("holding", &[], 3.0)]);
    guard.release().await.unwrap();
    scraped.is(&[("holding", &[], 0.0)]);
    let mutex = zookeeper_recipes::InterProcessMutex::new(&curator, &paths[0]).unwrap();
    let nested = async {
        let outer = mutex.acquire().await.unwrap();
        let inner = mutex.acquire().await.unwrap();
        scraped.is(&[("holding", &[], 1.0), ("acquire_seconds_count", &[], 4.0)]);
        drop((outer, inner));
    };
    Owner::new().scope(nested).await;
    scraped.is(&[("holding", &[], 0.0)]);
}

#[tokio::test]
async fn leaders_and_those_who_stand_by() {
    let (scraped, arena) = (Scraped::new(), Arena::new().await);
    let (curator, other) = (arena.curator().await, arena.curator().await);
    let labels = [("recipe", "leader_latch")];
    let (first, second) = (
        LeaderLatch::new(&curator, &arena.path).unwrap(),
        LeaderLatch::new(&other, &arena.path).unwrap(),
    );
    first.start().unwrap();
    within("a leader", first.await_leadership()).await.unwrap();
    second.start().unwrap();
    arena.children_are(2).await;
    scraped.is(&[("holding", &labels, 1.0), ("waiting", &labels, 1.0)]);
    // The session of the first goes: it stands behind the second then.
    arena.kill_session(&curator).await;
    within("the next leader", second.await_leadership()).await.unwrap();
    scraped.comes_to("waiting", &labels, 1.0).await;
    let expired = [("recipe", "leader_latch"), ("cause", "session_expired")];
    scraped.is(&[("holding", &labels, 1.0), ("losses_total", &expired, 1.0)]);
    first.close().await.unwrap();
    scraped.is(&[("holding", &labels, 1.0), ("waiting", &labels, 0.0)]);
    second.close().await.unwrap();
    scraped.is(&[("holding", &[], 0.0), ("waiting", &[], 0.0), ("losses_total", &[], 1.0)]);
}

#[tokio::test]
async fn a_selector() {
    let (scraped, arena) = (Scraped::new(), Arena::new().await);
    let curator = arena.curator().await;
    let labels = [("recipe", "leader_selector")];
    let selector = LeaderSelector::new(&curator, &arena.path).unwrap();
    let (leads, led) = tokio::sync::oneshot::channel();
    let mut leads = Some(leads);
    let run = selector.run(move |leadership| {
        let leads = leads.take();
        async move {
            leads.map(|leads| leads.send(()));
            leadership.lost().await
        }
    });
    within("a leader", led).await.unwrap();
    scraped.is(&[("holding", &labels, 1.0), ("waiting", &[], 0.0)]);
    run.close().await.unwrap();
    scraped.is(&[("holding", &[], 0.0), ("hold_seconds_count", &labels, 1.0)]);
}
