//! `zklock run --once`: a command that runs once for each key.

use std::time::SystemTime;

use tokio::sync::oneshot;
use tokio::task::JoinSet;
use zookeeper_recipes::{Error, Hold, InterProcessOnce, OnceOutcome};

use super::{Ending, Wait, left, within_session};
use crate::exit::{Failure, LOST, Outcome};
use crate::log::Event;
use crate::metrics;
use crate::nesting;
use crate::signals::Signals;
use crate::supervision::Watched;
use crate::text;

/// The run of a key, in a task: the body hands out its hold, and waits for the end of the command. So the supervision
/// continues if the hold is lost and the library drops the body.
struct Run {
    /// The only task. Its error is `None` if the command failed.
    task: JoinSet<Result<OnceOutcome<()>, Option<Error>>>,
    hold: oneshot::Receiver<Hold>,
    succeeded: oneshot::Sender<()>,
}

enum Begun {
    Run(Hold),
    Done { by: String, at: SystemTime },
}

impl Wait<'_> {
    pub(super) async fn run_once(
        &self,
        key: &str,
        signals: &mut Signals,
        ending: &mut Ending,
    ) -> Outcome {
        let once = self.locking.once(&self.arguments.paths[0], key)?;
        // The library escapes the key in both paths in the same way.
        let runs = format!("{}/runs", self.arguments.paths[0].trim_end_matches('/'));
        let runs = self.curator.mutex_for(runs, key)?.path().to_owned();
        signals.unless_ended(nesting::check(self.curator, &runs, |_, _| self.waits)).await??;
        let mut run = self.start(once);
        let hold = match self.wait(&[runs], begun(&mut run), signals).await? {
            Begun::Run(hold) => hold,
            Begun::Done { by, at } => {
                if self.settings.verbose && !self.arguments.quiet {
                    let by = text::shown(by.as_bytes());
                    Event::Done.say(&format!("done by {by} at {}", text::time(at)));
                }
                return Ok(0);
            }
        };
        ending.was_held = true;
        let watched = Watched::new([hold]).since_its_start(self.curator);
        watched.record();
        let end = self.supervise(&watched, signals).await?;
        if let Some(failure) = end.failure(watched.loss()) {
            return Err(failure);
        }
        if end.code == 0 {
            let _ = run.succeeded.send(()); // the task reports a loss
        } else {
            drop(run.succeeded);
        }
        let unconfirmed = |why: &str| {
            metrics::released();
            let why = format!(
                "the command ended with {}, but the record of its key {key} is not confirmed, so it may run again: {why}",
                end.code
            );
            Err(Failure::new(LOST, why))
        };
        let recorded = within_session(self.curator, run.task.join_next());
        let ended = tokio::select! {
            biased;
            ended = recorded => ended.ok_or("no server answered in time"),
            _ = signals.ending() => Err("a signal ended the wait for it"),
        };
        match ended {
            // A command that failed leaves no record, so only the release is unconfirmed.
            Err(_) if end.code != 0 => {
                ending.is_unconfirmed = true;
                Ok(end.code)
            }
            Err(why) => unconfirmed(why),
            Ok(Some(Ok(Err(Some(error))))) => {
                if error.loss().is_some() {
                    metrics::lost();
                }
                unconfirmed(&Failure::from(error).to_string())
            }
            Ok(Some(Ok(_))) => Ok(end.code),
            Ok(_) => Err(Failure::reported(crate::exit::INTERNAL)), // the panic was reported
        }
    }

    fn start(&self, once: InterProcessOnce) -> Run {
        let waits = self.waits;
        let deadline = self.deadline;
        let (hand_out, hold) = oneshot::channel();
        let (succeeded, success) = oneshot::channel();
        let body = async move |hold: Hold| {
            let _ = hand_out.send(hold); // not received when `zklock` ends
            success.await.map_err(|_| None)
        };
        let mut task = JoinSet::new();
        task.spawn(async move {
            match deadline {
                Some(_) => once.run_timeout(left(deadline), body).await,
                None if waits => once.run(body).await,
                None => once.try_run(body).await,
            }
        });
        Run { task, hold, succeeded }
    }
}

/// Waits until the run begins, or ends without one.
async fn begun(run: &mut Run) -> Result<Begun, Error> {
    let ended = tokio::select! {
        biased;
        Ok(hold) = &mut run.hold => return Ok(Begun::Run(hold)),
        ended = run.task.join_next() => ended,
    };
    match ended {
        Some(Ok(Ok(OnceOutcome::AlreadyDone { by, at, .. }))) => Ok(Begun::Done { by, at }),
        Some(Ok(Err(Some(error)))) => Err(error),
        ended => unreachable!("the body waits for its command: {ended:?}"),
    }
}
