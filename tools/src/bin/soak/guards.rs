//! The locks of the crate by what they have in common, for a worker that takes them all the same way.

use std::future::Future;
use std::time::Duration;

use zookeeper_recipes::{
    Attempt, Error, Fenced, Guard, Guards, Hold, InterProcessMultiLock, InterProcessMutex,
    InterProcessReadWriteLock, InterProcessSemaphore, WriteGuard,
};

use crate::log::{Counter, Node};
use crate::settings::LOCKS;

pub(crate) trait Lock {
    type Guard: Held;
    /// What a body is given.
    type View: Holding;

    async fn acquire(&self) -> Result<Self::Guard, Error>;
    async fn acquire_timeout(&self, limit: Duration) -> Result<Attempt<Self::Guard>, Error>;
    async fn try_acquire(&self) -> Result<Attempt<Self::Guard>, Error>;
    async fn with<T>(&self, body: impl AsyncFnOnce(Self::View) -> T) -> Result<T, Error>;
}

/// What can be asked of a hold.
pub(crate) trait Holding {
    /// That of the token first.
    fn nodes(&self) -> Vec<Node>;
    fn is_held(&self) -> bool;
    fn why(&self) -> String;
    fn lost(&self) -> impl Future<Output = ()>;
    /// None if it has no node of its own that a write could be checked against.
    fn fenced(&self) -> Option<Fenced>;

    /// Whether its token, or its node, compares with those of all others that write there.
    fn counts_in(&self, _: Counter) -> bool {
        !LOCKS[1..].contains(&&*self.nodes()[0].lock)
    }
}

pub(crate) trait Held: Holding + Send + 'static {
    /// What came of it. The release has begun when this returns.
    fn release(self) -> impl Future<Output = String>;
}

/// The readers of a lock, and its writers.
pub(crate) struct Reading<'a>(pub(crate) &'a InterProcessReadWriteLock);
pub(crate) struct Writing<'a>(pub(crate) &'a InterProcessReadWriteLock);

macro_rules! lock {
    ($Lock:ty, $Guard:ty, $View:ty, $lock:ident => $acquire:expr, $timeout:ident, $try:ident, $with:expr) => {
        impl Lock for $Lock {
            type Guard = $Guard;
            type View = $View;

            async fn acquire(&self) -> Result<$Guard, Error> {
                let $lock = self.locks();
                $acquire.await
            }

            async fn acquire_timeout(&self, limit: Duration) -> Result<Attempt<$Guard>, Error> {
                self.locks().$timeout(limit).await
            }

            async fn try_acquire(&self) -> Result<Attempt<$Guard>, Error> {
                self.locks().$try().await
            }

            async fn with<T>(&self, body: impl AsyncFnOnce($View) -> T) -> Result<T, Error> {
                let $lock = self.locks();
                $with.with(|hold| body(hold)).await
            }
        }
    };
}

/// The crate's lock behind it.
trait Locks {
    type Lock;

    fn locks(&self) -> &Self::Lock;
}

macro_rules! itself {
    ($($Lock:ident)+) => {$(
        impl Locks for $Lock {
            type Lock = Self;

            fn locks(&self) -> &Self {
                self
            }
        }
    )+};
}

itself!(InterProcessMutex InterProcessSemaphore InterProcessMultiLock);

impl Locks for Reading<'_> {
    type Lock = InterProcessReadWriteLock;

    fn locks(&self) -> &InterProcessReadWriteLock {
        self.0
    }
}

impl Locks for Writing<'_> {
    type Lock = InterProcessReadWriteLock;

    fn locks(&self) -> &InterProcessReadWriteLock {
        self.0
    }
}

lock!(InterProcessMutex, Guard, Hold, lock => lock.acquire(), acquire_timeout, try_acquire, lock);
lock!(InterProcessSemaphore, Guard, Hold, lock => lock.acquire(), acquire_timeout, try_acquire, lock);
lock!(InterProcessMultiLock, Guards, Vec<Hold>, lock => lock.acquire(), acquire_timeout, try_acquire, lock);
lock!(Reading<'_>, Guard, Hold, lock => lock.read(), read_timeout, try_read, lock.read_half());
lock!(Writing<'_>, WriteGuard, Hold, lock => lock.write(), write_timeout, try_write, lock.write_half());

pub(crate) fn node_of(hold: &Hold) -> Node {
    let (lock, path) = (hold.path().to_owned(), Some(hold.node().to_owned()));
    Node { lock, token: hold.fencing_token().value(), path }
}

macro_rules! holding {
    ($($Hold:ident)+) => {$(
        impl Holding for $Hold {
            fn nodes(&self) -> Vec<Node> {
                vec![node_of(self)]
            }

            fn is_held(&self) -> bool {
                let hold: &Hold = self;
                hold.is_held()
            }

            fn why(&self) -> String {
                self.loss().map_or_else(String::new, |loss| format!("{loss:?}"))
            }

            async fn lost(&self) {
                let hold: &Hold = self;
                hold.lost().await;
            }

            fn fenced(&self) -> Option<Fenced> {
                let hold: &Hold = self;
                Some(hold.fenced())
            }
        }
    )+};
}

holding!(Hold Guard WriteGuard);

impl Held for Guard {
    fn release(self) -> impl Future<Output = String> {
        outcome(Self::release(self))
    }
}

impl Held for WriteGuard {
    fn release(self) -> impl Future<Output = String> {
        outcome(Self::release(self))
    }
}

/// No node of its own checks its writes. Those that hold the first of all locks compare that one's token.
macro_rules! several {
    ($Holds:ty, $holds:ident => $all:expr) => {
        impl Holding for $Holds {
            fn nodes(&self) -> Vec<Node> {
                let $holds = self;
                $all.map(|hold| Node { path: None, ..node_of(hold) }).collect()
            }

            fn is_held(&self) -> bool {
                let $holds = self;
                $all.all(|hold| hold.is_held())
            }

            fn why(&self) -> String {
                let $holds = self;
                $all.filter_map(|hold| Some(format!("{}: {}", hold.path(), hold.loss()?))).collect()
            }

            async fn lost(&self) {
                let $holds = self;
                let lost = $all.map(|hold| Box::pin(hold.lost()));
                futures_util::future::select_all(lost).await;
            }

            fn fenced(&self) -> Option<Fenced> {
                None
            }

            fn counts_in(&self, counter: Counter) -> bool {
                counter == Counter::Store && self.nodes()[0].lock == LOCKS[0]
            }
        }
    };
}

several!(Vec<Hold>, holds => holds.iter());
several!(Guards, guards => guards.iter().map(|guard| -> &Hold { guard }));

impl Held for Guards {
    fn release(self) -> impl Future<Output = String> {
        outcome(Self::release(self))
    }
}

pub(crate) async fn outcome<T: std::fmt::Debug, E: std::fmt::Display>(
    release: impl Future<Output = Result<T, E>>,
) -> String {
    match release.await {
        Ok(released) => format!("{released:?}"),
        Err(error) => error.to_string(),
    }
}

/// The guard, if it was acquired.
pub(crate) fn acquired<G>(attempt: Attempt<G>) -> Option<G> {
    match attempt {
        Attempt::Acquired(guard) => Some(guard),
        Attempt::Busy => None,
    }
}
