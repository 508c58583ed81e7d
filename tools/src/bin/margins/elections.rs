//! Three candidates of each side elect a leader on a quorum of three, while servers are restarted or the leader is killed.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tools::{Failure, now};
use zookeeper_recipes::zookeeper_client::{Acls, Client, CreateMode};
use zookeeper_testkit::{TestEnsemble, random_path};

use crate::peer::{Event, Log, PATIENCE, Peer, Side, What};

const CANDIDATES: usize = 3;
const SESSION: Duration = Duration::from_secs(6);
/// Sessions expire at ticks.
const TICK: Duration = Duration::from_millis(500);
/// For which all servers serve before the next one is restarted.
const PAUSE: Duration = Duration::from_secs(1);
/// A shorter disconnection loses nothing: the lease is two thirds of the session, and a seventh of the session may have passed
/// since the last probe.
const DISCONNECTION_LIMIT: Duration = Duration::from_secs(3);
const TRIES: usize = 5;

/// Whether our leadership never changed. A run with a longer disconnection than that does not count if it was lost.
pub(crate) async fn restarts(rounds: usize) -> Result<bool, Failure> {
    for _ in 0..TRIES {
        let ensemble = TestEnsemble::builder(3).tick_time(TICK).start().await?;
        let kept = restarted(&ensemble, rounds).await;
        ensemble.close().await?;
        if let Some(kept) = kept? {
            return Ok(kept);
        }
        println!("disconnected for more than {DISCONNECTION_LIMIT:?}: this run does not count");
    }
    Err(format!("{TRIES} times disconnected for more than {DISCONNECTION_LIMIT:?}").into())
}

async fn restarted(ensemble: &TestEnsemble, rounds: usize) -> Result<Option<bool>, Failure> {
    let servers = ensemble.connect_string();
    let (sender, mut log) = Log::new();
    let mut peers = vec![(Side::Ours, Peer::ours(&sender)?)];
    peers.extend(Peer::curator(&sender)?.map(|peer| (Side::Curator, peer)));
    for (side, peer) in &mut peers {
        let path = random_path("restarts");
        let admin = parent(servers, &path).await?;
        for candidate in 0..CANDIDATES {
            peer.hold(candidate, "latch", servers, &path, SESSION).await?;
        }
        all_stand(&admin, &path).await?;
        calm(&mut log, *side).await?;
    }
    for round in 1..=rounds {
        for member in ensemble.members() {
            member.restart().await?;
            ensemble.serving().await?;
            sleep(PAUSE).await;
        }
        println!("restarts: round {round} of {rounds}");
    }
    println!("\n{} restarts of a server; sessions of {SESSION:?}", 3 * rounds);
    let mut ours = Tally::default();
    for (side, _) in &peers {
        calm(&mut log, *side).await?;
        let tally = Tally::of(&log.of(*side), now());
        let Tally { disconnections, losses, another, faults, .. } = &tally;
        let Tally { longest_disconnection, longest_without_leader, .. } = &tally;
        println!(
            "{side} latch: connections broken {disconnections}, for at most {longest_disconnection:.2?}, leadership lost {}, another led next {another}, \
             longest time without a leader {longest_without_leader:.2?}, faults {faults:?}",
            losses.len()
        );
        if *side == Side::Ours {
            ours = tally;
        }
    }
    Ok(match (ours.faults.is_empty(), ours.losses.is_empty()) {
        (true, true) => Some(true),
        (true, false) if ours.longest_disconnection > DISCONNECTION_LIMIT => None,
        _ => Some(false),
    })
}

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
    let tally = Tally::of(&log.of(Side::Ours), now());
    took.sort_by(f64::total_cmp);
    let [least, median, most] = [0, took.len() / 2, took.len().saturating_sub(1)]
        .map(|index| took.get(index).copied().unwrap_or_default());
    println!(
        "\n{rounds} leaders killed; sessions of {SESSION:?}, ticks of {TICK:?}; the next leads after {least:.2} s, \
         median {median:.2} s, at most {most:.2} s; faults: {:?}",
        tally.faults
    );
    Ok(tally.faults.is_empty())
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

