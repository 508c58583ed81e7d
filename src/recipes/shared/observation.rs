//! [`Observation`]: the reports of a task that follows something, as its handles see them.

use std::task::{Context, Poll, ready};

use futures_util::future::BoxFuture;
use tokio::sync::watch;

use super::waiting::Waiting;
use crate::error::Error;
use crate::lock_path::LockPath;
use crate::session::Session;
use crate::session::follower::EachSession;

/// The last report of the task.
#[derive(Clone, Debug)]
pub(crate) enum Observed<T> {
    Nothing,
    Is(T),
    /// No task follows any longer.
    Ended(Error),
}

/// The reports of a task, the latest of which is kept.
pub(crate) struct Observation<T> {
    observed: watch::Receiver<Observed<T>>,
    waiting: Waiting<watch::Receiver<Observed<T>>, Result<T, Error>>,
}

impl<T: Clone + Send + Sync + 'static> Observation<T> {
    /// Returns the sender for the task, which ends when no handle is left.
    pub(crate) fn new() -> (watch::Sender<Observed<T>>, Self) {
        let (sender, observed) = watch::channel(Observed::Nothing);
        (sender, Self { observed, waiting: Waiting::new() })
    }

    /// The last report; `None` before the first one and after the end.
    pub(crate) fn last(&self) -> Option<T> {
        match &*self.observed.borrow() {
            Observed::Is(last) => Some(last.clone()),
            Observed::Nothing | Observed::Ended(_) => None,
        }
    }

    /// Waits for the next report.
    pub(crate) async fn changed(&mut self) -> Result<T, Error> {
        self.waiting.forget();
        next(&mut self.observed).await
    }

    /// Polls for the next report, for a stream. `None` after the end.
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<T>> {
        let Self { observed, waiting } = self;
        let report = ready!(waiting.poll(observed, context, |mut observed| async move {
            let report = next(&mut observed).await;
            (observed, report)
        }));
        Poll::Ready(report.ok())
    }
}

async fn next<T: Clone + Send + Sync>(
    observed: &mut watch::Receiver<Observed<T>>,
) -> Result<T, Error> {
    loop {
        // The end is reported each time.
        if let Observed::Ended(error) = &*observed.borrow() {
            return Err(error.clone());
        }
        if observed.changed().await.is_err() {
            return Err(Error::closed());
        }
        if let Observed::Is(report) = &*observed.borrow_and_update() {
            return Ok(report.clone());
        }
    }
}

/// Follows something in one session after another, until no handle is left, no further session will be opened, or the servers refuse.
/// `follow` follows it in one session until the servers refuse. The error is reported.
pub(crate) async fn observe<T, F>(
    observed: watch::Sender<Observed<T>>,
    mut sessions: EachSession,
    path: &LockPath,
    mut task: F,
    follow: impl for<'a> Fn(&'a mut F, &'a Session) -> BoxFuture<'a, Error> + Send + Sync,
) where
    T: Send + Sync,
    F: Send,
{
    let ended = async {
        loop {
            let session = match sessions.next().await {
                Ok(session) => session,
                Err(error) => return error.while_doing(path).at(path),
            };
            if let Some(error) = sessions.while_it_lasts(follow(&mut task, &session)).await {
                return error;
            }
        }
    };
    tokio::select! {
        biased;
        () = observed.closed() => {}
        error = ended => {
            observed.send_replace(Observed::Ended(error));
        }
    }
}

/// The clone continues from the last report that the original has seen.
impl<T> Clone for Observation<T>
where
    T: Clone + Send + Sync + 'static,
{
    fn clone(&self) -> Self {
        Self { observed: self.observed.clone(), waiting: Waiting::new() }
    }
}

/// The newest state that an observer has reported, by a key that grows from one state to the next.
#[derive(Debug)]
pub(crate) struct Newest<K> {
    key: Option<K>,
    /// The number of reads in a row that found an older state.
    older: u32,
}

/// After this many such reads, each a sixth of a session timeout after the last, an older state is believed.
pub(crate) const OLDER_READS: u32 = 6;

impl<K: PartialOrd + Copy> Newest<K> {
    pub(crate) fn new() -> Self {
        Self { key: None, older: 0 }
    }

    /// A new session has begun.
    pub(crate) fn begin_session(&mut self) {
        self.older = 0;
    }

    /// Returns true if a state is to be reported now. A state without a key is neither older nor newer.
    pub(crate) fn admits(&mut self, key: Option<K>) -> bool {
        let key = key.or(self.key);
        if key < self.key && self.older < OLDER_READS {
            self.older += 1;
            return false;
        }
        *self = Self { key, older: 0 };
        true
    }
}
