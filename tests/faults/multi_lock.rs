//! A multi-lock under faults. Its first member is the lock that is looked at after each case; the second is beside it,
//! and is what fails.

use std::sync::Arc;

use zookeeper_recipes::{
    InterProcessLock, InterProcessMultiLock, InterProcessMutex, LockGuard, MultiGuard,
};

use crate::product::{SOON, Told, products};
use crate::stage::Stage;

/// With both lock paths in place.
async fn warm(stage: &Stage) -> InterProcessMultiLock {
    let both = both(stage);
    both.acquire().await.unwrap().release().await.unwrap();
    both
}

fn both(stage: &Stage) -> InterProcessMultiLock {
    let (first, second) = (stage.mutex(), format!("{}-second", stage.mutex().path()));
    let second = InterProcessMutex::new(&stage.curator, &second).unwrap();
    let members: [Arc<dyn InterProcessLock>; 2] = [Arc::new(first), Arc::new(second)];
    InterProcessMultiLock::new(members).unwrap()
}

async fn held(stage: &Stage) -> MultiGuard {
    warm(stage).await.acquire().await.unwrap()
}

/// The second member is held by another guard of ours.
async fn half_busy(stage: &Stage) -> (InterProcessMultiLock, Box<dyn LockGuard>) {
    let both = warm(stage).await;
    let holder = both.members()[1].acquire().await.unwrap();
    (both, holder)
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
