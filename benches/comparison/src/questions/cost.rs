//! What a cycle of acquire and release costs that nobody disturbs.
//!
//! In turns: in each round every way has one, and who begins changes from round to round, so that what disturbs the machine
//! disturbs all of them.

use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::join_all;

use crate::Failure;
use crate::finding::{Finding, Question};
use crate::hand::Hand;
use crate::server::Durability;
use crate::settings::Settings;
use crate::stage::{Meter, Stage};
use crate::statistics::Summary;
use crate::ways::WayName;

/// Before those that count: connections, prepared statements, a JVM that compiles.
const WARM_UP: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Circumstances {
    /// Data on the disk, as the server's defaults have it.
    Packaged,
    /// Redis, with each write on the disk before it is answered.
    EachWrite,
    /// Data in memory, where a wait for the disk costs nothing.
    Memory,
}

impl Circumstances {
    pub(crate) const ALL: [Self; 3] = [Self::Packaged, Self::EachWrite, Self::Memory];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Packaged => "on the disk, the server's defaults",
            Self::EachWrite => "on the disk, `appendfsync always`",
            Self::Memory => "in memory, the server's defaults",
        }
    }

    fn durability(self) -> Durability {
        if self == Self::EachWrite { Durability::EachWrite } else { Durability::Packaged }
    }

    /// Where the data is; `None` if the system has no such place.
    fn root(self, settings: &Settings) -> Option<PathBuf> {
        if self == Self::Memory { settings.memory() } else { Some(settings.disk()) }
    }

    /// Whether they are others than the defaults of this way's server.
    fn concern(self, way: WayName) -> bool {
        self != Self::EachWrite || !way.kind().is_durable()
    }
}

/// Each way's cost, or why there is none.
pub(crate) async fn cost(
    ways: &[WayName],
    settings: &Settings,
    circumstances: Circumstances,
) -> Vec<(WayName, Result<Finding, Failure>)> {
    let ways: Vec<_> = ways.iter().copied().filter(|way| circumstances.concern(*way)).collect();
    let Some(root) = circumstances.root(settings) else { return Vec::new() };
    let enter = ways.iter().map(|way| Entrant::enter(*way, settings, circumstances, root.clone()));
    let mut entrants = join_all(enter).await;
    for round in 0..settings.turns() {
        for turn in 0..entrants.len() {
            let index = (turn + round) % entrants.len();
            if let Ok(entrant) = &mut entrants[index]
                && let Err(error) = entrant.turn(settings.cycles() / settings.turns()).await
            {
                entrants[index] = Err(error);
            }
        }
    }
    let found = entrants.into_iter().map(|entrant| entrant?.found(circumstances));
    ways.into_iter().zip(found).collect()
}

struct Entrant<'a> {
    stage: Stage<'a>,
    worker: Hand,
    times: Vec<Duration>,
    requests: u64,
}

impl<'a> Entrant<'a> {
    async fn enter(
        way: WayName,
        settings: &'a Settings,
        circumstances: Circumstances,
        root: PathBuf,
    ) -> Result<Self, Failure> {
        let stage = Stage::set(way, settings, circumstances.durability(), &root).await?;
        let [mut worker] = stage.hire(&stage.place(settings.lease())).await?;
        worker.cycles(WARM_UP.min(settings.cycles())).await?;
        Ok(Self { stage, worker, times: Vec::new(), requests: 0 })
    }

    async fn turn(&mut self, cycles: usize) -> Result<(), Failure> {
        let meter = Meter::start(&self.stage).await?;
        self.times.extend(self.worker.cycles(cycles).await?);
        self.requests += meter.read(&self.stage).await?;
        Ok(())
    }

    fn found(self, circumstances: Circumstances) -> Result<Finding, Failure> {
        let Self { stage, times, requests, .. } = self;
        let cycles = times.len();
        let cycle = Summary::of_times(times).ok_or("no cycles")?;
        let requests = requests as f64 / cycles as f64;
        let trips = (requests / stage.servers.len() as f64).round();
        let seen = format!(
            "{} over {cycles} cycles, in {requests:.1} requests and {trips:.0} round trips",
            cycle.text()
        );
        let found = Finding::new(Question::Cost, stage.way, &cycle.short(), seen)
            .under(circumstances.name())
            .with("cycle_median_ms", cycle.median)
            .with("cycle_least_ms", cycle.least)
            .with("cycle_most_ms", cycle.most)
            .with("requests", requests)
            .with("round_trips", trips);
        Ok(if circumstances == Circumstances::Packaged { found } else { found.without_brief() })
    }
}
