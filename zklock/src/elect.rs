//! `zklock elect`: a command that runs while this process leads.

use std::slice;
use std::time::Duration;

use tokio::time::timeout;
use zookeeper_recipes::{Curator, LeaderLatch, LeaderState, Leadership, SessionError};

use crate::arguments::{Elect, OnRevoke};
use crate::connection::{self, connect, goodbye, not_released, say_unconfirmed};
use crate::contenders::{Unknown, check_recipe};
use crate::exit::{Failure, LOST, Outcome, say};
use crate::output::Ends;
use crate::settings::Settings;
use crate::signals::Signals;
use crate::supervision::{End, Environment, Supervisor};
use crate::waiting;

/// How long the end waits for the place to be given up.
const FAREWELL: Duration = Duration::from_secs(5);

pub(crate) async fn elect(arguments: Elect, settings: &Settings) -> Outcome {
    let mut signals = Signals::new()?;
    let curator = signals.unless_ended(connect(settings)).await??;
    let mut unconfirmed = Vec::new();
    let outcome = take_part(&arguments, settings, &curator, signals, &mut unconfirmed).await;
    if !goodbye(curator, connection::FAREWELL).await && !unconfirmed.is_empty() {
        say_unconfirmed(&unconfirmed);
    }
    outcome
}

async fn take_part(
    arguments: &Elect,
    settings: &Settings,
    curator: &Curator,
    mut signals: Signals,
    unconfirmed: &mut Vec<String>,
) -> Outcome {
    // Not only once it leads.
    arguments.supervision.kill_after(curator.session_timeout()?)?;
    let latch = LeaderLatch::new(curator, &arguments.path)?;
    latch.start()?;
    let outcome = if arguments.command.is_empty() {
        announce(&latch, Ends::new(signals)).await
    } else {
        Candidate { arguments, settings, curator, latch: &latch }.stand(&mut signals).await
    };
    match timeout(FAREWELL, latch.close()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => *unconfirmed = not_released(&error),
        Err(_) => unconfirmed.push(arguments.path.clone()),
    }
    outcome
}

/// Says who we are, until told to end.
async fn announce(latch: &LeaderLatch, mut ends: Ends) -> Outcome {
    let mut watch = latch.watch();
    let mut state = watch.state();
    loop {
        let line = match &state {
            LeaderState::Leader(leadership) => format!("leader {}\n", leadership.fencing_token()),
            LeaderState::NotLeader => "follower\n".to_owned(),
        };
        if let Err(outcome) = ends.print(&line).await {
            return outcome;
        }
        state = tokio::select! {
            biased;
            () = ends.told() => return Ok(0),
            changed = watch.changed() => changed?,
        };
    }
}

struct Candidate<'a> {
    arguments: &'a Elect,
    settings: &'a Settings,
    curator: &'a Curator,
    latch: &'a LeaderLatch,
}

impl Candidate<'_> {
    /// Runs the command in each term, until it ends by itself.
    async fn stand(&self, signals: &mut Signals) -> Outcome {
        let path = &self.arguments.path;
        loop {
            let paths = slice::from_ref(path);
            let wait = self.latch.await_leadership();
            let wait = waiting::shown(self.curator, paths, self.settings.verbose, wait);
            let leadership = signals.unless_ended(wait).await??;
            match signals.unless_ended(check_recipe(self.curator, path, false)).await? {
                Ok(()) => {}
                // Without a connection, the lead is about to be lost.
                Err(Unknown::Now(failure)) => {
                    say(&failure.to_string());
                    continue;
                }
                Err(Unknown::ForGood(failure)) => return Err(failure),
            }
            let (failure, stands_again) = match self.lead(&leadership, signals).await {
                Ok(end) => match end.failure(leadership.loss()) {
                    None => return Ok(end.code),
                    // Who ends by itself is not started again; who was ended is, in the next term.
                    Some(failure) => (failure, end.cause.is_some()),
                },
                // Before the command was started.
                Err(failure) if failure.code() == LOST => (failure, true),
                Err(failure) => return Err(failure),
            };
            if self.arguments.once || !stands_again {
                return Err(failure);
            }
            say(&failure.to_string());
        }
    }

    async fn lead(&self, leadership: &Leadership, signals: &mut Signals) -> Result<End, Failure> {
        let Elect { supervision, command, .. } = self.arguments;
        let session = match self.curator.session_timeout() {
            // The lead goes with its session.
            Err(SessionError::NotNow) => {
                let (path, loss) = (leadership.path(), leadership.lost().await);
                let why = format!("lost {path}: {loss}; the command was not started");
                return Err(Failure::new(LOST, why));
            }
            session => session?,
        };
        let supervisor = Supervisor {
            path: leadership.path().to_owned(),
            on_lost: supervision.on_lost,
            kill_after: supervision.kill_after(session)?,
            on_revoke: OnRevoke::Term,
            only: false,
            verbose: self.settings.verbose,
        };
        let environment = Environment {
            path: leadership.path().to_owned(),
            node: leadership.node().to_owned(),
            token: leadership.fencing_token().to_string(),
        };
        supervisor.run(command, &environment, leadership, signals).await
    }
}
