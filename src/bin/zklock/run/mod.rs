//! `zklock run`: a command that runs while a lock is held.

mod locks;

use std::ffi::OsString;

use tokio::time::timeout;
use zookeeper_recipes::{Curator, LockGuard, Loss, ReleaseError};

use crate::arguments::Run;
use crate::connection::{FAREWELL, connect, goodbye};
use crate::contenders::{check_recipe, contenders, held_by};
use crate::exit::{Failure, Outcome, chain, say};
use crate::settings::Settings;
use crate::signals::Signals;
use crate::supervision::{End, Supervisor};
use crate::waiting;

pub(crate) async fn run(arguments: Run, settings: &Settings) -> Outcome {
    let mut signals = Signals::new()?;
    let curator = signals.unless_ended(connect(settings)).await??;
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
    let kill_after = arguments.supervision.kill_after(curator.session_timeout()?)?;
    let lock = locks::lock(curator, arguments)?;
    let acquire = locks::acquire(&*lock, arguments);
    let acquire = waiting::shown(curator, &arguments.paths, settings.verbose(), acquire);
    let guard = signals.unless_ended(acquire).await??;
    let Some(guard) = guard else {
        let holder = signals.unless_ended(holder(curator, &arguments.paths)).await?;
        return Err(busy(arguments, &holder.unwrap_or_default()));
    };
    for path in &arguments.paths {
        let alone = check_recipe(curator, path, arguments.count.is_some());
        signals.unless_ended(alone).await??;
    }
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

fn busy(arguments: &Run, holder: &str) -> Failure {
    let after =
        arguments.timeout.map(|limit| format!(" after {}", humantime::format_duration(limit)));
    let (paths, after) = (arguments.paths.join(", "), after.unwrap_or_default());
    Failure::new(arguments.conflict_exit_code, format!("{paths} is busy{after}{holder}"))
}

/// Who has it, if that can be told soon.
async fn holder(curator: &Curator, paths: &[String]) -> Option<String> {
    let held = async {
        for path in paths {
            if let Ok(contenders) = contenders(curator, path).await
                && contenders.iter().any(|contender| contender.participant.holds)
            {
                return Some(format!(": {}", held_by(&contenders)));
            }
        }
        None
    };
    timeout(FAREWELL, held).await.ok().flatten()
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
