//! Follows who leads, from the orchestrator's process, and logs what it is told.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::sleep;
use zookeeper_recipes::{Curator, LeaderObserver, RetryPolicy};
use zookeeper_testkit::{TestEnsemble, kill_session};

use crate::Result;
use crate::checker::PATIENCE;
use crate::links::{Faults, Links};
use crate::log::{Event, Log, Tail, What, now, observer_log};
use crate::naive;
use crate::schedule::Kind;
use crate::settings::{Candidates, LOCK};

const SESSION: Duration = Duration::from_millis(2500);
/// One fault of so many on a worker's links, or on its session, is one on ours as well.
const SHARE: usize = 4;
const LOOK: Duration = Duration::from_millis(20);

pub(crate) struct Observer {
    /// Of the crate's.
    client: Option<(Curator, Links)>,
    log: PathBuf,
    task: JoinHandle<()>,
}

impl Observer {
    pub(crate) async fn start(
        ensemble: &TestEnsemble,
        kind: Candidates,
        folder: &Path,
    ) -> Result<Self> {
        let links = Links::start(ensemble).await?;
        let curator = Curator::builder()
            .session_timeout(SESSION)
            .retry(RetryPolicy::forever(Duration::from_millis(100)))
            .connect(&links.connect_string(None))
            .await?;
        let observer = match kind {
            Candidates::Latches => LeaderObserver::of_latch(&curator, LOCK)?,
            Candidates::Selectors => LeaderObserver::of_selector(&curator, LOCK)?,
        };
        let log = Log::open(&observer_log(folder))?;
        let follow = follow(observer, log.clone());
        Ok(Self::of(Some((curator, links)), folder, log, follow))
    }

    /// One that is broken on purpose.
    pub(crate) fn start_naive(ensemble: &TestEnsemble, folder: &Path) -> Result<Self> {
        let members = ensemble.members().iter().map(|one| one.connect_string().to_owned());
        let log = Log::open(&observer_log(folder))?;
        let follow = naive::observe(members.collect(), log.clone());
        Ok(Self::of(None, folder, log, follow))
    }

    fn of(
        client: Option<(Curator, Links)>,
        folder: &Path,
        log: Log,
        follow: impl Future<Output = Result<()>> + Send + 'static,
    ) -> Self {
        let task = tokio::spawn(async move {
            if let Err(error) = follow.await {
                let _ = log.now(What::GaveUp { why: error.to_string() });
            }
        });
        Self { client, log: observer_log(folder), task }
    }

    /// What hits a worker's links.
    pub(crate) fn disturb(&self, number: usize, kind: Kind) -> Faults {
        match &self.client {
            Some((_, links)) if number.is_multiple_of(SHARE) => links.disturb(kind),
            _ => Faults::new(),
        }
    }

    pub(crate) async fn kill_session(&self, number: usize, servers: &str) {
        let Some((curator, _)) = &self.client else { return };
        if number.is_multiple_of(SHARE)
            && let Ok(client) = curator.client()
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
                if let Some((curator, _)) = &self.client {
                    curator.close().await?;
                }
                return Ok(events);
            }
            sleep(LOOK).await;
        }
    }
}

async fn follow(mut observer: LeaderObserver, log: Log) -> Result<()> {
    loop {
        let leader = observer.changed().await?;
        let leader =
            leader.map(|leader| (leader.id().into_owned(), leader.fencing_token().value()));
        log.now(What::Observes { leader })?;
    }
}
