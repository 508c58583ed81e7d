//! The semaphores, their leases and the request to give one back under faults.

use zookeeper_recipes::{
    AcquireError, InterProcessSemaphore, InterProcessSemaphoreMutex, Lease, Leases, RevokeError,
    Revoker,
};

use crate::product::{SOON, Told, meanwhile, products};
use crate::stage::Stage;

fn told(acquired: Result<Option<Leases>, AcquireError>) -> Told {
    acquired
        .ok()
        .flatten()
        .map_or(Told::Nothing, |leases| Told::Leases(leases.into_iter().collect()))
}

async fn acquire(semaphore: InterProcessSemaphore, count: usize) -> Told {
    told(semaphore.acquire_many(count).await.map(Some))
}

/// With both folders in place.
async fn warm(stage: &Stage) -> InterProcessSemaphore {
    let semaphore = stage.semaphore(3);
    stage.rival_leases(1).await.release().await.unwrap();
    semaphore
}

/// Of a path that was used before: creates are all it takes.
async fn known(stage: &Stage) -> InterProcessSemaphore {
    let semaphore = stage.semaphore(3);
    for _ in 0..2 {
        semaphore.acquire().await.unwrap().release().await.unwrap();
    }
    semaphore
}

/// With one lease left.
async fn nearly_full(stage: &Stage) -> (InterProcessSemaphore, Leases) {
    (stage.semaphore(3), stage.rival_leases(2).await)
}

/// On the semaphore's nodes, which are looked at after each case.
async fn mutex(stage: &Stage) -> InterProcessSemaphoreMutex {
    let semaphore = stage.semaphore(1);
    for _ in 0..2 {
        semaphore.acquire().await.unwrap().release().await.unwrap();
    }
    InterProcessSemaphoreMutex::new(&stage.curator, &stage.path).unwrap()
}

/// A lease of another client, which no fault concerns.
async fn theirs(stage: &Stage) -> (Revoker, Lease) {
    let _ = stage.semaphore(1);
    let lease = stage.rival_leases(1).await.into_iter().next().unwrap();
    (Revoker::new(&stage.curator), lease)
}

products! { product_twice:
    acquire_of_a_lease_again: known, async |semaphore| acquire(semaphore, 1).await;
}

products! { product:
    acquire_where_the_folders_are_missing: async |stage: &Stage| stage.semaphore(3), async |semaphore| {
        acquire(semaphore, 1).await
    };
    acquire_of_a_lease_that_is_free: warm, async |semaphore| acquire(semaphore, 1).await;
    acquire_of_several_leases: known, async |semaphore| acquire(semaphore, 3).await;
    acquire_of_more_than_are_free: nearly_full, async |(semaphore, held)| {
        meanwhile(acquire(semaphore, 2), async || held.release().await.unwrap()).await
    };
    acquire_timeout_of_more_than_are_free: nearly_full, async |(semaphore, _held)| {
        Told::busy(semaphore.acquire_many_timeout(2, SOON).await)
    };
    try_acquire_of_a_lease: warm, async |semaphore| told(semaphore.try_acquire_many(2).await);
    try_acquire_of_more_than_are_free: nearly_full, async |(semaphore, _held)| {
        Told::busy(semaphore.try_acquire_many(2).await)
    };
    release_of_leases: async |stage: &Stage| {
        stage.semaphore(3).acquire_many(2).await.unwrap()
    }, async |leases| {
        let node = leases[0].node().to_owned();
        Told::released(Some(node), leases.release().await)
    };
    acquire_of_a_semaphore_mutex: mutex, async |mutex| {
        mutex.acquire().await.map_or(Told::Nothing, Told::Holds)
    };
    release_of_a_semaphore_mutex: async |stage: &Stage| {
        mutex(stage).await.acquire().await.unwrap()
    }, async |guard| {
        let node = guard.node().to_owned();
        Told::released(Some(node), guard.release().await)
    };
    participants_of_a_semaphore: nearly_full, async |(semaphore, held)| {
        if let Ok(participants) = semaphore.participants().await {
            let paths: Vec<_> = participants.iter().map(|one| one.path.as_str()).collect();
            assert!(held.iter().map(Lease::node).all(|node| paths.contains(&node)), "{paths:?}");
        }
        Told::Nothing
    };
    attempt_revoke: theirs, async |(revoker, lease)| {
        match revoker.attempt_revoke(lease.node()).await {
            Ok(there) => {
                assert!(there, "it is there");
                // Written: so the holder sees it.
                lease.revocation_requested().await.unwrap();
            }
            Err(RevokeError::Session { .. } | RevokeError::RetriesExhausted { .. }) => {}
            Err(other) => panic!("{other:?}"),
        }
        Told::Nothing
    };
    /// The rival asks, after we began to listen.
    revocation_requested: async |stage: &Stage| {
        let lease = stage.semaphore(1).acquire().await.unwrap();
        (lease, Revoker::new(&stage.rival))
    }, async |(lease, revoker)| {
        let listening = lease.revocation_requested();
        // It may be gone with its session.
        let _ = revoker.attempt_revoke(lease.node()).await;
        match listening.await {
            Ok(()) => Told::Leases(vec![lease]),
            Err(loss) => {
                assert_eq!(lease.loss(), Some(loss));
                Told::Nothing
            }
        }
    };
}
