//! The mutex, its guard and fenced writes under faults.

use std::time::Duration;

use tokio::task::JoinHandle;
use zookeeper_recipes::{
    AcquireError, FencedError, InterProcessMutex, MutexGuard, Owner, ReleaseError, Released,
    WithError,
};

use crate::product::{Told, product, product_twice};
use crate::stage::Stage;

const SOON: Duration = Duration::from_millis(500);

/// As Curator's, whichever of the two comes first.
fn told(acquired: Result<Option<MutexGuard>, AcquireError>) -> Told {
    acquired.ok().flatten().map_or(Told::Nothing, Told::Holds)
}

/// Handed over by one of ours.
async fn next(mutex: InterProcessMutex) -> Told {
    mutex.acquire().await.map_or(Told::Nothing, Told::Next)
}

async fn acquire(mutex: InterProcessMutex) -> Told {
    told(mutex.acquire().await.map(Some))
}

/// With the lock path in place.
async fn warm(stage: &Stage) -> InterProcessMutex {
    stage.rival_guard().await.release().await.unwrap();
    stage.mutex()
}

/// Of a path that was used before: a create is all it takes.
async fn known(stage: &Stage) -> InterProcessMutex {
    for _ in 0..2 {
        held(stage).await.release().await.unwrap();
    }
    stage.mutex()
}

/// With one of our own before us.
async fn behind_ours(stage: &Stage) -> (InterProcessMutex, MutexGuard) {
    let mutex = known(stage).await;
    (mutex, held(stage).await)
}

async fn busy(stage: &Stage) -> (InterProcessMutex, MutexGuard) {
    (stage.mutex(), stage.rival_guard().await)
}

/// With a holder and a waiter of somebody else's.
async fn queued(stage: &Stage) -> (InterProcessMutex, MutexGuard, JoinHandle<MutexGuard>) {
    let (mutex, holder) = busy(stage).await;
    (mutex, holder, stage.rival_waits().await)
}

async fn held(stage: &Stage) -> MutexGuard {
    stage.mutex().acquire().await.unwrap()
}

#[tokio::test]
async fn acquire_where_the_path_is_missing() {
    product_twice("acquire, path missing", async |stage| stage.mutex(), acquire).await;
}

#[tokio::test]
async fn acquire_where_the_lock_is_free() {
    product_twice("acquire", warm, acquire).await;
}

#[tokio::test]
async fn acquire_behind_a_holder() {
    product_twice("acquire, behind a holder", busy, async |(mutex, holder)| {
        let release = async {
            tokio::time::sleep(SOON).await;
            holder.release().await.unwrap();
        };
        tokio::join!(acquire(mutex), release).0
    })
    .await;
}

#[tokio::test]
async fn acquire_again() {
    product_twice("acquire, path known", known, acquire).await;
}

#[tokio::test]
async fn acquire_behind_one_of_ours() {
    product_twice("acquire, behind one of ours", behind_ours, async |(mutex, holder)| {
        let release = async {
            tokio::time::sleep(SOON).await;
            drop(holder);
        };
        tokio::join!(next(mutex), release).0
    })
    .await;
}

/// Given up while it waits in the middle of our own: who is behind it is served all the same.
#[tokio::test]
async fn acquire_behind_one_that_gives_up() {
    product("acquire, behind one that gives up", behind_ours, async |(mutex, holder)| {
        let quitter = mutex.acquire_timeout(SOON);
        let release = async {
            tokio::time::sleep(2 * SOON).await;
            drop(holder);
        };
        let (gave_up, told, ()) = tokio::join!(quitter, next(mutex.clone()), release);
        drop(gave_up);
        told
    })
    .await;
}

#[tokio::test]
async fn acquire_behind_a_holder_and_a_waiter() {
    product("acquire, third", queued, async |(mutex, holder, second)| {
        let release = async {
            tokio::time::sleep(SOON).await;
            holder.release().await.unwrap();
            drop(second.await.unwrap());
        };
        tokio::join!(acquire(mutex), release).0
    })
    .await;
}

#[tokio::test]
async fn acquire_timeout() {
    product("acquire_timeout", warm, async |mutex| told(mutex.acquire_timeout(SOON).await)).await;
}

