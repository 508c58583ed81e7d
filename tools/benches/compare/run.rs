//! Rounds in which every peer has its turn.

use std::collections::BTreeMap;
use std::time::Duration;
use tools::Failure;

use crate::bench_server::{BenchServer, Link};
use crate::busy;
use crate::comparison::{Measured, Results};
use crate::crew::{Crew, Peer};
use crate::load::{Lap, Load, Recipe};
use crate::settings::Settings;
use crate::works::{Kind, Work};

/// All works that are asked for. The peers in other processes are gone when it returns.
pub(crate) async fn all(
    settings: &Settings,
    bench_server: &BenchServer,
) -> Result<Results, Failure> {
    let works: Vec<_> = settings.works();
    let mut run = Run { settings, bench_server, crew: Crew::assemble()?, trips: BTreeMap::new() };
    for (peer, reason) in run.crew.missing() {
        eprintln!("{peer} is missing: {reason}");
    }
    let measured = run.works(&works).await;
    let missing = run.crew.missing().clone();
    run.crew.close().await;
    Ok(Results { measured: measured?, trips: run.trips, missing })
}

struct Run<'a> {
    settings: &'a Settings,
    bench_server: &'a BenchServer,
    crew: Crew,
    /// Half of a bare create and delete, in milliseconds, in each round that needs to know it.
    trips: BTreeMap<Link, Vec<f64>>,
}

impl Run<'_> {
    async fn works(&mut self, works: &[&'static Work]) -> Result<Vec<Measured>, Failure> {
        let mut all = Vec::new();
        for (number, work) in works.iter().enumerate() {
            eprintln!("{}/{} {} {}", number + 1, works.len(), work.name, work.link);
            all.push(self.work(work).await?);
        }
        Ok(all)
    }

    async fn work(&mut self, work: &'static Work) -> Result<Measured, Failure> {
        let everybody: Vec<_> = work.everybody().collect();
        for peer in &everybody {
            self.cycles(work, *peer, Duration::ZERO, self.settings.warm_up).await?;
        }
        let mut rounds = Vec::new();
        for round in 0..self.settings.rounds {
            let trip = self.trip(work).await?;
            let mut values = BTreeMap::new();
            for turn in 0..everybody.len() {
                let peer = everybody[(turn + round) % everybody.len()];
                if let Some(value) = self.turn(work, peer, round, trip).await? {
                    values.insert(peer, value);
                }
            }
            rounds.push(values);
        }
        Ok(Measured { work, rounds })
    }

    /// A turn of one peer, in the work's unit; `None` if it is missing.
    async fn turn(
        &mut self,
        work: &Work,
        peer: Peer,
        round: usize,
        trip: Duration,
    ) -> Result<Option<f64>, Failure> {
        let trips = |time: Duration| time.as_secs_f64() / trip.as_secs_f64();
        Ok(match work.kind {
            Kind::FirstAcquire | Kind::GiveWay => {
                self.first(work, peer, round).await?.map(|both| trips(both.0))
            }
            Kind::FirstRelease => self.first(work, peer, round).await?.map(|both| trips(both.1)),
            Kind::BusyReads | Kind::BusyWrites => {
                let sent = busy::attempts(&mut self.crew, self.bench_server, peer).await?;
                let reads = matches!(work.kind, Kind::BusyReads);
                sent.map(|sent| if reads { sent.0 } else { sent.1 })
            }
            Kind::Cycle | Kind::Rate | Kind::Requests => {
                self.bench_server.counted.clear_log();
                let lap = self.cycles(work, peer, Duration::ZERO, self.settings.turn).await?;
                let requests = self.bench_server.counted.log().len() as f64;
                lap.map(|lap| match work.kind {
                    Kind::Cycle => lap.cycle().as_secs_f64() * 1e3,
                    Kind::Rate => lap.per_second(),
                    _ => requests / lap.cycles.max(1) as f64,
                })
            }
            Kind::HandOver { hold } | Kind::Across { hold } => {
                let lap = self.cycles(work, peer, trip * hold, self.settings.turn).await?;
                lap.map(|lap| trips(lap.hand_over))
            }
        })
    }

    async fn cycles(
        &mut self,
        work: &Work,
        peer: Peer,
        hold: Duration,
        turn: Duration,
    ) -> Result<Option<Lap>, Failure> {
        let place = format!("{}-{}-{peer}", work.name, work.link);
        let path = self.bench_server.place(&place, work.locks).await?;
        let Work { recipe, tasks, locks, sessions, .. } = *work;
        let load = Load { recipe, tasks, locks, sessions, hold, turn };
        let link = self.bench_server.connect_string(work.link);
        if peer == Peer::Ours && matches!(work.kind, Kind::Across { .. }) {
            return self.crew.across(link, &path, load).await.map(Some);
        }
        self.crew.run(peer, link, &path, load).await
    }

    async fn first(
        &mut self,
        work: &Work,
        peer: Peer,
        round: usize,
    ) -> Result<Option<(Duration, Duration)>, Failure> {
        let count = if self.settings.smoke { 3 } else { 20 };
        let place =
            self.bench_server.used_place(&format!("{}-{peer}-{round}", work.name), count).await?;
        let link = self.bench_server.connect_string(work.link);
        if peer == Peer::Ours && matches!(work.kind, Kind::GiveWay) {
            return self.crew.give_way(link, &place, count).await.map(Some);
        }
        self.crew.first(peer, link, &place, count, work.recipe).await
    }

    /// How long a request takes there and back on the work's link, in this round, if the work needs to know that.
    async fn trip(&mut self, work: &Work) -> Result<Duration, Failure> {
        if work.kind.unit() != "trips" {
            return Ok(Duration::ZERO);
        }
        let path = self.bench_server.place(&format!("trip-{}", work.link), 1).await?;
        let turn = self.settings.turn / 2;
        let (recipe, hold) = (Recipe::Mutex, Duration::ZERO);
        let load = Load { recipe, tasks: 1, locks: 1, sessions: 1, hold, turn };
        let link = self.bench_server.connect_string(work.link);
        let lap = self.crew.run(Peer::Raw, link, &path, load).await?;
        let trip = lap.ok_or("the bare client is missing")?.cycle() / 2;
        self.trips.entry(work.link).or_default().push(trip.as_secs_f64() * 1e3);
        Ok(trip)
    }
}
