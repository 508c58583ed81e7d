//! The semaphores, their leases and the request to give one back under faults.

use std::time::Duration;

use zookeeper_recipes::{
    AcquireError, InterProcessSemaphore, InterProcessSemaphoreMutex, Lease, Leases, MutexGuard,
    ReleaseError, Released, RevokeError, Revoker,
};

use crate::product::{Told, product, product_twice};
use crate::stage::Stage;

const SOON: Duration = Duration::from_millis(500);

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

#[tokio::test]
async fn acquire_where_the_folders_are_missing() {
    let ready = async |stage: &Stage| stage.semaphore(3);
    product("semaphore: acquire, path missing", ready, async |semaphore| {
        acquire(semaphore, 1).await
    })
    .await;
}

#[tokio::test]
async fn acquire_of_a_lease_that_is_free() {
    product("semaphore: acquire", warm, async |semaphore| acquire(semaphore, 1).await).await;
}

#[tokio::test]
async fn acquire_of_a_lease_again() {
    product_twice("semaphore: acquire, path known", known, async |semaphore| {
        acquire(semaphore, 1).await
    })
    .await;
}

#[tokio::test]
async fn acquire_of_several_leases() {
    product("semaphore: acquire_many", known, async |semaphore| acquire(semaphore, 3).await).await;
}

#[tokio::test]
async fn acquire_of_more_than_are_free() {
    product("semaphore: acquire_many, full", nearly_full, async |(semaphore, held)| {
        let release = async {
            tokio::time::sleep(SOON).await;
            held.release().await.unwrap();
        };
        tokio::join!(acquire(semaphore, 2), release).0
    })
    .await;
}

#[tokio::test]
async fn acquire_timeout_of_more_than_are_free() {
    product("semaphore: acquire_many_timeout, full", nearly_full, async |(semaphore, _held)| {
        let told = told(semaphore.acquire_many_timeout(2, SOON).await);
        assert!(matches!(told, Told::Nothing), "four of three are held: {told:?}");
        told
    })
    .await;
}

#[tokio::test]
async fn try_acquire_of_a_lease() {
    product("semaphore: try_acquire", warm, async |semaphore| {
        told(semaphore.try_acquire_many(2).await)
    })
    .await;
}

#[tokio::test]
async fn try_acquire_of_more_than_are_free() {
    product("semaphore: try_acquire, full", nearly_full, async |(semaphore, _held)| {
        let told = told(semaphore.try_acquire_many(2).await);
        assert!(matches!(told, Told::Nothing), "four of three are held: {told:?}");
        told
    })
    .await;
}

#[tokio::test]
async fn release_of_leases() {
    let ready = async |stage: &Stage| stage.semaphore(3).acquire_many(2).await.unwrap();
    product("leases: release", ready, async |leases| {
        let node = leases[0].node().to_owned();
        match leases.release().await {
            Ok(()) => Told::Deleted(node),
            Err(ReleaseError::Lost { .. } | ReleaseError::Unconfirmed { .. }) => Told::Nothing,
            other => panic!("{other:?}"),
        }
    })
    .await;
}

/// On the semaphore's nodes, which are looked at after each case.
async fn mutex(stage: &Stage) -> InterProcessSemaphoreMutex {
    let semaphore = stage.semaphore(1);
    for _ in 0..2 {
        semaphore.acquire().await.unwrap().release().await.unwrap();
    }
    InterProcessSemaphoreMutex::new(&stage.curator, &stage.path).unwrap()
}

async fn held(stage: &Stage) -> MutexGuard {
    mutex(stage).await.acquire().await.unwrap()
}

#[tokio::test]
async fn acquire_of_a_semaphore_mutex() {
    product("semaphore mutex: acquire", mutex, async |mutex| {
        mutex.acquire().await.map_or(Told::Nothing, Told::Holds)
    })
    .await;
}

#[tokio::test]
async fn release_of_a_semaphore_mutex() {
    product("semaphore mutex: release", held, async |guard| {
        let node = guard.node().to_owned();
        match guard.release().await {
            Ok(Released::Unlocked) => Told::Deleted(node),
            Err(ReleaseError::Lost { .. } | ReleaseError::Unconfirmed { .. }) => Told::Nothing,
            other => panic!("{other:?}"),
        }
    })
    .await;
}

#[tokio::test]
async fn participants_of_a_semaphore() {
    let ready = async |stage: &Stage| {
        let (semaphore, held) = nearly_full(stage).await;
        stage.heard_of(held[1].node()).await;
        (semaphore, held)
    };
    product("semaphore: participants", ready, async |(semaphore, held)| {
        if let Ok(participants) = semaphore.participants().await {
            let paths: Vec<_> = participants.iter().map(|one| one.path.as_str()).collect();
            assert!(held.iter().map(Lease::node).all(|node| paths.contains(&node)), "{paths:?}");
        }
        Told::Nothing
    })
    .await;
}

/// A lease of somebody else's, which no fault concerns.
async fn theirs(stage: &Stage) -> (Revoker, Lease) {
    let _ = stage.semaphore(1);
    let lease = stage.rival_leases(1).await.into_iter().next().unwrap();
    stage.heard_of(lease.node()).await;
    (Revoker::new(&stage.curator), lease)
}

#[tokio::test]
async fn attempt_revoke() {
    product("Revoker::attempt_revoke", theirs, async |(revoker, lease)| {
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
    })
    .await;
}

/// Asked for by somebody whom no fault concerns, after we began to listen.
#[tokio::test]
async fn revocation_requested() {
    let ready = async |stage: &Stage| {
        let lease = stage.semaphore(1).acquire().await.unwrap();
        (lease, stage.rival_revoker())
    };
    product("revocation_requested", ready, async |(lease, revoker)| {
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
    })
    .await;
}
