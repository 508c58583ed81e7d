//! What a cycle of acquire and release costs that nobody disturbs.

use crate::Failure;
use crate::finding::{Finding, Question};
use crate::server::Durability;
use crate::stage::{Meter, Stage};
use crate::statistics::Summary;

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

    pub(crate) fn durability(self) -> Durability {
        if self == Self::EachWrite { Durability::EachWrite } else { Durability::Packaged }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Packaged => "on the disk, the server's defaults",
            Self::EachWrite => "on the disk, `appendfsync always`",
            Self::Memory => "in memory, the server's defaults",
        }
    }
}

pub(crate) async fn cost(
    stage: &Stage<'_>,
    circumstances: Circumstances,
) -> Result<Finding, Failure> {
    let place = stage.place(stage.settings.lease());
    let [mut worker] = stage.hire(&place).await?;
    worker.cycles(WARM_UP.min(stage.settings.cycles())).await?;
    let cycles = stage.settings.cycles();
    let meter = Meter::start(stage).await?;
    let times = worker.cycles(cycles).await?;
    let requests = meter.read(stage).await? as f64 / cycles as f64;
    let cycle = Summary::of(times).ok_or("no cycles")?;
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
