//! The run: an ensemble, workers, faults, healing, rest, and the judgement of it all.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::sleep;
use tools::Result;
use zookeeper_testkit::TestEnsemble;

use crate::admin::Admin;
use crate::checker::{Evidence, PATIENCE, Verdict, WorkerLog, judge};
use crate::faults::{self, Scene};
use crate::links::Links;
use crate::log::{Event, FAULTS_LOG, Log, Nanos, Signal, Tail, What, now, worker_log};
use crate::report;
use crate::rows::Row;
use crate::schedule::{MEMBERS, Planned, ROWS, schedule, stops};
use crate::settings::{LIMIT, Settings, WorkerSettings};
use crate::worker::BE_QUIET;

/// Between two looks at the logs.
const LOOK: Duration = Duration::from_millis(20);
/// Longer than a session, so that those of killed workers are over, also on a busy machine.
const REST: Duration = Duration::from_secs(30);

/// Ticks, and how many of them leader and followers go on without hearing of each other.
const ENSEMBLES: [(u64, &str); 3] = [(500, "5"), (1000, "2"), (1000, "4")];
/// For a broken lock: sessions expire soon after their time, and so before a stopped worker goes on.
const PROMPT: (u64, &str) = (200, "10");
const FEW: usize = 3;

pub(crate) async fn run(settings: &Settings) -> Result<Verdict> {
    let settings = &Settings { folder: folder(settings)?, ..settings.clone() };
    let (tick, limit) = match settings.ignores_lease {
        false => ENSEMBLES[usize::try_from(settings.seed % ENSEMBLES.len() as u64)?],
        true => PROMPT,
    };
    println!("{settings:?}; ticks of {tick} ms, syncLimit {limit}");
    let ensemble = TestEnsemble::builder(MEMBERS).tick_time(Duration::from_millis(tick));
    let ensemble = ensemble.property("syncLimit", limit).start().await?;
    println!("three members: {}, {:?}", ensemble.connect_string(), ensemble.backend());
    let scene = Arc::new(set_up(settings, ensemble).await?);
    let verdict = disturb_and_judge(settings, &scene).await;
    // A fault that is still under way ends the ensemble with itself.
    if let Some(scene) = Arc::into_inner(scene) {
        scene.ensemble.close().await?;
    }
    verdict
}

fn folder(settings: &Settings) -> Result<PathBuf> {
    let name = format!("soak-{}-{}", settings.recipe.name(), settings.seed);
    let folder = settings.folder.join(name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

async fn set_up(settings: &Settings, ensemble: TestEnsemble) -> Result<Scene> {
    Admin::connect(ensemble.connect_string()).await?.prepare().await?;
    let mut rng = fastrand::Rng::with_seed(settings.seed);
    let (mut rows, mut links) = (Vec::new(), Vec::new());
    let count = if settings.ignores_lease { FEW } else { ROWS };
    for row in 0..count {
        let own = Links::start(&ensemble).await?;
        let worker = WorkerSettings {
            row,
            generation: 0,
            run: settings.clone(),
            timeout: match settings.ignores_lease {
                false => Duration::from_millis(rng.u64(2000..=3000)),
                // 1.2 times that leaves some ticks for the servers to expire the session.
                true => Duration::from_secs(3),
            },
            connect_string: own.connect_string(),
        };
        rows.push(Mutex::new(Row::start(worker)?));
        links.push(own);
    }
    let log = Log::open(&settings.folder.join(FAULTS_LOG))?;
    Ok(Scene { ensemble, rows, links, log, quorum: Mutex::new(()) })
}

async fn disturb_and_judge(settings: &Settings, scene: &Arc<Scene>) -> Result<Verdict> {
    let Settings { seed, faults, .. } = *settings;
    let planned = if settings.ignores_lease { stops(seed, faults) } else { schedule(seed, faults) };
    LocalSet::new().run_until(disturb(scene, planned)).await?;
    scene.heal().await?;
    let mut evidence = Evidence { limit: LIMIT, ..Evidence::default() };
    scene.wait_for_all("the lock", |row, healed| row.last_hold >= healed).await?;
    for row in &scene.rows {
        row.lock().await.tell(BE_QUIET).await?;
    }
    scene.wait_for_all("rest", |row, _| row.quiet).await?;
    let admin = Admin::connect(scene.ensemble.connect_string()).await?;
    for node in admin.left_after(REST, settings.recipe).await? {
        let peer = settings.peer_of(&admin.owner(&node).await?).map(|peer| peer.name.clone());
        evidence.left.push((node, peer));
    }
    let mut failures = Vec::new();
    for row in &scene.rows {
        failures.extend(row.lock().await.end().await.err());
    }
    read_logs(&settings.folder, scene, &mut evidence).await?;
    let verdict = judge(&evidence);
    report::print(&evidence.faults, &verdict);
    report::print_peers(settings, &verdict);
    println!("logs: {}\n{}", settings.folder.display(), report::line(settings, &verdict));
    match failures.into_iter().next() {
        Some(failure) => Err(failure),
        None => Ok(verdict),
    }
}

async fn disturb(scene: &Arc<Scene>, planned: Vec<Planned>) -> Result<()> {
    let faults = planned.len();
    let mut running = JoinSet::new();
    for (number, planned) in planned.into_iter().enumerate() {
        sleep(planned.after).await;
        running.spawn_local(faults::apply(scene.clone(), number, planned));
        while let Some(result) = running.try_join_next() {
            result??;
        }
        if (number + 1) % 50 == 0 {
            println!("fault {} of {faults}", number + 1);
        }
    }
    while let Some(result) = running.join_next().await {
        result??;
    }
    Ok(())
}

impl Scene {
    /// All faults are over; this makes sure, and says so.
    async fn heal(&self) -> Result<()> {
        self.ensemble.serving().await?;
        for row in &self.rows {
            row.lock().await.signal(Signal::Continue, &self.log)?;
        }
        self.log.now(What::Healed)?;
        println!("all healed");
        Ok(())
    }

    /// Waits until all rows are as wanted, but not beyond the patience: the checker tells who was not.
    async fn wait_for_all(&self, what: &str, wanted: impl Fn(&Row, Nanos) -> bool) -> Result<()> {
        let began = now();
        loop {
            let mut missing = Vec::new();
            for row in &self.rows {
                let mut row = row.lock().await;
                row.look()?;
                if !wanted(&row, began) {
                    missing.push(row.settings.row);
                }
            }
            if missing.is_empty() {
                return Ok(());
            }
            if now() > began + PATIENCE {
                println!("in vain: {missing:?} waited for {what}");
                return Ok(());
            }
            sleep(LOOK).await;
        }
    }
}

async fn read_logs(folder: &Path, scene: &Scene, evidence: &mut Evidence) -> Result<()> {
    for row in &scene.rows {
        let settings = row.lock().await.settings.clone();
        let peer = settings.peer().map(|peer| peer.name.clone());
        let WorkerSettings { row, generation: last, .. } = settings;
        for generation in 0..=last {
            let events = read(&worker_log(folder, row, generation))?;
            evidence.workers.push(WorkerLog { row, generation, peer: peer.clone(), events });
        }
    }
    evidence.faults = read(&folder.join(FAULTS_LOG))?;
    Ok(())
}

/// Nothing of a worker that was killed before its first word.
fn read(path: &Path) -> Result<Vec<Event>> {
    Ok(Tail::default().news(path)?)
}
