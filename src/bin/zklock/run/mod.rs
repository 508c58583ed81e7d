//! `zklock run`: a command that runs while a lock is held.

mod locks;

use std::ffi::OsString;
use std::time::Duration;

use tokio::time::timeout;
use zookeeper_recipes::{Curator, LockGuard, Loss, ReleaseError};

use crate::arguments::{Run, Supervision};
use crate::connection::connect;
use crate::contenders::{contenders, held_by};
use crate::exit::{Failure, Outcome, chain, say};
use crate::settings::Settings;
use crate::signals::Signals;
use crate::supervision::{End, Supervisor};
use crate::waiting;

/// How long the end waits for the servers where there is nothing to report of it.
const FAREWELL: Duration = Duration::from_secs(2);

pub(crate) async fn run(arguments: Run, settings: &Settings) -> Outcome {
    let mut signals = Signals::new()?;
    let curator = tokio::select! {
        signal = signals.ending() => return Err(Failure::signal(signal)),
        curator = connect(settings) => curator?,
    };
    let outcome = hold(&arguments, settings, &curator, &mut signals).await;
    goodbye(curator).await;
    outcome
}

async fn hold(
    arguments: &Run,
    settings: &Settings,
    curator: &Curator,
    signals: &mut Signals,
) -> Outcome {
    let kill_after = kill_after(&arguments.supervision, curator)?;
    let lock = locks::lock(curator, arguments)?;
    let guard = tokio::select! {
        biased;
        signal = signals.ending() => return Err(Failure::signal(signal)),
        guard = locks::acquire(&*lock, arguments) => guard?,
        never = waiting::show(curator, &arguments.paths, settings.verbose()) => match never {},
    };
    let Some(guard) = guard else {
        return Err(busy(arguments, curator).await);
    };
    let supervisor = Supervisor {
        path: guard.path().to_owned(),
        on_lost: arguments.supervision.on_lost,
        kill_after,
        on_revoke: arguments.on_revoke,
        only: true,
        verbose: settings.verbose(),
    };
    let command = command(arguments);
    let environment = locks::environment(&*guard);
    let end = supervisor.run(&command, &environment, &guard, signals).await?;
    finish(end, guard, signals).await
}

/// The command, or the line for a shell.
fn command(arguments: &Run) -> Vec<OsString> {
    match &arguments.line {
        Some(line) => vec!["/bin/sh".into(), "-c".into(), line.clone()],
        None => arguments.command.clone(),
    }
}

/// Says who has it.
async fn busy(arguments: &Run, curator: &Curator) -> Failure {
    let after =
        arguments.timeout.map(|limit| format!(" after {}", humantime::format_duration(limit)));
    let paths = arguments.paths.join(", ");
    let mut holder = String::new();
    for path in &arguments.paths {
        // It is only to be told.
        if let Ok(Ok(contenders)) = timeout(FAREWELL, contenders(curator, path)).await
            && contenders.iter().any(|contender| contender.participant.holds)
        {
            holder = format!(": {}", held_by(&contenders));
            break;
        }
    }
    let after = after.unwrap_or_default();
    Failure::new(arguments.conflict_exit_code, format!("{paths} is busy{after}{holder}"))
}

/// Gives the lock back, and says what became of it. A signal ends the waiting for that, not the release.
async fn finish(end: End, guard: Box<dyn LockGuard>, signals: &mut Signals) -> Outcome {
    if let Some(failure) = end.failure(guard.loss()) {
        return Err(failure);
    }
    let released = tokio::select! {
        biased;
        released = guard.release() => released,
        _ = signals.ending() => return Ok(end.code),
    };
    if let Err(error) = released {
        match loss_of(&error) {
            Some(loss) => return end.failure(Some(loss)).map_or(Ok(end.code), Err),
            None => say(&chain(&error)),
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

/// From TERM to KILL: as the options say, or a sixth of the session timeout that the servers granted.
pub(crate) fn kill_after(
    supervision: &Supervision,
    curator: &Curator,
) -> Result<Duration, Failure> {
    let session = curator.client()?.session_timeout();
    let longest = session / 3;
    match supervision.kill_after {
        None => Ok(session / 6),
        Some(time) if time <= longest => Ok(time),
        Some(time) => Err(Failure::usage(format!(
            "--kill-after {time:?} is too long: at most a third of the session timeout, which is {session:?}"
        ))),
    }
}

/// Ends the session, so that nothing of us is left; the servers remove it later if they do not answer now.
pub(crate) async fn goodbye(curator: Curator) {
    // A `Curator` that has lent its client leaves the end of the session to whoever has that.
    let watcher = curator.client().ok().map(|client| client.state_watcher());
    let ended = async {
        let _ = curator.close().await; // the servers do it later
        if let Some(mut watcher) = watcher {
            while !watcher.peek_state().is_terminated() {
                watcher.changed().await;
            }
        }
    };
    let _ = timeout(FAREWELL, ended).await;
}
