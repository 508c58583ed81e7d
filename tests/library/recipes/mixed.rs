//! Two recipes of different kinds on one path, and clients whose names the filter does not count.

use futures_util::future::join_all;
use zookeeper_recipes::zookeeper_client::CreateMode;
use zookeeper_recipes::{
    AcquireError, ContenderFilter, InterProcessMutex, InterProcessReadWriteLock,
};

use crate::harness::{Arena, BUSY, within};

/// The child that an acquiring was refused for.
fn refused<T: std::fmt::Debug>(acquired: Result<T, AcquireError>) -> String {
    match acquired {
        Err(AcquireError::OtherRecipe { child, .. }) => child,
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_mutex_and_a_read_write_lock_on_one_path_refuse_each_other() {
    let arena = Arena::new().await;
    let (curator, other) = (arena.curator().await, arena.curator().await);
    let mutex = InterProcessMutex::new(&curator, &arena.path).unwrap();
    let lock = InterProcessReadWriteLock::new(&other, &arena.path).unwrap();
    let guard = within("the mutex", mutex.acquire()).await.unwrap();
    let name = guard.node().rsplit('/').next().unwrap().to_owned();
    assert_eq!(refused(within("a write", lock.write().acquire()).await), name);
    assert_eq!(refused(within("a read", lock.read().acquire()).await), name);
    assert_eq!(refused(within("a try", lock.read().try_acquire()).await), name);
    let error = lock.write().acquire().await.unwrap_err().to_string();
    assert!(error.contains(&name) && error.contains(&arena.path), "{error}");
    assert!(guard.is_held(), "who was there first goes on");
    guard.release().await.unwrap();
    // The nodes of those that were refused are gone.
    arena.children_are(0).await;
    let read = within("a read", lock.read().acquire()).await.unwrap();
    refused(within("the mutex", mutex.acquire()).await);
    refused(within("a try of the mutex", mutex.try_acquire()).await);
    read.release().await.unwrap();
    within("the mutex", mutex.acquire()).await.unwrap().release().await.unwrap();
}

/// Who knew the path, and would need no listing, sees it all the same: any create counts.
#[tokio::test(start_paused = true)]
async fn a_known_path_is_not_trusted_after_another_recipe_came() {
    let arena = Arena::new().await;
    let (curator, other) = (arena.curator().await, arena.curator().await);
    let mutex = InterProcessMutex::new(&curator, &arena.path).unwrap();
    for _ in 0..3 {
        within("the mutex", mutex.acquire()).await.unwrap().release().await.unwrap();
    }
    let lock = InterProcessReadWriteLock::new(&other, &arena.path).unwrap();
    let read = within("a read", lock.read().acquire()).await.unwrap();
    for _ in 0..3 {
        refused(within("the mutex", mutex.acquire()).await);
    }
    read.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_a_filter_does_not_count_is_refused_and_what_it_counts_is_waited_for() {
    let kazoo = "5f3c28ba2fa141d2883f0016d3cca427__lock__0000000000";
    let curators = "_c_5f3c28ba-2fa1-41d2-883f-0016d3cca427-lock-0000000000";
    let custom = ContenderFilter::custom("solr", |child| child.contains("-n_"));
    let rows = [
        (ContenderFilter::Curator, kazoo, false),
        (ContenderFilter::Curator, curators, true),
        (ContenderFilter::Kazoo, kazoo, true),
        (ContenderFilter::Kazoo, "5f__rlock__0000000000", true),
        (ContenderFilter::Kazoo, curators, false),
        (ContenderFilter::Inclusive, kazoo, true),
        (ContenderFilter::Inclusive, curators, true),
        (custom, "7-core-n_0000000000", true),
    ];
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    let row = async |(number, (filter, child, counts)): (usize, (ContenderFilter, &str, bool))| {
        let path = format!("{}/{number}", arena.path);
        let mutex = InterProcessMutex::new(&curator, &path).unwrap();
        let mutex = mutex.with_filter(filter.clone()).unwrap();
        // Makes the path; so ours have greater numbers than the child's.
        within("the path", mutex.acquire()).await.unwrap().release().await.unwrap();
        let node = format!("{path}/{child}");
        arena.create(&node, CreateMode::Persistent).await;
        let waiting = within("a limit", mutex.acquire_timeout(BUSY));
        if counts {
            assert!(waiting.await.unwrap().is_none(), "{child} by {filter:?}");
        } else {
            assert_eq!(refused(waiting.await), child, "by {filter:?}");
        }
        arena.admin.delete(&node, None).await.unwrap();
        let guard = within("the lock", mutex.acquire()).await.unwrap();
        assert_eq!(mutex.participants().await.unwrap().len(), 1, "{filter:?}");
        assert!(format!("{mutex:?}").contains(&format!("{filter:?}")));
        guard.release().await.unwrap();
    };
    join_all(rows.into_iter().enumerate().map(row)).await;
}

#[tokio::test(start_paused = true)]
async fn kazoo_needs_text() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    for filter in [ContenderFilter::Kazoo, ContenderFilter::Inclusive] {
        let mutex = InterProcessMutex::new(&curator, &arena.path).unwrap();
        let filtered = mutex.clone().with_filter(filter.clone()).unwrap();
        let error = filtered.with_identity([0xff, 0xfe]).unwrap_err().to_string();
        assert!(error.contains("identity") && error.contains(&arena.path), "{error}");
        let binary = mutex.with_identity([0xff, 0xfe]).unwrap();
        assert!(binary.with_filter(filter).unwrap_err().to_string().contains("UTF-8"));
    }
}

/// Others may write what they like: it is told as it is.
#[tokio::test(start_paused = true)]
async fn data_of_others_need_not_be_text() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    let mutex = InterProcessMutex::new(&curator, &arena.path).unwrap();
    let mutex = mutex.with_filter(ContenderFilter::Kazoo).unwrap();
    within("the path", mutex.acquire()).await.unwrap().release().await.unwrap();
    let node = format!("{}/5f3c28ba2fa141d2883f0016d3cca427__lock__0000000000", arena.path);
    arena.create(&node, CreateMode::Ephemeral).await;
    arena.admin.set_data(&node, &[0xff, 0, 0xfe], None).await.unwrap();
    let told = mutex.participants().await.unwrap();
    assert_eq!((told.len(), &*told[0].data, told[0].holds), (1, &[0xff, 0, 0xfe][..], true));
}
