//! The run: an ensemble, workers, faults, healing, rest, and the judgement of it all.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{Instant, sleep};
use tools::Result;
use zookeeper_testkit::{Backend, TestEnsemble};

use crate::admin::Admin;
use crate::checker::{Evidence, PATIENCE, Verdict, WorkerLog, judge};
use crate::faults::{self, Scene};
use crate::links::Links;
use crate::log::{Event, Log, Nanos, Signal, Tail, What, faults_log, now, worker_log};
use crate::observer::Observer;
use crate::report;
use crate::rows::Row;
use crate::schedule::{Kind, MEMBERS, Planned, ROWS, To, Whom, sabotage, schedule};
use crate::settings::{Candidates, LIMIT, Recipe, Sabotage, Settings, WorkerSettings};
use crate::store::Store;
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
    let folder = folder(settings)?;
    let (tick, limit) = match settings.sabotage {
        Sabotage::None => ENSEMBLES[usize::try_from(settings.seed % ENSEMBLES.len() as u64)?],
        _ => PROMPT,
    };
    let candidates = match settings.recipe {
        Recipe::Leader => format!(" ({})", Candidates::of(settings.seed).name()),
        _ => String::new(),
    };
    println!(
        "{}{candidates}, seed {}: {} faults; ticks of {tick} ms, syncLimit {limit}",
        settings.recipe.name(),
        settings.seed,
        settings.faults
    );
    let ensemble = start_ensemble(Duration::from_millis(tick), limit).await?;
    println!("three members: {}, {:?}", ensemble.connect_string(), ensemble.backend());
    let store = Store::start().await?;
    let scene = Arc::new(set_up(settings, &folder, ensemble, &store).await?);
    let verdict = disturb_and_judge(settings, &folder, &scene, &store).await;
    // With a fault that is still under way it goes when that does.
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

async fn start_ensemble(tick: Duration, limit: &str) -> Result<TestEnsemble> {
    let builder = || TestEnsemble::builder(MEMBERS).tick_time(tick).property("syncLimit", limit);
    if std::env::var_os("ZOOKEEPER_BACKEND").is_some() {
        return Ok(builder().start().await?);
    }
    match builder().backend(Backend::Process).start().await {
        Ok(ensemble) => Ok(ensemble),
        Err(error) => {
            println!("no local processes ({error}), so containers");
            Ok(builder().backend(Backend::Docker).start().await?)
        }
    }
}

async fn set_up(
    settings: &Settings,
    folder: &Path,
    ensemble: TestEnsemble,
    store: &Store,
) -> Result<Scene> {
    let admin = Admin::new(ensemble.connect_string(), settings.recipe);
    admin.prepare().await?;
    let mut rng = fastrand::Rng::with_seed(settings.seed);
    let (mut rows, mut links) = (Vec::new(), Vec::new());
    let count = if settings.sabotage == Sabotage::None { ROWS } else { FEW };
    for row in 0..count {
        let own = Links::start(&ensemble).await?;
        let worker = WorkerSettings {
            row,
            generation: 0,
            recipe: settings.recipe,
            seed: settings.seed,
            sabotage: settings.sabotage,
            timeout: match settings.sabotage {
                Sabotage::None => Duration::from_millis(rng.u64(2000..=3000)),
                Sabotage::NoOwnerCheck => Duration::from_secs(2),
                // 1.2 times that leaves some ticks for the servers to expire the session.
                _ => Duration::from_secs(3),
            },
            connect_string: own.connect_string(),
            direct: ensemble.connect_string().to_owned(),
            store: store.address,
            log: PathBuf::new(),
        };
        rows.push(Mutex::new(Row::start(worker, &settings.worker_arguments, folder)?));
        links.push(own);
    }
    let log = Log::open(&faults_log(folder))?;
    let observer = match (settings.recipe, settings.sabotage) {
        (Recipe::Leader, Sabotage::None) => Some(Observer::start(&ensemble, folder).await?),
        _ => None,
    };
    Ok(Scene { ensemble, rows, links, admin, observer, log, quorum: Mutex::new(()) })
}

fn plan(settings: &Settings) -> Vec<Planned> {
    let Settings { seed, faults, .. } = *settings;
    let whom = Whom::NextHolder;
    match settings.sabotage {
        Sabotage::None => schedule(seed, faults),
        Sabotage::NoOwnerCheck => sabotage(seed, faults, Kind::Break { whom }),
        Sabotage::IgnoresLease => sabotage(seed, faults, Kind::StopWorker { whom }),
        // What they do wrong shows without any fault.
        Sabotage::WritesAsReader => {
            sabotage(seed, faults, Kind::Cut { whom, links: To::All, reset: true })
        }
    }
}

async fn disturb_and_judge(
    settings: &Settings,
    folder: &Path,
    scene: &Arc<Scene>,
    store: &Store,
) -> Result<Verdict> {
    LocalSet::new().run_until(disturb(scene, plan(settings))).await?;
    scene.heal().await?;
    let mut evidence = Evidence { limit: LIMIT, ..Evidence::default() };
    scene.wait_for_all("the lock", |row, healed| row.last_hold >= healed).await?;
    for row in &scene.rows {
        row.lock().await.tell(BE_QUIET).await?;
    }
    scene.wait_for_all("rest", |row, _| row.quiet).await?;
    evidence.children = scene.admin.children_after(REST).await?;
    if let Some(observer) = &scene.observer {
        evidence.observed = Some(observer.end().await?);
    }
    evidence.zookeeper = scene.admin.counter().await?;
    evidence.store = store.value();
    let mut failures = Vec::new();
    for row in &scene.rows {
        failures.extend(row.lock().await.end().await.err());
    }
    read_logs(folder, scene, &mut evidence).await?;
    let verdict = judge(&evidence);
    report::print(&evidence.faults, &verdict);
    println!("logs: {}\n{}", folder.display(), report::line(settings, &verdict));
    match failures.into_iter().next() {
        Some(failure) => Err(failure),
        None => Ok(verdict),
    }
}

async fn disturb(scene: &Arc<Scene>, planned: Vec<Planned>) -> Result<()> {
    let faults = planned.len();
    let mut running = JoinSet::new();
    let mut late = Duration::ZERO;
    for (number, planned) in planned.into_iter().enumerate() {
        let asleep = Instant::now();
        sleep(planned.after).await;
        late = late.max(asleep.elapsed().saturating_sub(planned.after));
        running.spawn_local(faults::apply(scene.clone(), number, planned));
        while let Some(result) = running.try_join_next() {
            result??;
        }
        if (number + 1) % 50 == 0 {
            let mut holds = 0;
            for row in &scene.rows {
                let mut row = row.lock().await;
                row.look()?;
                holds += row.holds;
            }
            println!("fault {} of {faults}, {holds} holds", number + 1);
        }
    }
    while let Some(result) = running.join_next().await {
        result??;
    }
    // Tells a slow machine from slow hand-overs.
    println!("this machine woke the orchestrator up to {late:.1?} late");
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
        let WorkerSettings { row, generation: last, .. } = row.lock().await.settings.clone();
        for generation in 0..=last {
            let events = read(&worker_log(folder, row, generation))?;
            evidence.workers.push(WorkerLog { row, generation, events });
        }
    }
    evidence.faults = read(&faults_log(folder))?;
    Ok(())
}

/// Nothing of a worker that was killed before its first word.
fn read(path: &Path) -> Result<Vec<Event>> {
    Ok(Tail::default().news(path)?)
}
