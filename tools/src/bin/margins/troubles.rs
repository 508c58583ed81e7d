//! Holders of both sides hold, something breaks, and the moments at which they knew are set beside those at which their
//! nodes were deleted.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tools::{Failure, date_and_commit, load_average, now};
use zookeeper_recipes::zookeeper_client::{Acls, Client, CreateMode, EventType};
use zookeeper_testkit::{Direction, TestEnsemble, random_path};

use crate::peer::{Event, Log, PATIENCE, Peer, Side, What};

const SESSIONS: [Duration; 3] =
    [Duration::from_secs(2), Duration::from_secs(3), Duration::from_secs(6)];
const RECIPES: [&str; 2] = ["mutex", "latch"];
/// How many of each recipe and session timeout of each side, each at another phase of its probes.
const PHASES: u32 = 2;
const STOPPED: Duration = Duration::from_secs(4);
/// Longer than any session lives on its own, rounding and a busy machine included.
const EXPIRY: Duration = Duration::from_secs(14);

/// One holder, for one round.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    trouble: String,
    session: Duration,
    recipe: &'static str,
    side: Side,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    /// In seconds, from the moment at which the process saw that it does not hold until the node was deleted; and whether
    /// it saw after that moment that it holds.
    Margin(f64, bool),
    /// The node was deleted, and the process never saw that.
    NotNoticed,
    /// The session outlived the trouble.
    Kept,
}

/// A quorum of three in which one member is disturbed, and the worker processes of both sides.
struct Quorum {
    ensemble: TestEnsemble,
    leader: usize,
    follower: usize,
    /// Connected to the member that no trouble concerns.
    observer: Client,
    peers: Vec<(Side, Peer)>,
    log: Log,
    next: usize,
}

/// Whether no holder of ours saw itself as the holder when its node was deleted.
pub(crate) async fn run(rounds: usize, troubles: &[&str]) -> Result<bool, Failure> {
    // As in the sample configuration, a follower gives up on its leader after five ticks.
    let builder = TestEnsemble::builder(3).tick_time(Duration::from_secs(1));
    let ensemble = builder.property("syncLimit", "5").start().await?;
    let leader = ensemble.leader().await?;
    let followers: Vec<_> = (0..3).filter(|member| *member != leader).collect();
    let patient = Client::connector().with_session_timeout(Duration::from_secs(20));
    let observer = patient.connect(ensemble.member(followers[1]).connect_string()).await?;
    let (sender, log) = Log::new();
    let mut peers = vec![(Side::Ours, Peer::ours(&sender)?)];
    peers.extend(Peer::curator(&sender)?.map(|peer| (Side::Curator, peer)));
    let follower = followers[0];
    let mut quorum = Quorum { ensemble, leader, follower, observer, peers, log, next: 0 };
    let mut outcomes: BTreeMap<Kind, Vec<Outcome>> = BTreeMap::new();
    for trouble in troubles {
        for round in 1..=rounds {
            for (kind, outcome) in quorum.round(trouble).await? {
                outcomes.entry(kind).or_default().push(outcome);
            }
            println!("{trouble}: round {round} of {rounds}");
        }
    }
    drop((quorum.peers, quorum.observer));
    quorum.ensemble.close().await?;
    print(&outcomes);
    let ours = outcomes.iter().filter(|(kind, _)| kind.side == Side::Ours);
    let bad = |outcome: &Outcome| matches!(outcome, Outcome::Margin(_, true) | Outcome::NotNoticed);
    Ok(!ours.flat_map(|(_, outcomes)| outcomes).any(bad))
}

impl Quorum {
    async fn round(&mut self, trouble: &str) -> Result<Vec<(Kind, Outcome)>, Failure> {
        self.ensemble.serving().await?;
        if self.ensemble.leader().await? != self.leader {
            return Err("another server leads by now".into());
        }
        let holders = self.holders(trouble).await?;
        let (deleted, mut watches) = self.watch(&holders).await?;
        // Long enough for every holder to have renewed its lease.
        sleep(SESSIONS[0]).await;
        let all_deleted = async {
            // Some outlive the trouble.
            let _ = timeout(EXPIRY, async { while watches.join_next().await.is_some() {} }).await;
        };
        match trouble {
            "stalled" => {
                let fault = self.ensemble.member(self.follower).proxy().stall(Direction::Both);
                all_deleted.await;
                drop(fault);
            }
            "cut-off" => {
                let fault = self.ensemble.part(self.follower, self.leader);
                all_deleted.await;
                drop(fault);
            }
            _ => {
                let member = self.ensemble.member(self.leader);
                member.pause().await?;
                sleep(STOPPED).await;
                member.resume().await?;
                let _ = timeout(Duration::from_secs(5), all_deleted).await;
            }
        }
        // A notice may come late.
        sleep(SESSIONS[2]).await;
        let mut logs = BTreeMap::new();
        for (side, peer) in &mut self.peers {
            logs.insert(*side, self.log.of(*side));
            peer.end().await?;
        }
        let deleted = deleted.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let outcomes = holders.into_iter().zip(deleted).map(|((kind, number, _), deleted)| {
            let is_it = |what, event: &&Event| event.holder == number && event.what == what;
            let lost = logs[&kind.side].iter().find(|event| is_it(What::Lost, event));
            let outcome = match (lost, deleted) {
                (_, None) => Outcome::Kept,
                (None, Some(_)) => Outcome::NotNoticed,
                (Some(lost), Some(deleted)) => {
                    let last = Duration::from_nanos(lost.more.unsigned_abs());
                    let margin = deleted.as_secs_f64() - lost.at.as_secs_f64();
                    Outcome::Margin(margin, last > deleted)
                }
            };
            (kind, outcome)
        });
        Ok(outcomes.collect())
    }

