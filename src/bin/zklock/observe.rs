//! `zklock observe`.

use serde_json::{Value, json};
use zookeeper_recipes::{ConnectionState, Curator, LeaderObserver, Participant};

use crate::arguments::Observe;
use crate::connection::connect;
use crate::exit::{Failure, Outcome};
use crate::output::{Ends, now, print};
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
                    Err(error) => return Err(error.into()),
                },
            };
            if told.as_ref() != Some(&known) {
                if let Err(outcome) = print(&line(&known, arguments.json)) {
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
            Known::Leader(leader) => ("leader", object(leader)),
            Known::Nobody => ("nobody", Value::Null),
            Known::Unknown => ("unknown", Value::Null),
        };
        let line = json!({"time": now(), "state": state, "leader": leader});
        return format!("{}\n", text::json(&line));
    }
    let said = match known {
        Known::Leader(leader) => format!(
            "{} leads (session 0x{:x}, token {})",
            text::shown(&leader.data),
            leader.session,
            leader.fencing_token()
        ),
        Known::Nobody => "nobody leads".to_owned(),
        Known::Unknown => "unknown: no server answers".to_owned(),
    };
    format!("{}  {said}\n", now())
}

fn object(leader: &Participant) -> Value {
    json!({
        "identity": leader.id(),
        "session": format!("0x{:x}", leader.session),
        "since": humantime::format_rfc3339_millis(leader.since).to_string(),
        "token": leader.fencing_token().value(),
        "node": leader.path.rsplit('/').next(),
        "path": leader.path,
    })
}
