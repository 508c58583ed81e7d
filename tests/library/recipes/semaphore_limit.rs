//! A semaphore whose limit is a shared count.

use zookeeper_recipes::{AcquireError, Curator, InterProcessSemaphore, Lease, SharedCount};

use crate::harness::{Arena, BUSY, eventually, within};

async fn count(arena: &Arena, curator: &Curator, seed: i32) -> SharedCount {
    SharedCount::start(curator, &format!("{}-limit", arena.path), seed).await.expect("a count")
}

fn semaphore(arena: &Arena, curator: &Curator, count: &SharedCount) -> InterProcessSemaphore {
    InterProcessSemaphore::with_shared_count(curator, &arena.path, count).expect("a semaphore")
}

fn waits(semaphore: &InterProcessSemaphore) -> tokio::task::JoinHandle<Lease> {
    let semaphore = semaphore.clone();
    tokio::spawn(async move { semaphore.acquire().await.expect("a lease") })
}

async fn leases(arena: &Arena) -> usize {
    crate::harness::children(&arena.admin, &format!("{}/leases", arena.path)).await.len()
}

/// Curator's `TestInterProcessSemaphore#testThreadedLeaseIncrease`, CURATOR-75.
#[tokio::test(start_paused = true)]
async fn raising_the_limit_wakes_who_waits() {
    let arena = Arena::new().await;
    let (curator, other) = (arena.curator().await, arena.curator().await);
    let limit = count(&arena, &curator, 1).await;
    let semaphore = semaphore(&arena, &curator, &limit);
    let first = within("a lease", semaphore.acquire()).await.unwrap();
    let waiting = waits(&semaphore);
    eventually("it waits with a node", async || leases(&arena).await == 2).await;
    assert!(!waiting.is_finished());
    // Set by another process.
    let theirs = count(&arena, &other, 7).await;
    theirs.set(2).await.unwrap();
    let second = within("a second lease", waiting).await.unwrap();
    assert!(first.is_held() && second.is_held());
    assert_eq!(semaphore.limit(), 2);
}

#[tokio::test(start_paused = true)]
async fn lowering_the_limit_takes_nothing_from_holders() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    let limit = count(&arena, &curator, 3).await;
    let semaphore = semaphore(&arena, &curator, &limit);
    let three = within("three leases", semaphore.acquire_many(3)).await.unwrap();
    limit.set(1).await.unwrap();
    eventually("it is known", async || semaphore.limit() == 1).await;
    assert!(three.iter().all(Lease::is_held));
    assert!(semaphore.acquire_timeout(BUSY).await.unwrap().is_none());
    let mut three = three.into_iter();
    for _ in 0..2 {
        three.next().unwrap().release().await.unwrap();
        assert!(semaphore.try_acquire().await.unwrap().is_none(), "one is enough now");
    }
    three.next().unwrap().release().await.unwrap();
    within("the one there is", semaphore.acquire()).await.unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn at_zero_nobody_gets_one_until_it_is_raised() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    for closed in [0, -1, i32::MIN] {
        let limit = count(&arena, &curator, closed).await;
        limit.set(closed).await.unwrap();
        let semaphore = semaphore(&arena, &curator, &limit);
        eventually("it is known", async || semaphore.limit() == 0).await;
        assert!(semaphore.try_acquire().await.unwrap().is_none());
        let waiting = waits(&semaphore);
        eventually("it waits", async || leases(&arena).await == 1).await;
        limit.set(1).await.unwrap();
        within("a lease", waiting).await.unwrap().release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn more_than_there_are_is_an_error_when_asked_and_while_waiting() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    let limit = count(&arena, &curator, 2).await;
    let semaphore = semaphore(&arena, &curator, &limit);
    let error = semaphore.acquire_many(3).await.unwrap_err();
    assert!(matches!(error, AcquireError::LeaseCount { asked: 3, limit: 2, .. }), "{error}");
    let held = within("a lease", semaphore.acquire()).await.unwrap();
    let asking = semaphore.clone();
    let waiting = tokio::spawn(async move { asking.acquire_many(2).await });
    eventually("it waits with its nodes", async || leases(&arena).await == 3).await;
    limit.set(1).await.unwrap();
    let error = within("the error", waiting).await.unwrap().unwrap_err();
    assert!(matches!(error, AcquireError::LeaseCount { asked: 2, limit: 1, .. }), "{error}");
    eventually("its nodes are gone", async || leases(&arena).await == 1).await;
    held.release().await.unwrap();
}

/// What is no count leaves the limit as it was.
#[tokio::test(start_paused = true)]
async fn a_limit_of_foreign_data_stays_as_it_was() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    let limit = count(&arena, &curator, 1).await;
    let semaphore = semaphore(&arena, &curator, &limit);
    let held = within("a lease", semaphore.acquire()).await.unwrap();
    arena.admin.set_data(limit.path(), b"seventeen", None).await.unwrap();
    assert!(semaphore.acquire_timeout(BUSY).await.unwrap().is_none());
    arena.admin.set_data(limit.path(), &2_i32.to_be_bytes(), None).await.unwrap();
    within("a second", semaphore.acquire()).await.unwrap().release().await.unwrap();
    held.release().await.unwrap();
}

/// On a path that is known, where ours and others' nodes come and go.
#[tokio::test(start_paused = true)]
async fn trying_takes_what_is_free_however_much_that_is() {
    let arena = Arena::new().await;
    let (curator, other) = (arena.curator().await, arena.curator().await);
    let of = |curator: &Curator, limit| {
        InterProcessSemaphore::new(curator, &arena.path, limit).expect("a semaphore")
    };
    for limit in 1..4 {
        let (ours, theirs) = (of(&curator, limit), of(&other, limit));
        for _ in 0..5 {
            for semaphore in [&ours, &theirs, &ours] {
                let all = within("all", semaphore.try_acquire_many(limit)).await.unwrap();
                let Some(all) = all else { arena.not_free().await };
                assert!(within("one more", ours.try_acquire()).await.unwrap().is_none());
                all.release().await.unwrap();
            }
            let some = within("but one", theirs.acquire_many(limit)).await.unwrap();
            let mut some = some.into_iter();
            some.next().unwrap().release().await.unwrap();
            let last = within("the last", ours.try_acquire()).await.unwrap();
            let Some(last) = last else { arena.not_free().await };
            last.release().await.unwrap();
            for lease in some {
                lease.release().await.unwrap();
            }
        }
    }
}
