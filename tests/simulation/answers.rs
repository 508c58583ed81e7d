//! The answers of the library to a task: whether something explains each error.

use std::time::Duration;

use tokio::time::Instant;
use zookeeper_recipes::{Attempt, Error, ErrorKind, Loss};

use crate::judge::{Judge, State};
use crate::simulated_task::Failed;

/// How long a trouble that is over, or a deletion, still explains an error.
const AFTERMATH: Duration = Duration::from_secs(5);

/// How early the clock of a process ends a wait of two seconds, which is the longest.
const DRIFT: Duration = Duration::from_millis(70);

/// A call that a task awaits, or has awaited and now holds by.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) process: String,
    pub(crate) path: String,
    pub(crate) since: Instant,
    pub(crate) patience: Patience,
    /// Whether it is for several locks one after the other, as a semaphore's mutex and its leases.
    pub(crate) several: bool,
}

/// How long a call may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    Try,
    Within(Duration),
    Forever,
    /// It writes data, and no lock.
    Write,
}

/// The error type of a call.
pub(crate) trait Cause {
    /// The library's own error. `None` if the body returned an error.
    fn error(&self) -> Option<&Error>;
}

impl Cause for Error {
    fn error(&self) -> Option<&Error> {
        Some(self)
    }
}

impl Cause for Failed {
    fn error(&self) -> Option<&Error> {
        match self {
            Self::Body => None,
            Self::Lock(error) => Some(error),
        }
    }
}

/// The outcome of a try: `None` if the lock is busy.
pub(crate) fn acquired<T, E>(tried: Result<Attempt<T>, E>) -> Result<Option<T>, E> {
    tried.map(|attempt| match attempt {
        Attempt::Acquired(acquired) => Some(acquired),
        Attempt::Busy => None,
    })
}

impl State {
    /// Whether something was wrong since then, or shortly before.
    fn troubled(&self, since: Instant) -> bool {
        let (now, _, changed) = self.wrong;
        now > 0 || changed.is_some_and(|changed| changed + AFTERMATH >= since)
    }

    /// Whether an operator deleted a node below the path since then, or shortly before.
    fn operated(&self, path: &str, since: Instant) -> bool {
        let below = self.deleted.range(format!("{path}/")..format!("{path}0"));
        let mut times = below.filter_map(|(_, gone)| *gone);
        times.any(|gone| gone + AFTERMATH >= since)
    }

    /// Whether an error is one that the library may return. All retry policies are without end.
    fn explains(&self, error: &Error, ask: &Ask) -> bool {
        let troubled = self.troubled(ask.since);
        match (error.kind(), error.loss()) {
            (ErrorKind::Lost, Some(Loss::NodeDeleted)) => {
                troubled || self.operated(&ask.path, ask.since)
            }
            (ErrorKind::Lost, Some(Loss::Closed) | None) => false,
            (ErrorKind::Lost, Some(_)) => troubled,
            (ErrorKind::Unavailable, _) => match ask.patience {
                // Nothing comes in so little time.
                Patience::Within(limit) if limit < Duration::from_millis(500) => true,
                // The last of several may have had no time left.
                Patience::Within(limit) => {
                    (troubled || ask.several) && ask.since.elapsed() + DRIFT >= limit
                }
                // The connection timeout of a process.
                Patience::Try => troubled && ask.since.elapsed() >= Duration::from_secs(60),
                Patience::Forever | Patience::Write => false,
            },
            // A job that runs once writes its record.
            (ErrorKind::OutcomeUnknown, _) => {
                troubled && (ask.patience == Patience::Write || ask.path.contains("/runs/"))
            }
            (ErrorKind::NotFound | ErrorKind::AlreadyExists, _) => ask.patience == Patience::Write,
            _ => false,
        }
    }
}

impl Judge {
    /// A task calls the library.
    pub(crate) fn asks(&self, task: &str, ask: Ask) {
        self.state().asks.insert(task.to_owned(), ask);
    }

    /// The call of a task failed, or a later call about what it got by it.
    pub(crate) fn failed(&self, task: &str, error: &Error, patience: Option<Patience>) {
        let mut state = self.state();
        let Some(ask) = state.asks.get(task) else { return };
        let patience = patience.unwrap_or(ask.patience);
        let ask = Ask { patience, ..ask.clone() };
        if !state.explains(error, &ask) {
            let since = ask.since.elapsed();
            let failure = format!("error: {task} at {} after {since:?}: {error:?}", ask.path);
            state.counts.answers += 1;
            state.fails(failure);
        }
    }

    /// The task has nothing more of its call.
    pub(crate) fn idles(&self, task: &str) {
        self.state().asks.remove(task);
    }
}
