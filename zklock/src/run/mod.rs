//! `zklock run`: a command that runs while a lock is held.

mod once;
mod slot;

use std::slice;
use std::sync::Arc;

use tokio::time::{Duration, Instant, timeout};
use zookeeper_recipes::session::RetryPolicy;
use zookeeper_recipes::{Curator, Error, ErrorKind, InterProcessMultiLock, Lock, Released};

use crate::arguments::Run;
use crate::connection::{
    FAREWELL, connect, goodbye, is_connected, is_unconfirmed, session_left, warn_of_short_session,
};
use crate::contenders::{Contender, Kind, contenders, held_by};
use crate::exit::{Failure, Outcome};
use crate::mixed;
use crate::nesting;
use crate::settings::Settings;
use crate::signals::Signals;
use crate::supervision::{End, Supervisor, Watched};
use crate::waiting::{self, Messages};

/// The pause between two tries while ZooKeeper does not answer.
const PAUSE: Duration = Duration::from_secs(1);
/// The wait for a lock stops this long before its end, so that by then the place in the queue is given up and the holder read.
const LEAVING: Duration = Duration::from_secs(1);

pub(crate) async fn run(arguments: Run, settings: &Settings) -> Outcome {
    let began = Instant::now();
    let mut signals = Signals::new()?;
    // As with `flock`, a timeout of zero means not to wait.
    let timeout = arguments.timeout.filter(|timeout| !timeout.is_zero());
    let messages = Messages::of_job(settings.verbose, arguments.quiet);
    let connect = connect(settings, timeout);
    let curator = waiting::connected(settings, messages, &mut signals, connect).await??;
    warn_of_short_session(&curator, settings);
    let waits = !arguments.nonblock && (timeout.is_some() || arguments.timeout.is_none());
    // Without a wait, the time limit is for the connecting alone.
    let limit = timeout.filter(|_| waits);
    let end = limit.map(|limit| began + limit);
    let deadline = limit.map(|limit| began + limit - LEAVING.min(limit / 4));
    let policy = if waits { RetryPolicy::forever(PAUSE) } else { RetryPolicy::default() };
    let locking = curator.with_retry(policy);
    let wait = Wait {
        arguments: &arguments,
        settings,
        curator: &curator,
        locking,
        waits,
        messages,
        began,
        deadline,
        end,
    };
    let mut ending = Ending::default();
    let outcome = async {
        arguments.supervision.grace(curator.session_timeout()?)?;
        match (&arguments.once, arguments.slots) {
            (Some(key), _) => wait.run_once(key, &mut signals, &mut ending).await,
            (None, Some(count)) => wait.run_slot(count, &mut signals, &mut ending).await,
            (None, None) => wait.run_locked(&mut signals, &mut ending).await,
        }
    };
    let outcome = outcome.await;
    let farewell = if ending.was_held { FAREWELL } else { FAREWELL.min(left(end)) };
    let paths = arguments.paths.join(", ");
    goodbye(curator, farewell, ending.is_unconfirmed.then_some(&*paths)).await;
    outcome
}

/// The facts that matter for closing the session.
#[derive(Default)]
struct Ending {
    /// True once the lock was held: the time limit for the wait no longer applies.
    was_held: bool,
    /// True if no server has confirmed the release.
    is_unconfirmed: bool,
}

struct Wait<'a> {
    arguments: &'a Run,
    settings: &'a Settings,
    curator: &'a Curator,
    /// The connection for the locks: a run that waits for a lock also waits for ZooKeeper.
    locking: Curator,
    /// True if the run waits for a busy lock.
    waits: bool,
    /// The messages during the wait.
    messages: Messages,
    began: Instant,
    /// The time at which a lock that is still busy is given up.
    deadline: Option<Instant>,
    /// The time at which this process ends if it did not get the lock.
    end: Option<Instant>,
}

