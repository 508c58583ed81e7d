//! `zklock run`: a command that runs while a lock is held.

mod locks;

use std::ffi::OsString;

use tokio::time::{Duration, Instant, sleep_until, timeout};
use zookeeper_recipes::{AcquireError, Curator, LockGuard, Loss, ReleaseError};

use crate::arguments::Run;
use crate::connection::{
    FAREWELL, connect, connect_within, goodbye, is_connected, not_released, say_unconfirmed,
};
use crate::contenders::{Unknown, check_recipe, contenders, held_by};
use crate::exit::{Failure, Outcome};
use crate::settings::Settings;
use crate::signals::Signals;
use crate::supervision::{End, Supervisor};
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
    let (mut unconfirmed, mut farewell) = (Vec::new(), FAREWELL);
    let outcome = match wait.acquired(&mut signals).await {
        Ok(guard) => wait.hold(guard, &mut signals, &mut unconfirmed).await,
        Err(failure) => {
            farewell = farewell.min(left(end));
            Err(failure)
        }
    };
    if !goodbye(curator, farewell).await && !unconfirmed.is_empty() {
        say_unconfirmed(&unconfirmed);
    }
    outcome
}

struct Wait<'a> {
    arguments: &'a Run,
    settings: &'a Settings,
    curator: &'a Curator,
    /// When a lock that is still busy is given up.
    deadline: Option<Instant>,
}

impl Wait<'_> {
    async fn acquired(&self, signals: &mut Signals) -> Result<Box<dyn LockGuard>, Failure> {
        let Self { arguments, settings, curator, .. } = *self;
        arguments.supervision.kill_after(curator.session_timeout()?)?;
        let lock = locks::lock(curator, arguments)?;
        let acquire = locks::acquire(&*lock, arguments, left(self.deadline));
        let acquire = waiting::shown(curator, &arguments.paths, settings.verbose, acquire);
        let (acquired, holder) = signals.unless_ended(self.beside(acquire)).await?;
        match acquired {
            Ok(Some(guard)) => Ok(guard),
            // A server has said that it is busy; perhaps not who has it.
            Ok(None) if self.deadline.is_some() => {
                let silence = if is_connected(curator) { "" } else { "; no server answers now" };
                Err(busy(arguments, &format!("{}{silence}", holder.unwrap_or_default())))
            }
            Ok(None) => {
                let holder = timeout(FAREWELL, holder_of(curator, &arguments.paths));
                let holder = signals.unless_ended(holder).await?.ok().flatten();
                Err(busy(arguments, &holder.unwrap_or_default()))
            }
            Err(error) if is_timeout(&error) => {
                let paths = arguments.paths.join(", ");
                let within = humantime::format_duration(arguments.timeout.unwrap_or_default());
                let why = format!("no answer of the servers about {paths} within {within}");
                Err(Failure::unavailable(why))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Awaits `acquire`, and looks for the holder shortly before the time is up.
    async fn beside<T>(&self, acquire: impl Future<Output = T>) -> (T, Option<String>) {
        let look = async {
            match self.deadline {
                Some(deadline) => sleep_until(deadline - LOOK.min(left(Some(deadline)))).await,
                None => std::future::pending().await,
            }
            holder_of(self.curator, &self.arguments.paths).await
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

    async fn check_recipes(&self) -> Result<(), Unknown> {
        for path in &self.arguments.paths {
            check_recipe(self.curator, path, self.arguments.count.is_some()).await?;
        }
        Ok(())
    }

    async fn hold(
        &self,
        guard: Box<dyn LockGuard>,
        signals: &mut Signals,
        unconfirmed: &mut Vec<String>,
    ) -> Outcome {
        // The time to wait does not bound this: the lock is held.
        signals.unless_ended(self.check_recipes()).await??;
        let supervision = &self.arguments.supervision;
        let supervisor = Supervisor {
            path: guard.path().to_owned(),
            on_lost: supervision.on_lost,
            kill_after: supervision.kill_after(self.curator.session_timeout()?)?,
            on_revoke: self.arguments.on_revoke,
            only: true,
            verbose: self.settings.verbose,
        };
        let command = command(self.arguments);
        let environment = locks::environment(&*guard);
        let end = supervisor.run(&command, &environment, &guard, signals).await?;
        finish(end, guard, signals, unconfirmed).await
    }
}

/// What is left until then.
fn left(end: Option<Instant>) -> Duration {
    end.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()))
}

/// Whether the time was up before the servers answered.
fn is_timeout(error: &AcquireError) -> bool {
    match error {
        AcquireError::TimedOut { .. } => true,
        AcquireError::Member { source, .. } => is_timeout(source),
        _ => false,
    }
}

/// The command, or the line for a shell.
fn command(arguments: &Run) -> Vec<OsString> {
    match &arguments.line {
        Some(line) => vec!["/bin/sh".into(), "-c".into(), line.clone()],
        None => arguments.command.clone(),
    }
}

fn busy(arguments: &Run, holder: &str) -> Failure {
    let after =
        arguments.timeout.map(|limit| format!(" after {}", humantime::format_duration(limit)));
    let (paths, after) = (arguments.paths.join(", "), after.unwrap_or_default());
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

/// Releases the lock, and says how that failed. Paths whose release no server has confirmed are added to `unconfirmed`: the end
/// of the session may still delete their nodes. A signal ends the waiting for that, not the release.
async fn finish(
    end: End,
    guard: Box<dyn LockGuard>,
    signals: &mut Signals,
    unconfirmed: &mut Vec<String>,
) -> Outcome {
    let path = guard.path().to_owned();
    if let Some(failure) = end.failure(guard.loss()) {
        return Err(failure);
    }
    let released = tokio::select! {
        biased;
        released = guard.release() => released,
        _ = signals.ending() => {
            unconfirmed.push(path);
            return Ok(end.code);
        }
    };
    if let Err(error) = released {
        match loss_of(&error) {
            Some(loss) => return end.failure(Some(loss)).map_or(Ok(end.code), Err),
            None => *unconfirmed = not_released(&error),
        }
    }
    Ok(end.code)
}

/// How a release says that the lock had been lost before.
fn loss_of(error: &ReleaseError) -> Option<Loss> {
    match error {
        ReleaseError::Lost { loss, .. } => Some(*loss),
        ReleaseError::Members { source, .. } => source.loss().map(|(_, loss)| loss),
        _ => None,
    }
}