#[tokio::test]
async fn acquire_timeout_behind_a_holder() {
    product("acquire_timeout, behind a holder", busy, async |(mutex, _holder)| {
        let told = told(mutex.acquire_timeout(SOON).await);
        assert!(matches!(told, Told::Nothing), "two hold: {told:?}");
        told
    })
    .await;
}

#[tokio::test]
async fn try_acquire() {
    product("try_acquire", warm, async |mutex| told(mutex.try_acquire().await)).await;
}

#[tokio::test]
async fn try_acquire_again() {
    product("try_acquire, path known", known, async |mutex| told(mutex.try_acquire().await)).await;
}

#[tokio::test]
async fn try_acquire_behind_a_holder() {
    product("try_acquire, behind a holder", busy, async |(mutex, _holder)| {
        let told = told(mutex.try_acquire().await);
        assert!(matches!(told, Told::Nothing), "two hold: {told:?}");
        told
    })
    .await;
}

#[tokio::test]
async fn with() {
    product("with", warm, async |mutex| {
        match mutex.with(async |guard| guard.node().to_owned()).await {
            Ok(node) => Told::Deleted(node),
            Err(WithError::Acquire(_) | WithError::Lost { .. }) => Told::Nothing,
            Err(other) => panic!("{other:?}"),
        }
    })
    .await;
}

#[tokio::test]
async fn an_owner_that_acquires() {
    product("Owner::scope", warm, async |mutex| {
        let nested = async {
            let outer = mutex.acquire().await?;
            let inner = mutex.acquire().await?;
            assert_eq!(outer.node(), inner.node());
            drop(outer);
            Ok(Some(inner))
        };
        told(Owner::new().scope(nested).await)
    })
    .await;
}

#[tokio::test]
async fn participants() {
    let ready = async |stage: &Stage| {
        let (mutex, holder) = busy(stage).await;
        stage.heard_of(holder.node()).await;
        (mutex, holder)
    };
    product("participants", ready, async |(mutex, holder)| {
        if let Ok(participants) = mutex.participants().await {
            let paths: Vec<_> = participants.iter().map(|one| one.path.as_str()).collect();
            assert_eq!(paths.first(), Some(&holder.node()));
        }
        Told::Nothing
    })
    .await;
}

#[tokio::test]
async fn release() {
    product_twice("release", held, async |guard| {
        let node = guard.node().to_owned();
        match guard.release().await {
            Ok(Released::Unlocked) => Told::Deleted(node),
            Err(ReleaseError::Lost { .. } | ReleaseError::Unconfirmed { .. }) => Told::Nothing,
            other => panic!("{other:?}"),
        }
    })
    .await;
}

/// Told: the data after it, if that is known.
fn wrote(
    outcome: Result<(), FencedError>,
    before: Option<&'static [u8]>,
    after: Option<&'static [u8]>,
) -> Told {
    match outcome {
        Ok(()) => Told::Data(after),
        Err(FencedError::Lost { .. }) => Told::Data(before),
        Err(FencedError::Unknown { .. }) => Told::Nothing,
        Err(other) => panic!("{other:?}"),
    }
}

/// With a data node there.
async fn held_with_data(stage: &Stage) -> (MutexGuard, String) {
    let (guard, path) = (held(stage).await, stage.data_path());
    guard.fenced().create(&path, b"before").await.unwrap();
    (guard, path)
}

#[tokio::test]
async fn fenced_create() {
    let ready = async |stage: &Stage| (held(stage).await, stage.data_path());
    product("fenced create", ready, async |(guard, path)| {
        wrote(guard.fenced().create(&path, b"after").await, None, Some(b"after"))
    })
    .await;
}

#[tokio::test]
async fn fenced_set() {
    product("fenced set", held_with_data, async |(guard, path)| {
        wrote(guard.fenced().set(&path, b"after").await, Some(b"before"), Some(b"after"))
    })
    .await;
}

#[tokio::test]
async fn fenced_delete() {
    product("fenced delete", held_with_data, async |(guard, path)| {
        wrote(guard.fenced().delete(&path).await, Some(b"before"), None)
    })
    .await;
}
