//! `zklock observe`.

use serde::Serialize;
use zookeeper_recipes::session::ConnectionState;
use zookeeper_recipes::{Curator, Participant};

use crate::arguments::Observe;
use crate::connection::briefly;
use crate::contenders::{Entry, identity, token};
use crate::exit::Outcome;
use crate::output::{Ends, now};
use crate::settings::Settings;
use crate::signals::Signals;
use crate::text;

pub(crate) async fn observe(arguments: &Observe, settings: &Settings) -> Outcome {
    briefly(settings, async |curator| follow(curator, arguments).await).await
}

/// The known state of the election.
#[derive(Clone, PartialEq)]
enum Known {
    Leader(Participant),
    Nobody,
    /// No server answers. The last leader may still lead, or not.
    Unknown,
}

async fn follow(curator: &Curator, arguments: &Observe) -> Outcome {
    let mut ends = Ends::new(Signals::new()?);
    let mut states = curator.watch_state();
    let mut printed = None;
    loop {
        let mut observer = curator.observe_leader(&arguments.path)?;
        // An observer is used as long as the connection lasts. A new one reads the state again, after everything that
        // was written before.
        loop {
            let change = async {
                tokio::select! {
                    biased;
                    () = until(&mut states, false) => Ok(Known::Unknown),
                    leader = observer.changed() => {
                        leader.map(|leader| leader.map_or(Known::Nobody, Known::Leader))
                    }
                }
            };
            let known = ends.unless_ended(change).await??;
            if printed.as_ref() != Some(&known) {
                ends.print(&line(&known, arguments.json)).await?;
            }
            if *printed.insert(known) == Known::Unknown {
                break;
            }
        }
        ends.unless_ended(until(&mut states, true)).await?;
    }
}

/// Waits until a server answers, or without `answers`, until none does.
pub(crate) async fn until(
    states: &mut tokio::sync::watch::Receiver<ConnectionState>,
    answers: bool,
) {
    use ConnectionState::{Closed, Connected, Reconnected};
    let is_so = |state: &ConnectionState| match state {
        // If the connection is closed, the observer reports why.
        Connected | Reconnected | Closed => answers,
        _ => !answers,
    };
    if states.wait_for(is_so).await.is_err() {
        std::future::pending().await
    }
}

fn line(known: &Known, as_json: bool) -> String {
    let (state, leader) = match known {
        Known::Leader(leader) => ("leader", Some(leader)),
        Known::Nobody => ("nobody", None),
        Known::Unknown => ("unknown", None),
    };
    if as_json {
        let line = Line { time: now(), state, leader: leader.map(Entry::of) };
        return format!("{}\n", text::json(&line));
    }
    let said = match leader {
        Some(leader) => {
            let session = text::session(leader.session_id);
            let token = token(leader);
            match identity(leader) {
                Some(who) => format!("{who} leads (session {session}, token {token})"),
                None if leader.revocation_requested() => {
                    format!("session {session} leads (asked to give it back, token {token})")
                }
                None => format!("session {session} leads (token {token})"),
            }
        }
        None if *known == Known::Nobody => "nobody leads".to_owned(),
        None => "unknown: no server answers".to_owned(),
    };
    format!("{}  {said}\n", now())
}

/// A line of output, as JSON for programs.
#[derive(Serialize)]
struct Line<'a> {
    time: String,
    state: &'static str,
    leader: Option<Entry<'a>>,
}
