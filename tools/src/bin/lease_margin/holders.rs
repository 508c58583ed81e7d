//! Who believes to hold, and until when.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::{interval, sleep};
use zookeeper_recipes::zookeeper_client::{Acls, Client, CreateMode, Error};
use zookeeper_recipes::{AcquireError, Curator, InterProcessMutex, MutexGuard};

use crate::Failure;

/// Whose belief it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Ours,
    /// Renews its lease by the answers to reads.
    ReadProbe,
    CuratorMutex,
    CuratorLatch,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::Ours => "this crate's mutex",
            Kind::ReadProbe => "any read renews",
            Kind::CuratorMutex => "Curator's mutex",
            Kind::CuratorLatch => "Curator's latch",
        })
    }
}

/// A belief: when it ended, if it has.
pub(crate) type Belief = Arc<Mutex<Option<Instant>>>;

/// One holder, for one round.
pub(crate) struct Holder {
    pub(crate) kind: Kind,
    pub(crate) timeout: Duration,
    /// The node by which it holds.
    pub(crate) node: String,
    pub(crate) belief: Belief,
}

const TRIES: usize = 10;

/// A session with a node.
async fn ephemeral(
    servers: &str,
    path: &str,
    node: &str,
    timeout: Duration,
) -> Result<Client, Error> {
    let client = Client::connector().with_session_timeout(timeout).connect(servers).await?;
    let persistent = CreateMode::Persistent.with_acls(Acls::anyone_all());
    client.mkdir(path, &persistent).await?;
    client.create(node, b"", &CreateMode::Ephemeral.with_acls(Acls::anyone_all())).await?;
    Ok(client)
}

/// What keeps the holders of a round alive.
#[derive(Default)]
pub(crate) struct Alive {
    guards: Vec<(Curator, MutexGuard)>,
    clients: Vec<Client>,
    watchers: JoinSet<()>,
}

impl Alive {
    /// Ours: `is_held()` is asked every other millisecond.
    pub(crate) async fn ours(
        &mut self,
        servers: &str,
        path: &str,
        timeout: Duration,
    ) -> Result<Holder, Failure> {
        let curator = Curator::builder().session_timeout(timeout).connect(servers).await?;
        let guard = InterProcessMutex::new(&curator, path)?.acquire().await?;
        let (node, belief) = (guard.node().to_owned(), Belief::default());
        let nested = guard.reenter();
        self.watch(belief.clone(), move || nested.is_held());
        self.guards.push((curator, guard));
        Ok(Holder { kind: Kind::Ours, timeout, node, belief })
    }

    /// How long it takes to learn that no lock can be had within a second.
    pub(crate) async fn acquire_in_vain(&self, path: &str) -> Result<Duration, Failure> {
        let (curator, _) = self.guards.first().ok_or("nobody holds")?;
        let mutex = InterProcessMutex::new(curator, path)?;
        let began = Instant::now();
        match mutex.acquire_timeout(Duration::from_secs(1)).await {
            Err(AcquireError::TimedOut { .. }) => Ok(began.elapsed()),
            other => Err(format!("a lock in a black hole: {other:?}").into()),
        }
    }

    /// A lease of two thirds after the newest answered read.
    pub(crate) async fn reading(
        &mut self,
        servers: &str,
        path: &str,
        timeout: Duration,
    ) -> Result<Holder, Failure> {
        // On a busy machine such a session may be over before it has its node.
        let mut tries = (1..=TRIES).peekable();
        let (client, node) = loop {
            let node = format!("{path}/holder-{}", tries.next().unwrap_or_default());
            match ephemeral(servers, path, &node, timeout).await {
                Ok(client) => break (client, node),
                Err(_) if tries.peek().is_some() => {}
                Err(error) => return Err(error.into()),
            }
        };
        let end = Arc::new(Mutex::new(Instant::now() + timeout * 2 / 3));
        let (prober, probed, ends) = (client.clone(), node.clone(), end.clone());
        self.watchers.spawn(async move {
            let mut ticks = interval(timeout / 7);
            let mut answers = JoinSet::new();
            loop {
                ticks.tick().await;
                while answers.try_join_next().is_some() {}
                let stamp = Instant::now();
                let (prober, probed, ends) = (prober.clone(), probed.clone(), ends.clone());
                answers.spawn(async move {
                    if prober.get_data(&probed).await.is_ok() {
                        let end = stamp + timeout * 2 / 3;
                        let mut ends = ends.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                        *ends = end.max(*ends);
                    }
                });
            }
        });
        let belief = Belief::default();
        self.watch(belief.clone(), move || {
            let end = *end.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            Instant::now() < end
        });
        self.clients.push(client);
        Ok(Holder { kind: Kind::ReadProbe, timeout, node, belief })
    }

    /// The belief ends with the last yes: when the no is heard, a busy machine may have kept this process from asking.
    fn watch(&mut self, belief: Belief, holds: impl Fn() -> bool + Send + 'static) {
        self.watchers.spawn(async move {
            let mut last = Instant::now();
            loop {
                let asked = Instant::now();
                if !holds() {
                    break;
                }
                last = asked;
                sleep(Duration::from_millis(2)).await;
            }
            end(&belief, last);
        });
    }
}

/// It ended at this moment, unless it had before.
pub(crate) fn end(belief: &Belief, at: Instant) {
    let mut belief = belief.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    belief.get_or_insert(at);
}
