//! One round: everybody holds, something breaks, and it is seen who knew when.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use zookeeper_recipes::zookeeper_client::{Client, EventType};
use zookeeper_testkit::{Direction, TestEnsemble, random_path};

use crate::Failure;
use crate::curator::CuratorProcess;
use crate::holders::{Alive, Holder, Kind};

const TIMEOUTS: [Duration; 3] =
    [Duration::from_secs(2), Duration::from_secs(3), Duration::from_secs(6)];

/// How many of each kind for each timeout in a round, each at another phase of its probes.
const PHASES: u32 = 4;

const FROZEN: Duration = Duration::from_secs(4);

/// Longer than any session lives on its own, rounding and the noise of the machine included.
const PATIENCE: Duration = Duration::from_secs(14);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scenario {
    LinkStalled,
    FollowerCutOff,
    LeaderFrozen,
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Scenario::LinkStalled => "link stalled",
            Scenario::FollowerCutOff => "follower cut off",
            Scenario::LeaderFrozen => "leader frozen for 4 s",
        })
    }
}

impl FromStr for Scenario {
    type Err = Failure;

    fn from_str(name: &str) -> Result<Self, Failure> {
        match name {
            "stalled" => Ok(Scenario::LinkStalled),
            "cut-off" => Ok(Scenario::FollowerCutOff),
            "frozen" => Ok(Scenario::LeaderFrozen),
            _ => Err(format!("no scenario `{name}`: stalled, cut-off, frozen").into()),
        }
    }
}

pub(crate) struct Measured {
    pub(crate) kind: Kind,
    pub(crate) timeout: Duration,
    pub(crate) outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// In seconds, from the end of the belief to the end of the node.
    Margin(f64),
    /// The node was gone, and the belief went on.
    NeverTold,
    /// The session outlived it.
    Kept,
}

pub(crate) struct Stage {
    ensemble: TestEnsemble,
    leader: usize,
    follower: usize,
    /// Connected to the leader and to the other follower.
    observer: Client,
    path: String,
    curator: Option<CuratorProcess>,
    /// How long `acquire_timeout` of one second took on a stalled link.
    black_hole: Vec<Duration>,
}

impl Stage {
    pub(crate) async fn new(ensemble: TestEnsemble) -> Result<Self, Failure> {
        let leader = ensemble.leader().await?;
        let followers: Vec<_> = (0..3).filter(|member| *member != leader).collect();
        let (follower, other) = (followers[0], followers[1]);
        // In the second scenario the leader does not answer.
        let servers = ensemble.member(other).connect_string().to_owned();
        let patient = Client::connector().with_session_timeout(Duration::from_secs(20));
        let observer = patient.connect(&servers).await?;
        let path = random_path("margin");
        let servers = ensemble.member(follower).connect_string();
        let curator = CuratorProcess::start(servers, &path, &TIMEOUTS)?;
        let black_hole = Vec::new();
        Ok(Self { ensemble, leader, follower, observer, path, curator, black_hole })
    }

    pub(crate) async fn close(self) -> Result<(), Failure> {
        if let Some(longest) = self.black_hole.iter().max() {
            println!("acquire_timeout(1 s) in a black hole: at most {longest:.2?}");
        }
        drop((self.curator, self.observer));
        Ok(self.ensemble.close().await?)
    }

    pub(crate) async fn round(
        &mut self,
        scenario: Scenario,
        round: usize,
    ) -> Result<Vec<Measured>, Failure> {
        self.ensemble.serving().await?;
        if self.ensemble.leader().await? != self.leader {
            return Err("another member leads by now".into());
        }
        let mut alive = Alive::default();
        let holders = self.holders(&mut alive, scenario, round).await?;
        let mut nodes = self.watch(&holders).await?;
        // Long enough for every holder to have renewed its lease.
        sleep(TIMEOUTS[0]).await;
        match scenario {
            Scenario::LinkStalled => {
                let fault = self.ensemble.member(self.follower).proxy().stall(Direction::Both);
                self.black_hole.push(alive.acquire_in_vain(&format!("{}-free", self.path)).await?);
                nodes.all_gone(PATIENCE).await;
                beliefs_end(&holders, PATIENCE).await;
                drop(fault);
            }
            Scenario::FollowerCutOff => {
                let fault = self.ensemble.part(self.follower, self.leader);
                nodes.all_gone(PATIENCE).await;
                beliefs_end(&holders, PATIENCE).await;
                drop(fault);
            }
            Scenario::LeaderFrozen => {
                self.ensemble.member(self.leader).pause().await?;
                sleep(FROZEN).await;
                self.ensemble.member(self.leader).resume().await?;
                nodes.all_gone(Duration::from_secs(5)).await;
            }
        }
        let measured = holders.iter().zip(nodes.gone());
        let measured = measured.map(|(holder, gone)| Measured {
            kind: holder.kind,
            timeout: holder.timeout,
            outcome: outcome(holder, gone),
        });
        Ok(measured.collect())
    }