impl Wait<'_> {
    async fn run_locked(&self, signals: &mut Signals, ending: &mut Ending) -> Outcome {
        let arguments = self.arguments;
        self.check(signals).await?;
        let locks = arguments.paths.iter().map(|path| self.lock(path));
        let locks = locks.collect::<Result<Vec<_>, _>>()?;
        // Each process takes the locks in the same order: otherwise two processes could wait for each other.
        let lock = InterProcessMultiLock::new(locks)?.sorted_by_path();
        let acquire = async || match self.deadline {
            Some(_) => lock.acquire_timeout(left(self.deadline)).await,
            None if self.waits => lock.acquire().await,
            None => lock.try_acquire().await,
        };
        let acquired = async {
            loop {
                match acquire().await {
                    // The lock of one path was lost while that of another was waited for. Nothing has run yet.
                    Err(error) if error.loss().is_some() && self.waits => {}
                    acquired => return acquired,
                }
            }
        };
        let held = self.wait(&arguments.paths, acquired, signals).await?;
        ending.was_held = true;
        let watched =
            Watched::new(held.iter().map(|guard| guard.view())).since_its_start(self.curator);
        watched.record();
        self.check_recipes(signals).await?;
        let end = self.supervise(&watched, signals).await?;
        match end.failure(watched.loss()) {
            Some(failure) => Err(failure),
            None => finish(end, held.release(), self.curator, signals, ending).await,
        }
    }

    /// Rejects a lock under which this process runs, and for which it would wait.
    async fn check(&self, signals: &mut Signals) -> Result<(), Failure> {
        for path in &self.arguments.paths {
            let waits = |ours: &Contender, all: &[Contender]| self.waits_for(ours, all);
            signals.unless_ended(nesting::check(self.curator, path, waits)).await??;
        }
        Ok(())
    }

    /// Rejects a path that another recipe uses, while this process has its node there.
    async fn check_recipes(&self, signals: &mut Signals) -> Result<(), Failure> {
        for path in &self.arguments.paths {
            let checked = mixed::check(self.curator, path, self.kind());
            signals.unless_ended(checked).await???;
        }
        Ok(())
    }

    /// Returns true if this run waits as long as `holder`, one of `all`, holds the lock.
    fn waits_for(&self, holder: &Contender, all: &[Contender]) -> bool {
        self.waits
            && match (holder.kind, self.arguments.count.or(self.arguments.slots)) {
                (Kind::Lease, Some(count)) => {
                    let held =
                        all.iter().filter(|one| one.kind == Kind::Lease && one.holds).count();
                    held >= usize::try_from(count).unwrap_or(usize::MAX)
                }
                // A reader waits for a writer before it, and that writer waits for `holder`.
                (Kind::Read, _) => {
                    !self.arguments.read || all.iter().any(|one| one.kind == Kind::Write)
                }
                _ => true,
            }
    }

    fn kind(&self) -> Kind {
        match self.arguments {
            Run { count: Some(_), .. } | Run { slots: Some(_), .. } => Kind::Lease,
            Run { read: true, .. } => Kind::Read,
            Run { write: true, .. } => Kind::Write,
            _ => Kind::Mutex,
        }
    }

    fn lock(&self, path: &str) -> Result<Arc<dyn Lock>, Error> {
        let arguments = self.arguments;
        let curator = &self.locking;
        Ok(if let Some(count) = arguments.count {
            curator.semaphore(path, usize::try_from(count).unwrap_or(usize::MAX))?.into()
        } else if arguments.read {
            curator.read_write_lock(path)?.read_half()
        } else if arguments.write {
            curator.read_write_lock(path)?.write_half()
        } else {
            curator.mutex(path)?.into()
        })
    }

    /// Awaits `acquire`, and meanwhile reports the holder of one of `paths`.
    async fn wait<T>(
        &self,
        paths: &[String],
        acquire: impl Future<Output = Result<T, Error>>,
        signals: &mut Signals,
    ) -> Result<T, Failure> {
        let Self { arguments, curator, messages, began, .. } = *self;
        let acquire = waiting::shown(curator, paths, messages, acquire);
        let acquired = signals.unless_ended(acquire).await;
        let acquired =
            acquired.map_err(|failure| waiting::interrupted(failure, began, &paths.join(", ")))?;
        match acquired {
            Ok(held) => Ok(held),
            Err(error) if error.is_busy() => {
                // Of several paths, the one that is busy.
                let busy = paths.iter().find(|path| error.path() == Some(path));
                let paths = busy.map_or(paths, slice::from_ref);
                let held = timeout(FAREWELL.min(left(self.end)), self.held(paths));
                let held = signals.unless_ended(held).await?.ok().flatten();
                let other = held.as_ref();
                let other = other.and_then(|(path, all)| mixed::other(path, all, self.kind()));
                Err(other.unwrap_or_else(|| self.busy(paths, held.map(|(_, all)| held_by(&all)))))
            }
            Err(error) if error.kind() == ErrorKind::Unavailable && self.end.is_some() => {
                let paths = paths.join(", ");
                let within = humantime::format_duration(arguments.timeout.unwrap_or_default());
                let why = format!("no answer of the servers about {paths} within {within}");
                Err(Failure::unavailable(why))
            }
            // Before the command began, so 76 would be wrong.
            Err(error) if error.loss().is_some() => Err(Failure::unavailable(error.to_string())),
            Err(error) => {
                let explained = mixed::explained(curator, error, self.kind());
                Err(signals.unless_ended(explained).await?)
            }
        }
    }

    /// Returns the first path that has a holder, and its contenders. A quiet run does not query them.
    async fn held<'a>(&self, paths: &'a [String]) -> Option<(&'a str, Vec<Contender>)> {
        let is_quiet = self.arguments.quiet;
        for path in paths.iter().filter(|_| !is_quiet) {
            if let Ok(all) = contenders(self.curator, path).await
                && all.iter().any(|contender| contender.holds)
            {
                return Some((path, all));
            }
        }
        None
    }

    async fn supervise(&self, watched: &Watched, signals: &mut Signals) -> Result<End, Failure> {
        let supervision = &self.arguments.supervision;
        let session = self.curator.session_timeout()?;
        let supervisor = Supervisor {
            on_revoke: self.arguments.on_revoke,
            only: true,
            ..Supervisor::new(supervision, self.settings, session)?
        };
        let command = match &self.arguments.line {
            Some(line) => &["/bin/sh".into(), "-c".into(), line.clone()][..],
            None => &self.arguments.command,
        };
        supervisor.run(command, watched, signals).await
    }

    fn busy(&self, paths: &[String], holder: Option<String>) -> Failure {
        let Run { quiet, timeout, conflict_exit_code, .. } = *self.arguments;
        if quiet {
            return Failure::reported(conflict_exit_code);
        }
        let limit = timeout.filter(|_| self.deadline.is_some());
        let after = limit.map(|limit| format!(" after {}", humantime::format_duration(limit)));
        let after = after.unwrap_or_default();
        let holder = holder.map(|holder| format!(": {holder}")).unwrap_or_default();
        // A server has reported that the lock is busy.
        let is_silent = self.deadline.is_some() && !is_connected(self.curator);
        let silence = if is_silent { "; no server answers now" } else { "" };
        let paths = paths.join(", ");
        Failure::busy(conflict_exit_code, format!("{paths} is busy{after}{holder}{silence}"))
    }
}

/// Returns the time that is left until `end`.
fn left(end: Option<Instant>) -> Duration {
    end.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()))
}

/// Waits for an answer of the servers, as long as they may keep the session. `None` after that.
async fn within_session<T>(curator: &Curator, answer: impl Future<Output = T>) -> Option<T> {
    timeout(session_left(curator), answer).await.ok()
}

/// Releases the lock, and reports a failure. A signal ends the wait for the release, not the release: the end of the
/// session may still confirm it.
async fn finish(
    end: End,
    release: impl Future<Output = Result<Released, Error>>,
    curator: &Curator,
    signals: &mut Signals,
    ending: &mut Ending,
) -> Outcome {
    let released = tokio::select! {
        biased;
        released = within_session(curator, release) => released.unwrap_or(Ok(Released::Pending)),
        _ = signals.ending() => {
            ending.is_unconfirmed = true;
            return Ok(end.code);
        }
    };
    match released {
        Err(error) if error.loss().is_some() => end.failure(error.loss()).map_or(Ok(end.code), Err),
        released => {
            ending.is_unconfirmed = is_unconfirmed(released);
            Ok(end.code)
        }
    }
}
