//! `zklock elect`: a command that runs while this process leads.

use std::slice;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use zookeeper_recipes::leader::LeaderLatch;
use zookeeper_recipes::{Curator, ErrorKind, Hold};

use crate::arguments::Elect;
use crate::connection::{self, connect, goodbye, is_unconfirmed, warn_of_short_session};
use crate::contenders::Kind;
use crate::exit::{Failure, LOST, Outcome, chain};
use crate::log::{self, Event};
use crate::metrics;
use crate::mixed;
use crate::nesting;
use crate::output::Ends;
use crate::settings::Settings;
use crate::signals::Signals;
use crate::supervision::{End, Supervisor, Watched};
use crate::waiting::{self, Messages};

/// Time limit at the end for giving up the place in the queue.
const FAREWELL: Duration = Duration::from_secs(5);

pub(crate) async fn elect(arguments: Elect, settings: &Settings) -> Outcome {
    let mut signals = Signals::new()?;
    let curator = signals.unless_ended(connect(settings, None)).await??;
    warn_of_short_session(&curator, settings);
    let mut unconfirmed = false;
    let outcome = take_part(&arguments, settings, &curator, signals, &mut unconfirmed).await;
    let unconfirmed = unconfirmed.then_some(arguments.path.as_str());
    goodbye(curator, connection::FAREWELL, unconfirmed).await;
    outcome
}

async fn take_part(
    arguments: &Elect,
    settings: &Settings,
    curator: &Curator,
    mut signals: Signals,
    unconfirmed: &mut bool,
) -> Outcome {
    // Checked now, and not only once this process leads.
    arguments.supervision.grace(curator.session_timeout()?)?;
    let latch = curator.leader_latch(&arguments.path)?;
    signals.unless_ended(nesting::check(curator, &arguments.path, |_, _| true)).await??;
    let outcome = if arguments.command.is_empty() {
        announce(arguments, curator, &latch, Ends::new(signals)).await
    } else {
        Candidate { arguments, settings, curator, latch: &latch }.stand(&mut signals).await
    };
    let closed = timeout(FAREWELL, latch.close()).await;
    *unconfirmed = closed.map_or(true, is_unconfirmed);
    outcome
}

/// Prints each change until `zklock` has to end.
async fn announce(
    arguments: &Elect,
    curator: &Curator,
    latch: &LeaderLatch,
    mut ends: Ends,
) -> Outcome {
    loop {
        ends.print("follower\n").await?;
        let term = match ends.unless_ended(latch.leadership()).await? {
            Ok(term) => term,
            Err(error) => return Err(mixed::explained(curator, error, Kind::Leader).await),
        };
        match ends.unless_ended(mixed::check(curator, &arguments.path, Kind::Leader)).await? {
            Err(error) if error.is_transient() => {}
            checked => checked??,
        }
        Watched::new([term.view()]).record();
        ends.print(&format!("leader {}\n", term.fencing_token())).await?;
        let loss = ends.unless_ended(term.lost()).await?;
        if arguments.once {
            return Err(Failure::new(LOST, format!("lost {}: {loss}", arguments.path)));
        }
        released();
    }
}

/// Records that the leadership is lost, unless that is recorded, and that this process stands again.
fn released() {
    metrics::lost();
    metrics::waits();
    log::holds(Vec::new());
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
            let wait = self.latch.leadership();
            let began = Instant::now();
            let messages = Messages::of_standby(self.settings.verbose);
            let wait = waiting::shown(self.curator, paths, messages, wait);
            let wait = signals.unless_ended(wait).await;
            let wait = wait.map_err(|failure| waiting::interrupted(failure, began, path))?;
            let leadership = match wait {
                Ok(leadership) => leadership,
                Err(error) => {
                    let explained = mixed::explained(self.curator, error, Kind::Leader);
                    return Err(signals.unless_ended(explained).await?);
                }
            };
            match signals.unless_ended(mixed::check(self.curator, path, Kind::Leader)).await? {
                // An outage ended the command of this leadership before it ended the leadership.
                _ if leadership.loss().is_some() => continue,
                // Without a connection, the leadership is about to be lost.
                Err(error) if error.is_transient() => {
                    Event::Warning.say(&chain(&error));
                    continue;
                }
                checked => checked??,
            }
            Watched::new([leadership.view()]).record();
            let (failure, stands_again) = match self.lead(&leadership, signals).await {
                Ok(end) => match end.failure(leadership.loss()) {
                    None => return Ok(end.code),
                    // A command that ended by itself, or that was told to end, is not started again. One that was ended is, in the
                    // next term.
                    Some(failure) => (failure, end.cause.is_some() && !end.was_told_to_end),
                },
                // The leadership was lost before the command was started.
                Err(failure) if failure.code() == LOST => (failure, true),
                Err(failure) => return Err(failure),
            };
            if self.arguments.once || !stands_again {
                return Err(failure);
            }
            failure.say();
            released();
        }
    }

    async fn lead(&self, leadership: &Hold, signals: &mut Signals) -> Result<End, Failure> {
        let Elect { supervision, command, .. } = self.arguments;
        let session = match self.curator.session_timeout() {
            // The leadership is lost with its session.
            Err(error) if error.kind() == ErrorKind::Unavailable => {
                let path = leadership.path();
                let loss = leadership.lost().await;
                let why = format!("lost {path}: {loss}; the command was not started");
                return Err(Failure::new(LOST, why));
            }
            session => session?,
        };
        let supervisor = Supervisor::new(supervision, self.settings, session)?;
        supervisor.run(command, &Watched::new([leadership.view()]), signals).await
    }
}
