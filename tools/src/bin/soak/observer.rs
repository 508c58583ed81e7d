//! Follows who leads, from the orchestrator's process, and logs what it is told.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::sleep;
use tools::Result;
use zookeeper_recipes::Curator;
use zookeeper_recipes::leader::LeaderObserver;
use zookeeper_recipes::session::RetryPolicy;
use zookeeper_testkit::{TestEnsemble, kill_session};

use crate::checker::PATIENCE;
use crate::links::{Faults, Links};
use crate::log::{Event, Log, Tail, What, now};
use crate::schedule::Kind;
use crate::settings::LOCK;

const SESSION: Duration = Duration::from_millis(2500);
/// One fault of so many on a worker's links, or on its session, is one on ours as well.
const SHARE: usize = 4;
const LOOK: Duration = Duration::from_millis(20);

pub(crate) struct Observer {
    curator: Curator,
    links: Links,
    log: PathBuf,
    task: JoinHandle<()>,
}

impl Observer {
    pub(crate) async fn start(ensemble: &TestEnsemble, folder: &Path) -> Result<Self> {
        let links = Links::start(ensemble).await?;
        let curator = Curator::builder()
            .session_timeout(SESSION)
            .retry(RetryPolicy::forever(Duration::from_millis(100)))
            .connect(&links.connect_string())
            .await?;
        let observer = curator.observe_leader(LOCK)?;
        let path = folder.join("observer.log");
        let log = Log::open(&path)?;
        let task = tokio::spawn(async move {
            if let Err(error) = follow(observer, log.clone()).await {
                let _ = log.now(What::GaveUp { why: error.to_string() });
            }
        });
        Ok(Self { curator, links, log: path, task })
    }

    /// What hits a worker's links.
    pub(crate) fn disturb(&self, number: usize, kind: Kind) -> Faults {
        if number.is_multiple_of(SHARE) { self.links.disturb(kind) } else { Faults::new() }
    }

    pub(crate) async fn kill_session(&self, number: usize, servers: &str) {
        if number.is_multiple_of(SHARE)
            && let Ok(client) = self.curator.client()
        {
            let info = client.session().clone();
            drop(client);
            // Over already is over as well.
            let _ = kill_session(servers, &info).await;
        }
    }

    /// Waits until it was told that nobody leads, but not beyond the patience; then it ends.
    pub(crate) async fn end(&self) -> Result<Vec<Event>> {
        let until = now() + PATIENCE;
        loop {
            let events = Tail::default().news(&self.log)?;
            let told = events.last().map(|event| &event.1);
            if matches!(told, Some(What::Observes { leader: None })) || now() > until {
                self.task.abort();
                self.curator.close().await;
                return Ok(events);
            }
            sleep(LOOK).await;
        }
    }
}

async fn follow(mut observer: LeaderObserver, log: Log) -> Result<()> {
    loop {
        let leader = observer.changed().await?;
        let leader = leader.map(|leader| {
            let token = leader.fencing_token.map_or(0, |token| token.value());
            (leader.identity.unwrap_or_default(), token)
        });
        log.now(What::Observes { leader })?;
    }
}
