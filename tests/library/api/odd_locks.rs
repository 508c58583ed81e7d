//! Locks that note what is asked of them, and that behave in odd ways if a test wants it.

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zookeeper_recipes::{
    AcquireError, BoxFuture, FencingToken, InterProcessLock, InterProcessMultiLock, LocalLock,
    LockGuard, Loss, ReleaseError, Released,
};

type Acquiring<'a, T> = BoxFuture<'a, Result<T, AcquireError>>;
type Log = Arc<Mutex<Vec<String>>>;

/// Notes whatever is asked of a lock, and how long it may take.
#[derive(Clone, Debug)]
pub(crate) struct Noted {
    lock: LocalLock,
    log: Log,
    limits: Arc<Mutex<Vec<Duration>>>,
    /// Before it is given.
    pub(crate) takes: Duration,
    /// A lease that has ended before any timer fired: who looks at the clock knows, who waits does not yet.
    pub(crate) loss: Option<Loss>,
    /// Its release is never answered.
    pub(crate) is_silent: bool,
}

#[derive(Debug)]
struct NotedGuard {
    guard: Option<Box<dyn LockGuard>>,
    of: Noted,
}

impl Noted {
    fn note(&self, what: &str) {
        self.log.lock().unwrap().push(format!("{what} {}", self.lock.path()));
    }

    fn guard(&self, guard: impl LockGuard + 'static) -> Box<dyn LockGuard> {
        Box::new(NotedGuard { guard: Some(Box::new(guard)), of: self.clone() })
    }
}

impl InterProcessLock for Noted {
    fn path(&self) -> &str {
        self.lock.path()
    }

    fn acquire(&self) -> Acquiring<'_, Box<dyn LockGuard>> {
        Box::pin(async {
            self.note("acquire");
            Ok(self.guard(self.lock.acquire().await?))
        })
    }

    fn acquire_timeout(&self, limit: Duration) -> Acquiring<'_, Option<Box<dyn LockGuard>>> {
        Box::pin(async move {
            self.note("acquire");
            self.limits.lock().unwrap().push(limit);
            tokio::time::sleep(self.takes).await;
            Ok(self.lock.acquire_timeout(limit).await?.map(|guard| self.guard(guard)))
        })
    }

    fn try_acquire(&self) -> Acquiring<'_, Option<Box<dyn LockGuard>>> {
        Box::pin(async {
            self.note("acquire");
            Ok(self.lock.try_acquire().await?.map(|guard| self.guard(guard)))
        })
    }
}

impl LockGuard for NotedGuard {
    fn path(&self) -> &str {
        self.guard.as_ref().unwrap().path()
    }

    fn loss(&self) -> Option<Loss> {
        self.of.loss.or_else(|| self.guard.as_ref().unwrap().loss())
    }

    fn lost(&self) -> BoxFuture<'static, Loss> {
        self.guard.as_ref().unwrap().lost()
    }

    fn fencing_token(&self) -> Option<FencingToken> {
        self.guard.as_ref().unwrap().fencing_token()
    }

    fn release(mut self: Box<Self>) -> BoxFuture<'static, Result<Released, ReleaseError>> {
        Box::pin(async move {
            let guard = self.guard.take().unwrap();
            self.of.note("release");
            tokio::task::yield_now().await;
            if self.of.is_silent {
                pending::<()>().await;
            }
            guard.release().await
        })
    }
}

impl Drop for NotedGuard {
    fn drop(&mut self) {
        if self.guard.take().is_some() {
            self.of.note("drop");
        }
    }
}

/// Locks at `/a`, `/b` and so on, and what was asked of them.
pub(crate) struct Members {
    pub(crate) locks: Vec<LocalLock>,
    pub(crate) limits: Arc<Mutex<Vec<Duration>>>,
    log: Log,
    pub(crate) multi: InterProcessMultiLock,
}

impl Members {
    pub(crate) fn new(count: usize) -> Self {
        Self::changed(count, |_| {})
    }

    /// With members that are `odd` in some way.
    pub(crate) fn changed(count: usize, odd: impl Fn(&mut Noted)) -> Self {
        let locks: Vec<_> = ('a'..).take(count).map(|c| LocalLock::new(&format!("/{c}"))).collect();
        let (log, limits) = (Log::default(), Arc::default());
        let noted = |lock: &LocalLock| -> Arc<dyn InterProcessLock> {
            let mut noted = Noted {
                lock: lock.clone(),
                log: log.clone(),
                limits: Arc::clone(&limits),
                takes: Duration::ZERO,
                loss: None,
                is_silent: false,
            };
            odd(&mut noted);
            Arc::new(noted)
        };
        let multi = InterProcessMultiLock::new(locks.iter().map(noted)).unwrap();
        Self { locks, limits, log, multi }
    }

    /// What was asked since the last look.
    pub(crate) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.log.lock().unwrap())
    }

    pub(crate) fn held(&self) -> Vec<bool> {
        self.locks.iter().map(|lock| lock.holder().is_some()).collect()
    }
}
