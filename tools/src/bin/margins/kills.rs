//! Three processes elect a leader on a quorum of three, and the leader's process is killed again and again.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::timeout;
use tools::Failure;
use zookeeper_recipes::zookeeper_client::{Acls, Client, CreateMode};
use zookeeper_testkit::{TestEnsemble, random_path};

use crate::peer::{Event, Log, PATIENCE, Peer, Side, What};

const CANDIDATES: usize = 3;
const SESSION: Duration = Duration::from_secs(6);
/// Sessions expire at ticks.
const TICK: Duration = Duration::from_millis(500);

/// Whether never two candidates led.
pub(crate) async fn kills(rounds: usize) -> Result<bool, Failure> {
    let ensemble = TestEnsemble::builder(3).tick_time(TICK).start().await?;
    let result = killed(&ensemble, rounds).await;
    ensemble.close().await?;
    result
}

async fn killed(ensemble: &TestEnsemble, rounds: usize) -> Result<bool, Failure> {
    let (servers, path) = (ensemble.connect_string(), random_path("kills"));
    let (sender, mut log) = Log::new();
    let admin = parent(servers, &path).await?;
    let stand = async |number| {
        let mut peer = Peer::ours(&sender)?;
        peer.hold(number, "latch", servers, &path, SESSION).await?;
        Ok::<_, Failure>((number, peer))
    };
    let mut peers = BTreeMap::new();
    for number in 0..CANDIDATES {
        peers.extend([stand(number).await?]);
    }
    let mut leader = leads(&mut log, Duration::ZERO).await?;
    let mut took = Vec::new();
    for round in 1..=rounds {
        all_stand(&admin, &path).await?;
        let holder = leader.holder;
        let killed = peers.remove(&holder).ok_or("a stranger leads")?.kill().await?;
        log.add(Side::Ours, Event { holder, what: What::Lost, at: killed, more: 0 });
        leader = leads(&mut log, killed).await?;
        took.push(leader.at.saturating_sub(killed).as_secs_f64());
        println!("kills: round {round} of {rounds}: the next leads after {:.2} s", took[round - 1]);
        peers.extend([stand(CANDIDATES + round - 1).await?]);
    }
    let faults = faults(&log.of(Side::Ours));
    took.sort_by(f64::total_cmp);
    let [least, median, most] = [0, took.len() / 2, took.len().saturating_sub(1)]
        .map(|index| took.get(index).copied().unwrap_or_default());
    println!(
        "\n{rounds} leaders killed; sessions of {SESSION:?}, ticks of {TICK:?}; the next leads after {least:.2} s, \
         median {median:.2} s, at most {most:.2} s; faults: {faults:?}"
    );
    Ok(faults.is_empty())
}

async fn parent(servers: &str, path: &str) -> Result<Client, Failure> {
    let admin = Client::connect(servers).await?;
    admin.mkdir(path, &CreateMode::Persistent.with_acls(Acls::anyone_all())).await?;
    Ok(admin)
}

/// Until every candidate has its node.
async fn all_stand(admin: &Client, path: &str) -> Result<(), Failure> {
    let all = async {
        loop {
            let (children, watcher) = admin.list_and_watch_children(path).await?;
            if children.len() >= CANDIDATES {
                return Ok(());
            }
            watcher.changed().await;
        }
    };
    timeout(PATIENCE, all).await?
}

/// The first of ours that leads since then.
async fn leads(log: &mut Log, since: Duration) -> Result<Event, Failure> {
    let leads = |event: &&Event| event.what == What::Holds && event.at >= since;
    let found = log.wait_for(Side::Ours, PATIENCE, |events| events.iter().find(leads).copied());
    Ok(found.await.ok_or("no candidate leads")?)
}

/// What must never be: two that lead, or a token that falls. Of events in order.
fn faults(events: &[Event]) -> Vec<String> {
    let mut faults = Vec::new();
    // The last term, and whether it goes on.
    let mut last: Option<(Event, bool)> = None;
    for event in events {
        match (event.what, last) {
            (What::Holds, Some((other, leads))) => {
                let same = other.holder == event.holder;
                if leads && !same {
                    faults.push(format!("two lead: {other:?} and {event:?}"));
                }
                // Only a term on the same node has the same token.
                if event.more < other.more || (!same && event.more == other.more) {
                    faults.push(format!("tokens do not grow: {other:?} and {event:?}"));
                }
                last = Some((*event, true));
            }
            (What::Holds, None) => last = Some((*event, true)),
            (What::Lost, Some((leader, _))) if leader.holder == event.holder => {
                last = Some((leader, false));
            }
            (What::Lost, _) => {}
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use What::{Holds, Lost};

    #[test]
    fn two_that_lead_and_tokens_that_fall_are_faults() {
        type Row<'a> = (&'a [(usize, What, i64)], usize);
        // Holder, what, token; then the number of faults.
        let rows: [Row<'_>; 6] = [
            (&[(1, Holds, 7)], 0),
            (&[(1, Holds, 7), (1, Lost, 0), (2, Holds, 8)], 0),
            (&[(1, Holds, 7), (1, Lost, 0), (1, Holds, 7), (1, Lost, 0), (2, Holds, 8)], 0),
            (&[(1, Holds, 7), (2, Holds, 8)], 1),
            (&[(1, Holds, 7), (1, Lost, 0), (2, Holds, 7)], 1),
            (&[(1, Holds, 7), (2, Holds, 6)], 2),
        ];
        for (events, expected) in rows {
            let event = |&(holder, what, more)| Event { holder, what, at: Duration::ZERO, more };
            let events: Vec<_> = events.iter().map(event).collect();
            assert_eq!(faults(&events).len(), expected, "{events:?}");
        }
    }
}