/// Until each candidate that was ever disconnected is connected again, and one leads.
async fn calm(log: &mut Log, side: Side) -> Result<(), Failure> {
    let calm = |events: &[Event]| {
        let last = |wanted: &dyn Fn(&Event) -> bool| events.iter().rev().find(|e| wanted(e));
        let connected = events.iter().all(|event| {
            let link = |e: &Event| matches!(e.what, What::Suspended | What::Connected);
            last(&|e| e.holder == event.holder && link(e)).is_none_or(|e| e.what == What::Connected)
        });
        let term = last(&|e| matches!(e.what, What::Holds | What::Lost));
        (connected && term.is_some_and(|e| e.what == What::Holds)).then_some(())
    };
    let found = log.wait_for(side, PATIENCE, calm).await;
    found.ok_or_else(|| format!("{side}: not led, or not connected, after {PATIENCE:?}").into())
}

/// What the events of one side come to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Tally {
    /// How often a candidate's connection broke.
    disconnections: usize,
    longest_disconnection: Duration,
    /// When leadership was lost.
    losses: Vec<Duration>,
    /// How often another candidate led next.
    another: usize,
    longest_without_leader: Duration,
    /// What must never be.
    faults: Vec<String>,
}

impl Tally {
    /// Of events in order, until `end`.
    fn of(events: &[Event], end: Duration) -> Self {
        let mut tally = Self::default();
        // The last term, and whether it goes on.
        let mut last: Option<(Event, bool)> = None;
        let mut lost = None;
        let mut suspended = BTreeMap::new();
        for event in events {
            match (event.what, last) {
                (What::Holds, Some((other, leads))) => {
                    let same = other.holder == event.holder;
                    if leads && !same {
                        tally.faults.push(format!("two lead: {other:?} and {event:?}"));
                    }
                    // Only a term on the same node has the same token.
                    if event.more < other.more
                        || (!same && event.more == other.more && event.more > 0)
                    {
                        tally.faults.push(format!("tokens do not grow: {other:?} and {event:?}"));
                    }
                    tally.another += usize::from(!same);
                    tally.ends_without(lost.take().unwrap_or(event.at), event.at);
                    last = Some((*event, true));
                }
                (What::Holds, None) => last = Some((*event, true)),
                (What::Lost, Some((leader, true))) if leader.holder == event.holder => {
                    tally.losses.push(event.at);
                    lost = Some(event.at);
                    last = Some((leader, false));
                }
                (What::Suspended, _) => {
                    tally.disconnections += 1;
                    suspended.insert(event.holder, event.at);
                }
                (What::Connected, _) => {
                    let since = suspended.remove(&event.holder).unwrap_or(event.at);
                    let lasted = event.at.saturating_sub(since);
                    tally.longest_disconnection = tally.longest_disconnection.max(lasted);
                }
                (What::Lost, _) => {}
            }
        }
        tally.ends_without(lost.unwrap_or(end), end);
        tally
    }

    fn ends_without(&mut self, since: Duration, until: Duration) {
        let without = until.saturating_sub(since);
        self.longest_without_leader = self.longest_without_leader.max(without);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use What::{Connected, Holds, Lost, Suspended};

    #[test]
    fn losses_and_faults_are_counted() {
        type Row<'a> = (&'a [(usize, What, u64, i64)], (u64, usize, usize, u64, usize));
        // Holder, what, second, token; then longest disconnection, losses, another next, longest without a leader, faults.
        let rows: [Row<'_>; 4] = [
            (&[(1, Holds, 1, 7), (1, Suspended, 2, 0), (1, Connected, 5, 0)], (3, 0, 0, 0, 0)),
            (
                &[
                    (1, Holds, 1, 7),
                    (1, Lost, 2, 0),
                    (1, Holds, 4, 7),
                    (1, Lost, 5, 0),
                    (2, Holds, 6, 8),
                ],
                (0, 2, 1, 2, 0),
            ),
            (&[(1, Holds, 1, 7), (1, Lost, 6, 0)], (0, 1, 0, 3, 0)),
            (&[(1, Holds, 1, 7), (2, Holds, 2, 7)], (0, 0, 1, 0, 2)),
        ];
        for (events, expected) in rows {
            let event = |&(holder, what, at, more)| Event {
                holder,
                what,
                at: Duration::from_secs(at),
                more,
            };
            let events: Vec<_> = events.iter().map(event).collect();
            let tally = Tally::of(&events, Duration::from_secs(9));
            let without = tally.longest_without_leader.as_secs();
            let disconnected = tally.longest_disconnection.as_secs();
            let found =
                (disconnected, tally.losses.len(), tally.another, without, tally.faults.len());
            assert_eq!(found, expected, "{events:?}");
        }
    }
}
