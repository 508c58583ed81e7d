//! `zklock run`: a command that runs while a lock is held.

mod locks;
mod once;

use std::ffi::OsString;

use futures_util::TryFutureExt;
use tokio::time::{Duration, Instant, sleep_until, timeout};
use zookeeper_recipes::{Attempt, Curator, Error, ErrorKind, Guards};

use crate::arguments::Run;
use crate::connection::{FAREWELL, connect, connect_within, goodbye, is_connected, is_unconfirmed};
use crate::contenders::{check_recipe, contenders, held_by};
use crate::exit::{Failure, Outcome};
use crate::settings::Settings;
use crate::signals::Signals;
use crate::supervision::{End, Supervisor, Watched};
use crate::waiting;

/// How long before its end the wait for a lock stops, so that the place in the queue is given up by then.
const LEAVING: Duration = Duration::from_millis(500);
/// How long before the end of the wait the holder is looked up.
const LOOK: Duration = Duration::from_secs(2);

pub(crate) async fn run(arguments: Run, settings: &Settings) -> Outcome {
    let began = Instant::now();
    let mut signals = Signals::new()?;
    let limit = locks::limit(&arguments);
    let connecting = async {
        match limit {
            Some(limit) => connect_within(settings, limit).await,
            None => connect(settings).await,
        }
    };
    let curator = signals.unless_ended(connecting).await??;
    let end = limit.map(|limit| began + limit);
    // The place in the queue must be given up by the end.
    let deadline = limit.zip(end).map(|(limit, end)| end - LEAVING.min(limit / 4));
    let wait = Wait { arguments: &arguments, settings, curator: &curator, deadline };
    let mut ending = Ending::default();
    let outcome = async {
        arguments.supervision.kill_after(curator.session_timeout()?)?;
        match &arguments.once {
            Some(key) => wait.run_once(key, &mut signals, &mut ending).await,
            None => wait.run_locked(&mut signals, &mut ending).await,
        }
    };
    let outcome = outcome.await;
    let farewell = if ending.was_held { FAREWELL } else { FAREWELL.min(left(end)) };
    let paths = arguments.paths.join(", ");
    goodbye(curator, farewell, ending.is_unconfirmed.then_some(&*paths)).await;
    outcome
}

/// What the end of the session has to know.
#[derive(Default)]
struct Ending {
    /// The time to wait does not bound what comes after it.
    was_held: bool,
    /// No server has confirmed the release.
    is_unconfirmed: bool,
}

struct Wait<'a> {
    arguments: &'a Run,
    settings: &'a Settings,
    curator: &'a Curator,
    /// When a lock that is still busy is given up.
    deadline: Option<Instant>,
}

