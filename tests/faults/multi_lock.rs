//! A multi-lock under faults. Its first member is the lock that is looked at after each case; the second is beside it,
//! and is what fails.

use zookeeper_recipes::{Guard, Guards, InterProcessMultiLock, InterProcessMutex};

use crate::product::{SOON, Told, products};
use crate::stage::Stage;

/// With both lock paths in place.
async fn warm(stage: &Stage) -> InterProcessMultiLock {
    let both = both(stage);
    both.acquire().await.unwrap().release().await.unwrap();
    both
}

fn both(stage: &Stage) -> InterProcessMultiLock {
    InterProcessMultiLock::new([stage.mutex().into(), second(stage).into()]).unwrap()
}

fn second(stage: &Stage) -> InterProcessMutex {
    stage.curator.mutex(format!("{}-second", stage.path)).unwrap()
}

async fn held(stage: &Stage) -> Guards {
    warm(stage).await.acquire().await.unwrap()
}

/// The second member is held by another guard of ours.
async fn half_busy(stage: &Stage) -> (InterProcessMultiLock, Guard) {
    let both = warm(stage).await;
    (both, second(stage).acquire().await.unwrap())
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
    release_of_both: held, async |guard| {
        let _ = guard.release().await; // whatever it says, they go
        Told::Nothing
    };
}
