//! A multi-lock under faults. Its first member is the lock that is looked at after each case; the second is beside it,
//! and is what fails.

use zookeeper_recipes::{Error, Guard, Guards, InterProcessMultiLock, InterProcessMutex};

use crate::product::{SOON, Told, products};
use crate::support::fixture::FaultFixture;

/// With both lock paths in place.
async fn warm(fixture: &FaultFixture) -> InterProcessMultiLock {
    let both = both(fixture);
    both.acquire().await.unwrap().release().await.unwrap();
    both
}

fn both(fixture: &FaultFixture) -> InterProcessMultiLock {
    InterProcessMultiLock::new([fixture.mutex().into(), second(fixture).into()]).unwrap()
}

fn second(fixture: &FaultFixture) -> InterProcessMutex {
    fixture.curator.mutex(format!("{}-second", fixture.path)).unwrap()
}

async fn held(fixture: &FaultFixture) -> Guards {
    warm(fixture).await.acquire().await.unwrap()
}

/// The second member is held by another guard of ours.
async fn half_busy(fixture: &FaultFixture) -> (InterProcessMultiLock, Guard) {
    let both = warm(fixture).await;
    (both, second(fixture).acquire().await.unwrap())
}

products! { product:
    acquire_of_both: warm, async |both| {
        // Its nodes go with it.
        drop(both.acquire().await);
        Told::Nothing
    };
    acquire_timeout_with_the_second_busy: half_busy, async |(both, _holder)| {
        drop(both.acquire_timeout(SOON).await);
        Told::Nothing
    };
    try_acquire_with_the_second_busy: half_busy, async |(both, _holder)| {
        drop(both.try_acquire().await);
        Told::Nothing
    };
    run_of_both: warm, async |both| {
        let ran = both.run(async |guards| Ok::<_, Error>(guards.iter().all(|guard| guard.is_held()))).await;
        assert!(ran.unwrap_or(true), "the body began without a hold");
        Told::Nothing
    };
    release_of_both: held, async |guard| {
        let _ = guard.release().await; // whatever it says, they go
        Told::Nothing
    };
}