impl Wait<'_> {
    async fn run_locked(&self, signals: &mut Signals, ending: &mut Ending) -> Outcome {
        let arguments = self.arguments;
        let lock = locks::lock(&locks::patient(self.curator, arguments), arguments)?;
        let limit = if locks::waits(arguments) {
            self.deadline.map(|deadline| left(Some(deadline)))
        } else {
            Some(Duration::ZERO)
        };
        let acquire = locks::acquire(&lock, limit).map_err(Some);
        let held = self.wait(&arguments.paths, acquire, signals).await?;
        ending.was_held = true;
        for path in &arguments.paths {
            let checked = check_recipe(self.curator, path, arguments.count.is_some());
            signals.unless_ended(checked).await???;
        }
        let watched = Watched::new(held.iter().map(|guard| guard.view()));
        let end = self.supervise(&watched, signals).await?;
        match end.failure(watched.loss()) {
            Some(failure) => Err(failure),
            None => finish(end, held, signals, ending).await,
        }
    }

    /// Awaits `acquire`, and reports meanwhile who holds one of `paths`. Its error is `None` where the time is up and no server said
    /// whether it is held.
    async fn wait<T>(
        &self,
        paths: &[String],
        acquire: impl Future<Output = Result<Attempt<T>, Option<Error>>>,
        signals: &mut Signals,
    ) -> Result<T, Failure> {
        let Self { arguments, settings, curator, .. } = *self;
        let shows = !arguments.quiet && waiting::shows(settings.verbose);
        let acquire = waiting::shown(curator, paths, shows, acquire);
        let (acquired, holder) = signals.unless_ended(self.beside(paths, acquire)).await?;
        let is_timeout = |error: &Error| error.kind() == ErrorKind::Unavailable;
        match acquired {
            Ok(Attempt::Acquired(held)) => Ok(held),
            // A server has said that it is busy; perhaps not who has it.
            Ok(Attempt::Busy) if self.deadline.is_some() => {
                let silence = if is_connected(curator) { "" } else { "; no server answers now" };
                Err(busy(arguments, paths, &format!("{}{silence}", holder.unwrap_or_default())))
            }
            Ok(Attempt::Busy) => {
                let holder = timeout(FAREWELL, holder_of(curator, paths));
                let holder = signals.unless_ended(holder).await?.ok().flatten();
                Err(busy(arguments, paths, &holder.unwrap_or_default()))
            }
            Err(Some(error)) if self.deadline.is_none() || !is_timeout(&error) => Err(error.into()),
            Err(_) => {
                let paths = paths.join(", ");
                let within = humantime::format_duration(arguments.timeout.unwrap_or_default());
                let why = format!("no answer of the servers about {paths} within {within}");
                Err(Failure::unavailable(why))
            }
        }
    }

    /// Awaits `acquire`, and looks for the holder shortly before the time is up.
    async fn beside<T>(
        &self,
        paths: &[String],
        acquire: impl Future<Output = T>,
    ) -> (T, Option<String>) {
        let look = async {
            until(self.deadline.map(|deadline| deadline - LOOK.min(left(Some(deadline))))).await;
            holder_of(self.curator, paths).await
        };
        tokio::pin!(acquire, look);
        let (mut holder, mut has_looked) = (None, false);
        loop {
            tokio::select! {
                biased;
                acquired = &mut acquire => return (acquired, holder),
                found = &mut look, if !has_looked => (holder, has_looked) = (found, true),
            }
        }
    }

    async fn supervise(&self, watched: &Watched, signals: &mut Signals) -> Result<End, Failure> {
        let supervision = &self.arguments.supervision;
        let supervisor = Supervisor {
            on_lost: supervision.on_lost,
            kill_after: supervision.kill_after(self.curator.session_timeout()?)?,
            on_revoke: self.arguments.on_revoke,
            only: true,
            verbose: self.settings.verbose,
        };
        supervisor.run(&command(self.arguments), watched, signals).await
    }
}

async fn until(end: Option<Instant>) {
    match end {
        Some(end) => sleep_until(end).await,
        None => std::future::pending().await,
    }
}

/// What is left until then.
fn left(end: Option<Instant>) -> Duration {
    end.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()))
}

/// The command, or the line for a shell.
fn command(arguments: &Run) -> Vec<OsString> {
    match &arguments.line {
        Some(line) => vec!["/bin/sh".into(), "-c".into(), line.clone()],
        None => arguments.command.clone(),
    }
}

fn busy(arguments: &Run, paths: &[String], holder: &str) -> Failure {
    if arguments.quiet {
        return Failure::told(arguments.conflict_exit_code);
    }
    let after =
        arguments.timeout.map(|limit| format!(" after {}", humantime::format_duration(limit)));
    let (paths, after) = (paths.join(", "), after.unwrap_or_default());
    Failure::new(arguments.conflict_exit_code, format!("{paths} is busy{after}{holder}"))
}

/// The holder of the first of them that has one.
async fn holder_of(curator: &Curator, paths: &[String]) -> Option<String> {
    for path in paths {
        if let Ok(contenders) = contenders(curator, path).await
            && contenders.iter().any(|contender| contender.participant.holds)
        {
            return Some(format!(": {}", held_by(&contenders)));
        }
    }
    None
}

/// Releases the lock, and says how that failed. A signal ends the waiting for that, not the release: the end of the session may still
/// confirm it.
async fn finish(end: End, held: Guards, signals: &mut Signals, ending: &mut Ending) -> Outcome {
    let released = tokio::select! {
        biased;
        released = held.release() => released,
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
