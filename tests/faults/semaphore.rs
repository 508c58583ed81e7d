//! The semaphores, their leases and the request to give one back under faults.

use zookeeper_recipes::interop::Revoker;
use zookeeper_recipes::{Error, ErrorKind, Guard, Guards, InterProcessSemaphoreV2};

use crate::product::{SOON, Told, meanwhile, products};
use crate::support::fixture::FaultFixture;

fn told(asked: Result<Guards, Error>) -> Told {
    asked.map_or(Told::Nothing, |leases| Told::Leases(leases.into_iter().collect()))
}

async fn acquire(semaphore: InterProcessSemaphoreV2, count: usize) -> Told {
    told(semaphore.acquire_many(count).await)
}

/// With both folders in place.
async fn warm(fixture: &FaultFixture) -> InterProcessSemaphoreV2 {
    let semaphore = fixture.semaphore(3);
    fixture.rival_leases(1).await.release().await.unwrap();
    semaphore
}

/// Of a path that was used before: creates are all it takes.
async fn known(fixture: &FaultFixture) -> InterProcessSemaphoreV2 {
    known_with(fixture, 3).await
}

async fn known_with(fixture: &FaultFixture, limit: usize) -> InterProcessSemaphoreV2 {
    let semaphore = fixture.semaphore(limit);
    fixture.is_known().await;
    semaphore
}

/// With one lease left.
async fn nearly_full(fixture: &FaultFixture) -> (InterProcessSemaphoreV2, Guards) {
    (fixture.semaphore(3), fixture.rival_leases(2).await)
}

/// A lease of another client, which no fault concerns.
async fn theirs(fixture: &FaultFixture) -> (Revoker, Guard) {
    let _ = fixture.semaphore(1);
    let lease = fixture.rival_leases(1).await.into_iter().next().unwrap();
    (Revoker::new(&fixture.curator), lease)
}

products! { product_twice:
    acquire_of_a_lease_again: known, async |semaphore| acquire(semaphore, 1).await;
}

products! { product:
    acquire_where_the_folders_are_missing: async |fixture: &FaultFixture| fixture.semaphore(3), async |semaphore| {
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
    release_of_leases: async |fixture: &FaultFixture| {
        fixture.semaphore(3).acquire_many(2).await.unwrap()
    }, async |leases| {
        let node = leases.iter().next().unwrap().node().to_owned();
        Told::released(Some(node), leases.release().await)
    };
    acquire_of_the_only_lease: async |fixture: &FaultFixture| known_with(fixture, 1).await, async |only| {
        only.acquire().await.map_or(Told::Nothing, Told::Holds)
    };
    participants_of_a_semaphore: nearly_full, async |(semaphore, held)| {
        if let Ok(participants) = semaphore.participants().await {
            let nodes: Vec<_> = participants.iter().map(|one| one.node.as_str()).collect();
            assert!(held.iter().all(|lease| nodes.contains(&lease.node())), "{nodes:?}");
        }
        Told::Nothing
    };
    attempt_revoke: theirs, async |(revoker, lease)| {
        match revoker.attempt_revoke(lease.node()).await {
            Ok(there) => {
                assert!(there, "it is there");
                // Written: so the holder sees it.
                lease.revocation_requested().await;
            }
            Err(error) => match error.kind() {
                ErrorKind::Unavailable | ErrorKind::OutcomeUnknown | ErrorKind::Closed => {}
                _ => panic!("{error:?}"),
            },
        }
        Told::Nothing
    };
    /// The rival asks, after we began to listen.
    revocation_requested: async |fixture: &FaultFixture| {
        let lease = fixture.semaphore(1).acquire().await.unwrap();
        (lease, Revoker::new(&fixture.rival))
    }, async |(lease, revoker)| {
        let listening = async {
            tokio::select! {
                biased;
                loss = lease.lost() => Some(loss),
                () = lease.revocation_requested() => None,
            }
        };
        // The node may have been deleted with its session.
        let (lost, _) = tokio::join!(listening, revoker.attempt_revoke(lease.node()));
        match lost {
            None => Told::Leases(vec![lease]),
            Some(loss) => {
                assert_eq!(lease.loss(), Some(loss));
                Told::Nothing
            }
        }
    };
}