    async fn holders(
        &mut self,
        alive: &mut Alive,
        scenario: Scenario,
        round: usize,
    ) -> Result<Vec<Holder>, Failure> {
        let servers = self.ensemble.member(self.follower).connect_string();
        let mut holders = Vec::new();
        let name = format!("{scenario:?}-{round}");
        for session in TIMEOUTS {
            for phase in 0..PHASES {
                let path = |kind: &str| {
                    format!("{}/{name}-{kind}-{}-{phase}", self.path, session.as_secs())
                };
                holders.push(alive.ours(servers, &path("ours"), session).await?);
                holders.push(alive.reading(servers, &path("reading"), session).await?);
                sleep(session / 7 / PHASES).await;
            }
        }
        if let Some(curator) = &mut self.curator {
            for (kind, session, name, belief) in curator.acquire(&name).await? {
                let path = format!("{}/{name}", self.path);
                self.observer.sync("/").await?;
                let children = self.observer.list_children(&path).await?;
                // Without a node its session is over already, as on a busy machine a short one may be.
                let Some(child) = children.first() else { continue };
                let node = format!("{path}/{child}");
                holders.push(Holder { kind, timeout: session, node, belief });
            }
        }
        Ok(holders)
    }

    /// Watches every holder's node, from a member that the fault does not concern.
    async fn watch(&self, holders: &[Holder]) -> Result<Nodes, Failure> {
        let gone: Gone = Arc::new(Mutex::new(vec![None; holders.len()]));
        let mut watches = JoinSet::new();
        self.observer.sync("/").await?;
        for (index, holder) in holders.iter().enumerate() {
            let (_, watcher) = self.observer.check_and_watch_stat(&holder.node).await?;
            let gone = gone.clone();
            watches.spawn(async move {
                let event = watcher.changed().await;
                if event.event_type == EventType::NodeDeleted
                    && let Ok(mut gone) = gone.lock()
                {
                    gone[index] = Some(Instant::now());
                }
            });
        }
        Ok(Nodes { gone, watches })
    }
}

type Gone = Arc<Mutex<Vec<Option<Instant>>>>;

/// When each holder's node was deleted.
struct Nodes {
    gone: Gone,
    watches: JoinSet<()>,
}

impl Nodes {
    async fn all_gone(&mut self, patience: Duration) {
        let all = async { while self.watches.join_next().await.is_some() {} };
        // Some may outlive it.
        let _ = timeout(patience, all).await;
    }

    fn gone(&self) -> Vec<Option<Instant>> {
        self.gone.lock().map(|gone| gone.clone()).unwrap_or_default()
    }
}

/// Those that ever end.
async fn beliefs_end(holders: &[Holder], patience: Duration) {
    let mortal = |holder: &&Holder| holder.kind != Kind::CuratorMutex;
    let ended = |holder: &Holder| holder.belief.lock().is_ok_and(|belief| belief.is_some());
    let all = async {
        while !holders.iter().filter(mortal).all(ended) {
            sleep(Duration::from_millis(5)).await;
        }
    };
    // What did not end by then is told so.
    let _ = timeout(patience, all).await;
}

fn outcome(holder: &Holder, gone: Option<Instant>) -> Outcome {
    let ended = holder.belief.lock().ok().and_then(|belief| *belief);
    match (ended, gone) {
        (_, None) => Outcome::Kept,
        (None, Some(_)) => Outcome::NeverTold,
        (Some(ended), Some(gone)) if ended > gone => {
            Outcome::Margin(-ended.duration_since(gone).as_secs_f64())
        }
        (Some(ended), Some(gone)) => Outcome::Margin(gone.duration_since(ended).as_secs_f64()),
    }
}
