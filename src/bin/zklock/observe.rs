//! `zklock observe`.

use std::borrow::Cow;

use serde::Serialize;
use zookeeper_recipes::{ConnectionState, Curator, LeaderError, LeaderObserver, Participant};

use crate::arguments::Observe;
use crate::connection::connect;
use crate::contenders::{identity, is_revoked};
use crate::exit::{Failure, Outcome};
use crate::output::{Ends, now};
use crate::settings::Settings;
use crate::text;

pub(crate) async fn observe(arguments: &Observe, settings: &Settings) -> Outcome {
    let curator = connect(settings).await?;
    let outcome = follow(&curator, arguments).await;
    let _ = curator.close().await; // it only read
    outcome
}

/// What is known.
#[derive(Clone, PartialEq)]
enum Known {
    Leader(Participant),
    Nobody,
    /// No server answers: whoever led may lead on, or not.
    Unknown,
}

async fn follow(curator: &Curator, arguments: &Observe) -> Outcome {
    let mut ends = Ends::new()?;
    let mut states = curator.watch_state();
    let mut told: Option<Known> = None;
    loop {
        let mut observer = observer(curator, arguments)?;
        // As long as the connection lasts. A new observer asks anew, behind all that was written before.
        loop {
            let known = tokio::select! {
                biased;
                () = ends.told() => return Ok(0),
                () = until(&mut states, false) => Known::Unknown,
                leader = observer.changed() => match leader {
                    Ok(Some(leader)) => Known::Leader(leader),
                    Ok(None) => Known::Nobody,
                    // It never took part.
                    Err(LeaderError::Ended(error)) => return Err(error.into()),
                    Err(error) => return Err(error.into()),
                },
            };
            if told.as_ref() != Some(&known) {
                if let Err(outcome) = ends.print(&line(&known, arguments.json)).await {
                    return outcome;
                }
                told = Some(known.clone());
            }
            if known == Known::Unknown {
                break;
            }
        }
        tokio::select! {
            biased;
            () = ends.told() => return Ok(0),
            () = until(&mut states, true) => {}
        }
    }
}

fn observer(curator: &Curator, arguments: &Observe) -> Result<LeaderObserver, Failure> {
    let path = &arguments.path;
    Ok(if arguments.selector {
        LeaderObserver::of_selector(curator, path)?
    } else {
        LeaderObserver::of_latch(curator, path)?
    })
}

/// Until a server answers, or none does.
async fn until(states: &mut tokio::sync::watch::Receiver<ConnectionState>, answers: bool) {
    use ConnectionState::{Closed, Connected, Reconnected};
    let is_so = |state: &ConnectionState| match state {
        // The observer says why.
        Closed => answers,
        Connected | Reconnected => answers,
        _ => !answers,
    };
    if states.wait_for(is_so).await.is_err() {
        std::future::pending().await
    }
}

fn line(known: &Known, as_json: bool) -> String {
    if as_json {
        let (state, leader) = match known {
            Known::Leader(leader) => ("leader", Some(Leader::of(leader))),
            Known::Nobody => ("nobody", None),
            Known::Unknown => ("unknown", None),
        };
        return format!("{}\n", text::json(&Line { time: now(), state, leader }));
    }
    let said = match known {
        Known::Leader(leader) => {
            let (session, token) = (text::session(leader.session), leader.fencing_token());
            match identity(leader) {
                Some(who) => format!("{who} leads (session {session}, token {token})"),
                None if is_revoked(leader) => {
                    format!("session {session} leads (asked to give it back, token {token})")
                }
                None => format!("session {session} leads (token {token})"),
            }
        }
        Known::Nobody => "nobody leads".to_owned(),
        Known::Unknown => "unknown: no server answers".to_owned(),
    };
    format!("{}  {said}\n", now())
}

/// For programs.
#[derive(Serialize)]
struct Line<'a> {
    time: String,
    state: &'static str,
    leader: Option<Leader<'a>>,
}

#[derive(Serialize)]
struct Leader<'a> {
    /// None once a request to give the lead back has taken its place.
    identity: Option<Cow<'a, str>>,
    session: String,
    since: String,
    token: i64,
    node: &'a str,
    path: &'a str,
    revocation_requested: bool,
}

impl<'a> Leader<'a> {
    fn of(leader: &'a Participant) -> Self {
        let is_revoked = is_revoked(leader);
        Self {
            identity: (!is_revoked).then(|| leader.id()),
            session: text::session(leader.session),
            since: text::time(leader.since),
            token: leader.fencing_token().value(),
            node: leader.path.rsplit('/').next().unwrap_or_default(),
            path: &leader.path,
            revocation_requested: is_revoked,
        }
    }
}
