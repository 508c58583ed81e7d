//! The mutex, its guard and fenced writes under faults.

use tokio::task::JoinHandle;
use zookeeper_recipes::interop::Owner;
use zookeeper_recipes::{Error, ErrorKind, Guard, InterProcessMutex};

use crate::product::{SOON, Told, meanwhile, products};
use crate::support::fixture::FaultFixture;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// As Curator's, whichever of the two comes first.
fn told(outcome: Result<Guard, Error>) -> Told {
    outcome.map_or(Told::Nothing, Told::Holds)
}

/// Handed over by one of ours.
async fn next(mutex: InterProcessMutex) -> Told {
    mutex.acquire().await.map_or(Told::Nothing, Told::Next)
}

async fn acquire(mutex: InterProcessMutex) -> Told {
    told(mutex.acquire().await)
}

/// With the lock path in place.
async fn warm(fixture: &FaultFixture) -> InterProcessMutex {
    fixture.rival_guard().await.release().await.unwrap();
    fixture.mutex()
}

/// Of a path that was used before: a create is all it takes.
async fn known(fixture: &FaultFixture) -> InterProcessMutex {
    fixture.is_known().await;
    fixture.mutex()
}

/// With one of our own before us.
async fn behind_ours(fixture: &FaultFixture) -> (InterProcessMutex, Guard) {
    let mutex = known(fixture).await;
    (mutex, held(fixture).await)
}

async fn busy(fixture: &FaultFixture) -> (InterProcessMutex, Guard) {
    (fixture.mutex(), fixture.rival_guard().await)
}

/// With a holder and a waiter of another client.
async fn queued(fixture: &FaultFixture) -> (InterProcessMutex, Guard, JoinHandle<Guard>) {
    let (mutex, holder) = busy(fixture).await;
    (mutex, holder, fixture.rival_waits().await)
}

/// A body that began had a hold.
fn ran(ran: Result<bool, Error>) -> Told {
    assert!(ran.unwrap_or(true), "the body began without a hold");
    Told::Nothing
}

async fn held(fixture: &FaultFixture) -> Guard {
    fixture.mutex().acquire().await.unwrap()
}

products! { product_twice:
    acquire_where_the_path_is_missing: async |fixture| fixture.mutex(), acquire;
    acquire_where_the_lock_is_free: warm, acquire;
    acquire_behind_a_holder: busy, async |(mutex, holder)| {
        meanwhile(acquire(mutex), async || holder.release().await.unwrap()).await
    };
    acquire_again: known, acquire;
    acquire_behind_one_of_ours: behind_ours, async |(mutex, holder)| {
        meanwhile(next(mutex), async || drop(holder)).await
    };
    release: held, Told::release;
}

products! { product:
    /// A waiter in the middle of our own gives up: the waiter behind it is served all the same.
    acquire_behind_one_that_gives_up: behind_ours, async |(mutex, holder)| {
        let quitter = mutex.acquire_timeout(SOON);
        let release = async {
            tokio::time::sleep(2 * SOON).await;
            drop(holder);
        };
        let (gave_up, told, ()) = tokio::join!(quitter, next(mutex.clone()), release);
        drop(gave_up);
        told
    };
    acquire_behind_a_holder_and_a_waiter: queued, async |(mutex, holder, second)| {
        let release = async || {
            holder.release().await.unwrap();
            drop(second.await.unwrap());
        };
        meanwhile(acquire(mutex), release).await
    };
    acquire_timeout: warm, async |mutex| told(mutex.acquire_timeout(SOON).await);
    acquire_timeout_behind_a_holder: busy, async |(mutex, _holder)| {
        Told::busy(mutex.acquire_timeout(SOON).await)
    };
    try_acquire: warm, async |mutex| told(mutex.try_acquire().await);
    try_acquire_again: known, async |mutex| told(mutex.try_acquire().await);
    try_acquire_behind_a_holder: busy, async |(mutex, _holder)| {
        Told::busy(mutex.try_acquire().await)
    };
    release_timeout: held, async |guard| {
        let node = guard.node().to_owned();
        Told::released(Some(node), guard.release_timeout(SOON).await)
    };
    with: warm, async |mutex| ran(mutex.with(async |hold| hold.is_held()).await);
    try_run: warm, async |mutex| ran(mutex.try_run(async |hold| Ok(hold.is_held())).await);
    run_timeout: warm, async |mutex| ran(mutex.run_timeout(SOON, async |hold| Ok(hold.is_held())).await);
    run_of_a_body_that_fails: warm, async |mutex| {
        let ran = mutex.run(async |_| Err::<(), BoxError>("its own".into())).await;
        let error = ran.unwrap_err();
        assert!(error.is::<Error>() || error.to_string() == "its own", "{error:?}");
        Told::Nothing
    };
    an_owner_that_acquires: warm, async |mutex| {
        let nested = async {
            let outer = mutex.acquire().await?;
            let inner = mutex.acquire().await?;
            assert_eq!(outer.node(), inner.node());
            drop(outer);
            Ok(inner)
        };
        told(Owner::new().scope(nested).await)
    };
    participants: busy, async |(mutex, holder)| Told::listed(mutex.participants().await, holder.node());
}

/// Told: the data after it, if that is known.
fn wrote(
    outcome: Result<(), Error>,
    before: Option<&'static [u8]>,
    after: Option<&'static [u8]>,
) -> Told {
    match outcome {
        Ok(()) => Told::Data(after),
        Err(error) => match error.kind() {
            ErrorKind::Lost => Told::Data(before),
            ErrorKind::OutcomeUnknown => Told::Nothing,
            _ => panic!("{error:?}"),
        },
    }
}

/// With a data node there.
async fn held_with_data(fixture: &FaultFixture) -> (Guard, String) {
    let (guard, path) = (held(fixture).await, fixture.data_path());
    guard.fenced().create(&path, b"before").await.unwrap();
    (guard, path)
}

products! { product:
    fenced_create: async |fixture: &FaultFixture| (held(fixture).await, fixture.data_path()), async |(guard, path)| {
        wrote(guard.fenced().create(&path, b"after").await, None, Some(b"after"))
    };
    fenced_set: held_with_data, async |(guard, path)| {
        wrote(guard.fenced().set(&path, b"after").await, Some(b"before"), Some(b"after"))
    };
    fenced_delete: held_with_data, async |(guard, path)| {
        wrote(guard.fenced().delete(&path).await, Some(b"before"), None)
    };
}
