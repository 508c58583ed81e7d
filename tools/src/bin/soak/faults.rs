//! Applies one fault, and heals it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};
use tools::Result;
use zookeeper_testkit::TestEnsemble;

use crate::links::Links;
use crate::log::{Log, MILLISECOND, Nanos, Place, Signal, What, now};
use crate::rows::Row;
use crate::schedule::{Kind, MEMBERS, Planned, Which, Whom};

/// How long "the holder" is looked for.
const SEARCH: Duration = Duration::from_secs(1);
const LONG_SEARCH: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(5);
const A_MOMENT: Nanos = 80 * MILLISECOND;

/// What the faults work on.
pub(crate) struct Scene {
    pub(crate) ensemble: TestEnsemble,
    pub(crate) rows: Vec<Mutex<Row>>,
    pub(crate) links: Vec<Links>,
    pub(crate) log: Log,
    /// Held by whatever takes a member from the quorum.
    pub(crate) quorum: Mutex<()>,
}

/// One fault, from begin to end.
pub(crate) async fn apply(scene: Arc<Scene>, number: usize, planned: Planned) -> Result<()> {
    let Planned { kind, whom, lasts, .. } = planned;
    // One member at a time: a later fault of this kind waits for its turn, here.
    let turn = if kind.is_of_the_quorum() { Some(scene.quorum.lock().await) } else { None };
    let fault = Running { scene: &scene, number, kind, lasts };
    match kind {
        Kind::Cut(..) | Kind::Stall(..) | Kind::Delay(..) | Kind::Refuse(_) => {
            fault.links(whom, lasts).await?;
        }
        // Until there was such a message, mostly.
        Kind::LoseRequest(_) | Kind::LoseReply(_) => {
            fault.links(whom, lasts.max(SEARCH * 3)).await?;
        }
        Kind::StopWorker => fault.stop_worker(whom).await?,
        Kind::KillWorker => fault.kill_worker(whom).await?,
        Kind::KillMember(which)
        | Kind::RestartMember(which)
        | Kind::PauseMember(which)
        | Kind::IsolateMember(which)
        | Kind::CutFromClients(which) => fault.member(which).await?,
        Kind::PartMembers(one, other) => fault.part(&[(one, other)]).await?,
        Kind::PartAll => fault.part(&[(0, 1), (1, 2), (2, 0)]).await?,
    }
    scene.log.now(What::Ends { fault: number })?;
    drop(turn);
    Ok(())
}

struct Running<'a> {
    scene: &'a Scene,
    number: usize,
    kind: Kind,
    lasts: Duration,
}

impl Running<'_> {
    fn begins(&self, on: Vec<Place>) -> Result<()> {
        let (kind, detail) = (self.kind.name().to_owned(), format!("{:?}", self.kind));
        Ok(self.scene.log.now(What::Begins { fault: self.number, kind, detail, on })?)
    }

    /// The row of the fault: any row, if none holds within the search. Half of the time it is one that has held for a moment,
    /// because short holds are over before most faults take effect.
    async fn find(&self, whom: Whom) -> Result<usize> {
        let (since, search) = match whom {
            Whom::Row(row) => return Ok(row),
            Whom::Holder => (0, SEARCH),
            Whom::NextHolder => (now(), LONG_SEARCH),
        };
        let held = if whom == Whom::Holder && self.number.is_multiple_of(2) { A_MOMENT } else { 0 };
        let until = Instant::now() + search;
        while Instant::now() < until {
            for row in &self.scene.rows {
                let mut row = row.lock().await;
                row.look()?;
                if !row.held.is_empty() && row.last_hold >= since && now() >= row.last_hold + held {
                    return Ok(row.settings.row);
                }
            }
            sleep(LOOK).await;
        }
        Ok(self.number % self.scene.rows.len())
    }

    async fn links(&self, whom: Whom, lasts: Duration) -> Result<()> {
        let row = self.find(whom).await?;
        self.begins(vec![Place::Row(row)])?;
        let _faults = self.scene.links[row].disturb(self.kind);
        sleep(lasts).await;
        Ok(())
    }

    /// Beyond the end of its session.
    async fn stop_worker(&self, whom: Whom) -> Result<()> {
        let place = self.find(whom).await?;
        let row = &self.scene.rows[place];
        let log = &self.scene.log;
        self.begins(vec![Place::Row(place)])?;
        let worker = {
            let row = row.lock().await;
            row.signal(Signal::Stop, log)?;
            row.settings.clone()
        };
        sleep(worker.timeout.mul_f64(1.2)).await;
        let row = row.lock().await;
        // Another can have taken its row meanwhile.
        if row.settings.generation == worker.generation {
            row.signal(Signal::Continue, log)?;
        }
        Ok(())
    }

    async fn kill_worker(&self, whom: Whom) -> Result<()> {
        let row = self.find(whom).await?;
        self.begins(vec![Place::Row(row)])?;
        self.scene.rows[row].lock().await.replace(&self.scene.log).await
    }

    async fn member(&self, which: Which) -> Result<()> {
        let ensemble = &self.scene.ensemble;
        let number = match which {
            Which::Member(number) => number,
            // While there is none, any.
            Which::Leader => ensemble.leader().await.unwrap_or(self.number % MEMBERS),
        };
        let member = ensemble.member(number);
        self.begins(vec![Place::Member(number)])?;
        match self.kind {
            Kind::KillMember(_) => {
                member.kill().await?;
                sleep(self.lasts).await;
                member.start_again().await?;
            }
            Kind::RestartMember(_) => member.restart().await?,
            Kind::PauseMember(_) => {
                member.pause().await?;
                sleep(self.lasts).await;
                member.resume().await?;
            }
            Kind::IsolateMember(_) => {
                let _fault = ensemble.isolate(number);
                sleep(self.lasts).await;
            }
            _ => {
                let _fault = ensemble.cut_from_clients(number);
                sleep(self.lasts).await;
            }
        }
        Ok(())
    }

    async fn part(&self, pairs: &[(usize, usize)]) -> Result<()> {
        let parted = |member: &usize| pairs.iter().any(|(a, b)| a == member || b == member);
        self.begins((0..MEMBERS).filter(parted).map(Place::Member).collect())?;
        let ensemble = &self.scene.ensemble;
        let part = |(one, other): &(usize, usize)| ensemble.part(*one, *other);
        let _faults: Vec<_> = pairs.iter().map(part).collect();
        sleep(self.lasts).await;
        Ok(())
    }
}
