//! `zklock elect`: a command that runs while this process leads.

use std::slice;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::time::timeout;
use zookeeper_recipes::{Curator, LeaderLatch, LeaderState, Leadership};

use crate::arguments::{Elect, OnRevoke};
use crate::connection::connect;
use crate::exit::{Failure, Outcome, chain, say};
use crate::run::{goodbye, kill_after};
use crate::settings::Settings;
use crate::signals::Signals;
use crate::supervision::{End, Environment, Supervisor};
use crate::waiting;

/// How long the end waits for the place to be given up.
const FAREWELL: Duration = Duration::from_secs(5);

pub(crate) async fn elect(arguments: Elect, settings: &Settings) -> Outcome {
    let mut signals = Signals::new()?;
    let curator = tokio::select! {
        signal = signals.ending() => return Err(Failure::signal(signal)),
        curator = connect(settings) => curator?,
    };
    let latch = LeaderLatch::new(&curator, &arguments.path)?;
    latch.start()?;
    let outcome = if arguments.command.is_empty() {
        announce(&latch, &mut signals).await
    } else {
        Candidate { arguments: &arguments, settings, curator: &curator, latch: &latch }
            .stand(&mut signals)
            .await
    };
    if let Ok(Err(error)) = timeout(FAREWELL, latch.close()).await {
        say(&chain(&error));
    }
    goodbye(curator).await;
    outcome
}

/// Says who we are, until a signal or until nobody listens.
async fn announce(latch: &LeaderLatch, signals: &mut Signals) -> Outcome {
    let mut watch = latch.watch();
    let mut state = watch.state();
    let mut stdout = tokio::io::stdout();
    loop {
        let line = match &state {
            LeaderState::Leader(leadership) => format!("leader {}", leadership.fencing_token()),
            LeaderState::NotLeader => "follower".to_owned(),
        };
        let line = format!("{line}\n");
        // Not by this thread, which renews the lease: nobody may read it.
        let written = async {
            stdout.write_all(line.as_bytes()).await?;
            stdout.flush().await
        };
        tokio::select! {
            _ = signals.ending() => return Ok(0),
            written = written => if written.is_err() {
                return Ok(0);
            },
        }
        state = tokio::select! {
            _ = signals.ending() => return Ok(0),
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
            let leadership = tokio::select! {
                biased;
                signal = signals.ending() => return Err(Failure::signal(signal)),
                leadership = self.latch.await_leadership() => leadership?,
                never = waiting::show(self.curator, paths, self.settings.verbose()) => match never {},
            };
            let end = self.lead(&leadership, signals).await?;
            match end.failure(leadership.loss()) {
                None => return Ok(end.code),
                // Who ends by itself is not started again; who was ended is, in the next term.
                Some(failure) if self.arguments.once || end.cause.is_none() => return Err(failure),
                Some(failure) => say(&failure.to_string()),
            }
        }
    }

    async fn lead(&self, leadership: &Leadership, signals: &mut Signals) -> Result<End, Failure> {
        let Elect { supervision, command, .. } = self.arguments;
        let supervisor = Supervisor {
            path: leadership.path().to_owned(),
            on_lost: supervision.on_lost,
            kill_after: kill_after(supervision, self.curator)?,
            on_revoke: OnRevoke::Term,
            only: false,
            verbose: self.settings.verbose(),
        };
        let environment = Environment {
            path: leadership.path().to_owned(),
            node: leadership.node().to_owned(),
            token: leadership.fencing_token().to_string(),
        };
        supervisor.run(command, &environment, leadership, signals).await
    }
}
