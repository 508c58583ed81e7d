//! `zklock observe`.

use serde::Serialize;
use zookeeper_recipes::session::ConnectionState;
use zookeeper_recipes::{Curator, Participant};

use crate::arguments::Observe;
use crate::connection::connect;
use crate::contenders::{Entry, identity, token};
use crate::exit::Outcome;
use crate::output::{Ends, now};
use crate::settings::Settings;
use crate::signals::Signals;
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
    let mut ends = Ends::new(Signals::new()?);
    let mut states = curator.watch_state();
    let mut told: Option<Known> = None;
    loop {
        let mut observer = curator.observe_leader(&arguments.path)?;
        // As long as the connection lasts. A new observer asks anew, behind all that was written before.
        loop {
            let known = tokio::select! {
                biased;
                () = ends.told() => return Ok(0),
                () = until(&mut states, false) => Known::Unknown,
                leader = observer.changed() => leader?.map_or(Known::Nobody, Known::Leader),
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

/// Until a server answers, or none does.
pub(crate) async fn until(
    states: &mut tokio::sync::watch::Receiver<ConnectionState>,
    answers: bool,
) {
    use ConnectionState::{Closed, Connected, Reconnected};
    let is_so = |state: &ConnectionState| match state {
        // Of a closed one the observer says why.
        Connected | Reconnected | Closed => answers,
        _ => !answers,
    };
    if states.wait_for(is_so).await.is_err() {
        std::future::pending().await
    }
}

fn line(known: &Known, as_json: bool) -> String {
    if as_json {
        let (state, leader) = match known {
            Known::Leader(leader) => ("leader", Some(Entry::of(leader))),
            Known::Nobody => ("nobody", None),
            Known::Unknown => ("unknown", None),
        };
        return format!("{}\n", text::json(&Line { time: now(), state, leader }));
    }
    let said = match known {
        Known::Leader(leader) => {
            let (session, token) = (text::session(leader.session_id), token(leader));
            match identity(leader) {
                Some(who) => format!("{who} leads (session {session}, token {token})"),
                None if leader.revocation_requested() => {
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
    leader: Option<Entry<'a>>,
}
