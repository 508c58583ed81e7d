//! The code of docs/guide/behind-your-own-trait.md, as a user writes it. The page is a copy, which the house test checks.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

use zookeeper_recipes::simulation::Ensemble;
use zookeeper_recipes::{Curator, Error, Guard, GuardControl, Hold, Loss};

/// The locks that the service needs, by name.
trait Locks: Send + Sync {
    /// `None` if another process, or another task, has the lock.
    fn try_lock(&self, name: &str) -> impl Future<Output = Result<Option<Guard>, Error>> + Send;
}

impl Locks for Curator {
    async fn try_lock(&self, name: &str) -> Result<Option<Guard>, Error> {
        match self.mutex_for("/locks", name)?.try_acquire().await {
            Ok(guard) => Ok(Some(guard)),
            Err(error) if error.is_busy() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Locks in memory: no server and no clock.
#[derive(Default)]
struct FakeLocks {
    taken: Mutex<HashMap<String, GuardControl>>,
    last_token: AtomicI64,
}

impl FakeLocks {
    /// Ends a hold, as the end of its session does. The next caller gets the lock.
    fn lose(&self, name: &str) {
        let control = self.taken.lock().unwrap().remove(name);
        control.expect("a lock that was taken").lose(Loss::SessionExpired);
    }
}

impl Locks for FakeLocks {
    async fn try_lock(&self, name: &str) -> Result<Option<Guard>, Error> {
        let mut taken = self.taken.lock().unwrap();
        if taken.get(name).is_some_and(|control| !control.is_released()) {
            return Ok(None);
        }
        let token = self.last_token.fetch_add(1, Ordering::Relaxed) + 1;
        let (guard, control) = Guard::simulated(&format!("/locks/{name}"), token);
        taken.insert(name.to_owned(), control);
        Ok(Some(guard))
    }
}

/// What the service relies on, whichever locks it gets.
async fn keeps_the_contract(locks: &impl Locks) -> Result<(), Error> {
    let first = locks.try_lock("a").await?.expect("a free lock");
    assert!(locks.try_lock("a").await?.is_none(), "one holder at a time");
    assert!(locks.try_lock("b").await?.is_some(), "locks of other names are free");
    let token = first.fencing_token();
    first.release().await?;

    let second = locks.try_lock("a").await?.expect("a released lock");
    assert!(second.fencing_token() > token, "tokens grow");
    Ok(())
}

#[tokio::test]
async fn the_fake_keeps_the_contract() -> Result<(), Error> {
    keeps_the_contract(&FakeLocks::default()).await
}

#[tokio::test(start_paused = true)]
async fn zookeeper_keeps_the_contract() -> Result<(), Error> {
    let ensemble = Ensemble::start(1);
    let curator = Curator::connect(ensemble.connect_string()).await?;
    keeps_the_contract(&curator).await
}

/// The code under test: bills, unless another process does.
async fn bill(locks: &impl Locks, ledger: &Mutex<Vec<i64>>) -> Result<bool, Error> {
    let Some(guard) = locks.try_lock("billing").await? else { return Ok(false) };
    guard.run(async |hold| enter(&hold, ledger)).await?;
    Ok(true)
}

/// A step of it. It takes a hold, so that it cannot be called without the lock.
fn enter(hold: &Hold, ledger: &Mutex<Vec<i64>>) -> Result<(), Error> {
    if hold.is_held() {
        ledger.lock().unwrap().push(hold.fencing_token().value());
    }
    Ok(())
}

#[tokio::test]
async fn it_bills_once() -> Result<(), Error> {
    let locks = FakeLocks::default();
    let ledger = Mutex::default();
    let other = locks.try_lock("billing").await?.expect("the lock");
    assert!(!bill(&locks, &ledger).await?); // another process bills
    locks.lose("billing");
    assert!(bill(&locks, &ledger).await?); // it has lost its lock
    assert!(!other.is_held());
    assert_eq!(*ledger.lock().unwrap(), [2]);
    Ok(())
}

#[test]
fn a_lost_hold_enters_nothing() {
    let (guard, control) = Guard::simulated("/locks/billing", 7);
    let ledger = Mutex::default();
    enter(&guard, &ledger).unwrap();
    control.lose(Loss::LeaseEnded);
    enter(&guard, &ledger).unwrap();
    assert_eq!(*ledger.lock().unwrap(), [7]);
}