    /// All of them hold; with their nodes.
    async fn holders(&mut self, trouble: &str) -> Result<Vec<(Kind, usize, String)>, Failure> {
        let servers = self.ensemble.member(self.follower).connect_string();
        let mut holders = Vec::new();
        for session in SESSIONS {
            for phase in 0..PHASES * RECIPES.len() as u32 {
                let recipe = RECIPES[(phase / PHASES) as usize];
                for (side, peer) in &mut self.peers {
                    let (side, path) = (*side, random_path("margin"));
                    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
                    self.observer.mkdir(&path, &options).await?;
                    let number = self.next;
                    self.next += 1;
                    peer.hold(number, recipe, servers, &path, session).await?;
                    let holds =
                        |event: &&Event| event.holder == number && event.what == What::Holds;
                    let held = self
                        .log
                        .wait_for(side, PATIENCE, |events| events.iter().find(holds).copied());
                    held.await.ok_or("a holder does not hold")?;
                    self.observer.sync("/").await?;
                    let children = self.observer.list_children(&path).await?;
                    // Without a node its session is over, as a short one may be on a busy machine.
                    let Some(child) = children.first() else { continue };
                    let kind = Kind { trouble: trouble.to_owned(), session, recipe, side };
                    holders.push((kind, number, format!("{path}/{child}")));
                }
                sleep(session / 7 / PHASES).await;
            }
        }
        Ok(holders)
    }

    async fn watch(
        &self,
        holders: &[(Kind, usize, String)],
    ) -> Result<(Deleted, JoinSet<()>), Failure> {
        let deleted: Deleted = Arc::new(Mutex::new(vec![None; holders.len()]));
        let mut watches = JoinSet::new();
        for (index, (_, _, node)) in holders.iter().enumerate() {
            let (_, watcher) = self.observer.check_and_watch_stat(node).await?;
            let deleted = deleted.clone();
            watches.spawn(async move {
                if watcher.changed().await.event_type == EventType::NodeDeleted {
                    deleted.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(now());
                }
            });
        }
        Ok((deleted, watches))
    }
}

/// When each holder's node was deleted.
type Deleted = Arc<Mutex<Vec<Option<Duration>>>>;

/// The least and the median of both sides, as `docs/internals/testing.md` has them.
fn print(outcomes: &BTreeMap<Kind, Vec<Outcome>>) {
    let heading = format!(
        "{}, {} processors, load average at the end {}",
        date_and_commit(),
        std::thread::available_parallelism().map_or(0, usize::from),
        load_average(),
    );
    println!(
        "\n{heading}\n\nSeconds from the moment at which the holder's process saw that it does not hold until its node was deleted: \
         the least and the median. Negative: the node was deleted first.\n\n\
         | trouble | `T` | recipe | side | margin |\n| --- | --: | --- | --- | --- |"
    );
    for (Kind { trouble, session, recipe, side }, outcomes) in outcomes {
        let margin = |outcome: &Outcome| match outcome {
            Outcome::Margin(seconds, _) => Some(*seconds),
            Outcome::NotNoticed | Outcome::Kept => None,
        };
        let mut margins: Vec<f64> = outcomes.iter().filter_map(margin).collect();
        margins.sort_by(f64::total_cmp);
        let mut parts = Vec::new();
        if let (Some(least), Some(median)) = (margins.first(), margins.get(margins.len() / 2)) {
            parts.push(format!("{least:+.2}, {median:+.2}"));
        }
        let held = |outcome: &&Outcome| matches!(outcome, Outcome::Margin(_, true));
        for (count, what) in [
            (outcomes.iter().filter(held).count(), "**held when it was deleted**"),
            (outcomes.iter().filter(|o| **o == Outcome::NotNoticed).count(), "**never noticed**"),
            (outcomes.iter().filter(|o| **o == Outcome::Kept).count(), "sessions outlive it"),
        ] {
            if count > 0 {
                parts.push(format!("{count} of {} {what}", outcomes.len()));
            }
        }
        let (seconds, parts) = (session.as_secs(), parts.join("; "));
        println!("| {trouble} | {seconds} | {recipe} | {side} | {parts} |");
    }
}
