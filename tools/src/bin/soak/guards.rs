//! The locks of the crate by what they have in common, for a worker that takes them all the same way.

use std::future::Future;
use std::time::Duration;

use zookeeper_recipes::{
    AcquireError, Fenced, InterProcessMultiLock, InterProcessMutex, InterProcessSemaphore,
    InterProcessSemaphoreMutex, Lease, LockGuard, MultiGuard, MutexGuard, ReadGuard, ReadLock,
    WithError, WriteGuard, WriteLock,
};

use crate::log::{Counter, Node};
use crate::settings::LOCKS;

pub(crate) trait Lock {
    type Guard: Guard;

    async fn acquire(&self) -> Result<Self::Guard, AcquireError>;
    async fn acquire_timeout(&self, limit: Duration) -> Result<Option<Self::Guard>, AcquireError>;
    async fn try_acquire(&self) -> Result<Option<Self::Guard>, AcquireError>;
    async fn with<T>(&self, body: impl AsyncFnOnce(&Self::Guard) -> T) -> Result<T, WithError>;
}

pub(crate) trait Guard: Send + 'static {
    /// That of the token first.
    fn nodes(&self) -> Vec<Node>;
    fn is_held(&self) -> bool;
    fn why(&self) -> String;
    fn lost(&self) -> impl Future<Output = ()>;
    /// None if it has no node of its own that a write could be checked against.
    fn fenced(&self) -> Option<Fenced>;
    /// What came of it. The release has begun when this returns.
    fn release(self) -> impl Future<Output = String>;

    /// Whether its token, or its node, compares with those of all others who write there.
    fn counts_in(&self, _: Counter) -> bool {
        !LOCKS[1..].contains(&&*self.nodes()[0].lock)
    }
}

macro_rules! lock {
    ($Lock:ident, $Guard:ident) => {
        impl Lock for $Lock {
            type Guard = $Guard;

            async fn acquire(&self) -> Result<$Guard, AcquireError> {
                $Lock::acquire(self).await
            }

            async fn acquire_timeout(
                &self,
                limit: Duration,
            ) -> Result<Option<$Guard>, AcquireError> {
                $Lock::acquire_timeout(self, limit).await
            }

            async fn try_acquire(&self) -> Result<Option<$Guard>, AcquireError> {
                $Lock::try_acquire(self).await
            }

            async fn with<T>(&self, body: impl AsyncFnOnce(&$Guard) -> T) -> Result<T, WithError> {
                $Lock::with(self, body).await
            }
        }
    };
}

macro_rules! guard {
    ($Guard:ident) => {
        impl Guard for $Guard {
            fn nodes(&self) -> Vec<Node> {
                let token = self.fencing_token().value();
                let (lock, path) = (self.path().to_owned(), Some(self.node().to_owned()));
                vec![Node { lock, token, path }]
            }

            fn is_held(&self) -> bool {
                $Guard::is_held(self)
            }

            fn why(&self) -> String {
                self.loss().map_or_else(String::new, |loss| format!("{loss:?}"))
            }

            async fn lost(&self) {
                $Guard::lost(self).await;
            }

            fn fenced(&self) -> Option<Fenced> {
                Some($Guard::fenced(self))
            }

            fn release(self) -> impl Future<Output = String> {
                outcome($Guard::release(self))
            }
        }
    };
}

lock!(InterProcessMutex, MutexGuard);
lock!(ReadLock, ReadGuard);
lock!(WriteLock, WriteGuard);
lock!(InterProcessSemaphore, Lease);
lock!(InterProcessSemaphoreMutex, MutexGuard);
lock!(InterProcessMultiLock, MultiGuard);
guard!(MutexGuard);
guard!(ReadGuard);
guard!(WriteGuard);
guard!(Lease);

/// It has no token and tells no nodes. Those who hold the first of all locks compare that one's token.
impl Guard for MultiGuard {
    fn nodes(&self) -> Vec<Node> {
        let node = |member: &dyn LockGuard| {
            let token = member.fencing_token().map_or(0, |token| token.value());
            Node { lock: member.path().to_owned(), token, path: None }
        };
        self.members().iter().map(|member| node(&**member)).collect()
    }

    fn is_held(&self) -> bool {
        Self::is_held(self)
    }

    fn why(&self) -> String {
        self.loss().map_or_else(String::new, |loss| loss.to_string())
    }

    async fn lost(&self) {
        Self::lost(self).await;
    }

    fn fenced(&self) -> Option<Fenced> {
        None
    }

    fn release(self) -> impl Future<Output = String> {
        outcome(Self::release(self))
    }

    fn counts_in(&self, counter: Counter) -> bool {
        counter == Counter::Store && self.nodes()[0].lock == LOCKS[0]
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
