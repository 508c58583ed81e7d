//! The crate's own simulation: random work and random faults, seed after seed, under a judge. Needs nothing.
//!
//! `make simulate` runs it; see `docs/internals/simulation.md`.

mod answers;
mod failed;
mod jobs;
mod judge;
mod observed;
mod pictures;
mod plan;
mod recipes;
mod simulated_task;
mod strangers;
mod trouble;
mod work;

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};
use zookeeper_recipes::Released;
use zookeeper_recipes::simulation::{Ensemble, Version};
use zookeeper_recipes::zookeeper_client::{Acls, CreateMode};

use self::judge::{Counts, Judge};
use self::plan::Plan;
use self::simulated_task::{BODY_PANIC, Run, is_of_body, path};
use self::work::Running;

/// How long everyone may take to be served once nothing is wrong any more.
const SERVED: Duration = Duration::from_secs(600);

/// What a run came to.
#[derive(Clone, Debug, Default)]
struct Outcome {
    counts: Counts,
    failures: Vec<String>,
    panics: usize,
    spins: usize,
    time: Duration,
    hash: u64,
    trace: Vec<String>,
    /// An SVG file, of a run that was recorded.
    picture: String,
}

impl Outcome {
    fn failed(&self) -> bool {
        !self.failures.is_empty()
    }

    /// What kind of failure it is, so that a smaller run fails in the same way.
    fn kind(&self) -> &str {
        self.failures.first().and_then(|failure| failure.split(':').next()).unwrap_or("")
    }
}

/// Runs a plan from its begin to its end.
fn run(plan: &Plan, record: bool) -> Outcome {
    run_noting(plan, record, &Arc::default())
}

/// Counts the times at which nothing was left to do before the clock goes on.
fn run_noting(plan: &Plan, record: bool, pauses: &Arc<AtomicU64>) -> Outcome {
    let pauses = pauses.clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .on_thread_park(move || _ = pauses.fetch_add(1, Ordering::Relaxed))
        .build()
        .expect("a runtime");
    runtime.block_on(whole(plan.clone(), record))
}

async fn whole(plan: Plan, record: bool) -> Outcome {
    let mut builder = Ensemble::builder(plan.seed)
        .servers(plan.servers)
        .version(plan.version)
        .sync_limit(plan.sync_limit)
        .apply_lag(Duration::from_millis(plan.apply_lag))
        .container_check_interval(Duration::from_millis(plan.reap_every));
    if !plan.ordered {
        builder = builder.unordered();
    }
    let ensemble = Arc::new(builder.start());
    if record {
        ensemble.record();
    }
    let judge = Judge::of(&ensemble, plan.kept);
    let logged = judge.clone();
    ensemble.observe(move |entry| logged.logged(entry));
    let (plan, stop) = (Arc::new(plan), Arc::new(AtomicBool::new(false)));
    let run = Run { ensemble: ensemble.clone(), judge: judge.clone(), plan: plan.clone(), stop };
    let began = tokio::time::Instant::now();
    let operator = ensemble.process().named("operator");
    let operated = operator.spawn(operate(run));
    if operated.await.is_err() {
        judge.fail(|counts| &mut counts.hung, "panic: the operator's".to_owned());
    }
    let (counts, mut failures) = judge.verdict();
    let (mut panics, spins) = (ensemble.panics(), ensemble.spins());
    panics.retain(|panic| panic != BODY_PANIC);
    failures.extend(panics.iter().map(|panic| format!("panic: {panic}")));
    failures.extend((spins > 0).then(|| "spin: a task did not come to rest".to_owned()));
    let picture = match record {
        true => picture_of(&plan, &ensemble, !failures.is_empty()),
        false => String::new(),
    };
    Outcome {
        counts,
        failures,
        panics: panics.len(),
        spins,
        time: began.elapsed(),
        hash: ensemble.hash(),
        trace: ensemble.trace(),
        picture,
    }
}

/// The seconds before the first failure, or the first minute of a run without one.
fn picture_of(plan: &Plan, ensemble: &Ensemble, failed: bool) -> String {
    let picture = ensemble.picture().title(format!("seed {}", plan.seed));
    match failed {
        true => picture.to_string(),
        false => picture.between(Duration::ZERO..Duration::from_secs(60)).to_string(),
    }
}

/// Writes a picture, and says so.
fn write_picture(file: &Path, outcome: &Outcome) {
    let folder = file.parent().unwrap_or(file);
    match fs::create_dir_all(folder).and_then(|()| fs::write(file, &outcome.picture)) {
        Ok(()) => println!("a picture of it is in {}", file.display()),
        Err(error) => println!("cannot write the picture to {}: {error}", file.display()),
    }
}

/// Starts everybody, makes trouble, and sees to it that everything ends and nothing stays.
async fn operate(run: Run) {
    let (ensemble, judge) = (run.ensemble.clone(), run.judge.clone());
    let admin = ensemble.admin().await;
    for path in ["/locks", "/data"] {
        let made = admin.create(path, b"", CreateMode::Persistent, &Acls::anyone_all()).await;
        made.expect("a node");
    }
    for number in 0..run.plan.paths.len() {
        let made =
            admin.create(&path(number), b"", CreateMode::Persistent, &Acls::anyone_all()).await;
        made.expect("a node");
    }
    let mut members = trouble::Members::start(&run);
    trouble::make(&run, &mut members, &admin).await;
    if judge.has_failed() {
        return;
    }
    run.stop.store(true, Ordering::Relaxed);
    let contenders = || {
        let nodes = ensemble.nodes().into_iter();
        nodes
            .filter(|node| ensemble.node(node).is_some_and(|(_, owner)| owner != 0))
            .collect::<Vec<_>>()
    };
    let mut curators = Vec::new();
    let ended = timeout(SERVED, async {
        for Running { process, curator, main } in members.running.drain(..) {
            if main.await.is_err() {
                judge.fail(|counts| &mut counts.hung, "panic: in a process".to_owned());
            }
            curators.extend(curator.get().cloned().map(|curator| (process, curator)));
        }
    });
    if ended.await.is_err() {
        let there: Vec<_> =
            contenders().into_iter().map(|node| (ensemble.node(&node), node)).collect();
        let there = there
            .into_iter()
            .map(|(node, path)| format!("{path} of {:#x}", node.map_or(0, |node| node.1)));
        let there = there.collect::<Vec<_>>().join(", ");
        judge.fail(
            |counts| &mut counts.hung,
            format!("hung: somebody is not served; there are {there}"),
        );
        return;
    }
    judge.looks_at_records(run.plan.processes.iter().map(|member| member.tasks.len()).sum());
    // Clean-up that has been put off comes to its end.
    sleep(Duration::from_secs(150)).await;
    let left = contenders();
    if !left.is_empty() {
        judge.fail(|counts| &mut counts.orphans, format!("orphan: {}", left.join(", ")));
    }
    for (process, curator) in curators {
        let closing = process.spawn(async move { curator.close().await });
        match timeout(SERVED, closing).await {
            Ok(Ok(Released::Confirmed)) => {}
            other => judge.fail(|counts| &mut counts.hung, format!("hung: close says {other:?}")),
        }
        sleep(Duration::from_secs(1)).await;
        if process.tasks() > 0 {
            let failure = format!("leak: {} tasks of a process that has closed", process.tasks());
            judge.fail(|counts| &mut counts.leaks, failure);
        }
    }
    drop(admin);
    sleep(Duration::from_secs(200)).await;
    let (watches, sessions) = (ensemble.watches(), ensemble.sessions());
    if watches > 0 || sessions > 0 {
        let failure = format!("leak: {watches} watches, {sessions} sessions");
        judge.fail(|counts| &mut counts.leaks, failure);
    }
}

/// Leaves out what a failure does not need, and gives the smallest run that still fails in the same way.
fn shrunk(plan: &Plan, kind: &str) -> Plan {
    let (mut smallest, mut tries) = (plan.clone(), 0);
    'smaller: loop {
        for plan in smallest.smaller() {
            tries += 1;
            if tries > 300 {
                break 'smaller;
            }
            if run(&plan, false).kind() == kind {
                smallest = plan;
                continue 'smaller;
            }
        }
        break;
    }
    smallest
}

fn report(plan: &Plan, outcome: &Outcome, shrink: bool, picture: &Path) {
    let (first, more) = outcome.failures.split_at(outcome.failures.len().min(3));
    println!("seed {} fails: {}; and {} more", plan.seed, first.join("; "), more.len());
    if !shrink {
        write_picture(picture, &run(plan, true));
        return;
    }
    let smallest = shrunk(plan, outcome.kind());
    let again = run(&smallest, true);
    println!("the smallest run that fails so: {smallest}");
    // What led to it, without the session's signs of life.
    let lines: Vec<_> = again
        .trace
        .iter()
        .filter(|line| {
            !line.ends_with(": Sync") && !line.contains("List {") && !line.contains("GetData {")
        })
        .collect();
    let at = lines.iter().position(|line| line.contains("FAILURE")).unwrap_or(lines.len());
    lines[at.saturating_sub(80)..(at + 10).min(lines.len())]
        .iter()
        .for_each(|line| println!("{line}"));
    again.failures.iter().take(3).for_each(|failure| println!("seed {}: {failure}", plan.seed));
    write_picture(picture, &again);
}

/// The options, as `NAME=VALUE`.
struct Options(BTreeMap<String, String>);

impl Options {
    const NAMES: [&str; 11] = [
        "SECONDS",
        "FIRST",
        "SEED",
        "SEEDS",
        "SAME",
        "THREADS",
        "UNORDERED",
        "SHRINK",
        "HASHES",
        "PICTURE",
        "PICTURES",
    ];

    fn read() -> Result<Self, String> {
        let mut options = BTreeMap::new();
        for argument in std::env::args().skip(1).filter(|argument| !argument.starts_with('-')) {
            let option = argument.split_once('=').filter(|(name, _)| Self::NAMES.contains(name));
            let (name, value) = option.ok_or_else(|| {
                format!("{argument:?} is no option: {} are, as NAME=VALUE", Self::NAMES.join(", "))
            })?;
            options.insert(name.to_owned(), value.to_owned());
        }
        Ok(Self(options))
    }

    /// The file for the picture of one run, or of the run that fails.
    fn picture(&self) -> Option<&Path> {
        self.0.get("PICTURE").map(Path::new)
    }

    fn number(&self, name: &str, default: u64) -> Result<u64, String> {
        self.0.get(name).map_or(Ok(default), |value| {
            value.parse().map_err(|_| format!("{name}={value:?} is no number"))
        })
    }
}

/// Prints no panic of a body, which is a part of the work.
fn hush_bodies() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !is_of_body(panic.payload()) {
            usual(panic);
        }
    }));
}

fn main() -> ExitCode {
    hush_bodies();
    match simulate() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(refused) => {
            eprintln!("simulation: {refused}");
            ExitCode::from(64)
        }
    }
}

/// Whether nothing failed.
fn simulate() -> Result<bool, String> {
    let options = Options::read()?;
    if options.0.contains_key("SEED") {
        let plan = plan_of(options.number("SEED", 0)?);
        let outcome = run(&plan, true);
        outcome.trace.iter().for_each(|line| println!("{line}"));
        println!("seed {}: {:?}", plan.seed, outcome.counts);
        outcome.failures.iter().for_each(|failure| println!("seed {}: {failure}", plan.seed));
        if let Some(file) = options.picture() {
            write_picture(file, &outcome);
        }
        return Ok(!outcome.failed());
    }
    if let Some(folder) = options.0.get("PICTURES") {
        return pictures::draw(Path::new(folder)).map(|()| true);
    }
    if options.0.contains_key("HASHES") {
        let first = options.number("FIRST", 1)?;
        for seed in first..first + options.number("HASHES", 0)? {
            println!("{seed} {:#x}", run(&plan_of(seed), false).hash);
        }
        return Ok(true);
    }
    if options.0.contains_key("SAME") {
        return same(
            options.number("SAME", 0)?,
            options.number("FIRST", 1)?,
            options.number("UNORDERED", 0)? == 0,
        );
    }
    let time = Duration::from_secs(options.number("SECONDS", 30)?);
    let (first, shrink) = (options.number("FIRST", 1)?, options.number("SHRINK", 1)? > 0);
    let (threads, seeds) = (options.number("THREADS", 2)?, options.number("SEEDS", u64::MAX)?);
    #[allow(clippy::disallowed_methods)] // how long the search takes
    let began = Instant::now();
    let next = AtomicU64::new(0);
    let failed_before = failed::failed();
    let all = Mutex::new(Sum::default());
    let failed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while began.elapsed() < time && !failed.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= seeds {
                        return;
                    }
                    let known =
                        usize::try_from(number).ok().and_then(|number| failed_before.get(number));
                    let plan = known.cloned();
                    let plan = plan.unwrap_or_else(|| plan_of(first.wrapping_add(number)));
                    let outcome = watched(&plan);
                    all.lock().unwrap_or_else(PoisonError::into_inner).add(&plan, &outcome);
                    if outcome.failed() && !failed.swap(true, Ordering::Relaxed) {
                        println!(
                            "after {:.1} s, at seed {} of {}",
                            began.elapsed().as_secs_f64(),
                            plan.seed,
                            number + 1
                        );
                        let file = format!("target/simulation/seed-{}.svg", plan.seed);
                        let file = options.picture().unwrap_or(Path::new(&file));
                        report(&plan, &outcome, shrink, file);
                    }
                }
            });
        }
    });
    let Sum { outcome: sum, runs, faults_by_version } =
        all.into_inner().unwrap_or_else(PoisonError::into_inner);
    let by_version =
        faults_by_version.iter().map(|(version, faults)| format!("{version} {faults}"));
    println!("simulation: faults by version: {}", by_version.collect::<Vec<_>>().join(", "));
    let Counts { holds, drops, faults, double, stale, answers, orphans, hung, leaks } = sum.counts;
    println!(
        "simulation: seeds={runs} virtual={:.2}d holds={holds} faults={faults} drops={drops} double={double} stale={stale} \
         answers={answers} orphans={orphans} hung={hung} leaks={leaks} panics={} spins={}",
        sum.time.as_secs_f64() / 86_400.0,
        sum.panics,
        sum.spins
    );
    Ok(!failed.into_inner())
}

fn plan_of(seed: u64) -> Plan {
    Plan::of(seed, seed % 100 == 99, seed % 10 == 5)
}

/// The time in which the clock of a run goes on, also on a machine that does much else.
const STANDS_STILL: Duration = Duration::from_secs(120);

/// A run that takes no end stands still in one poll, waits for a lock, or has always something to do before the clock goes on: the
/// process ends with its seed.
fn watched(plan: &Plan) -> Outcome {
    let done = Arc::new(AtomicBool::new(false));
    let pauses = Arc::new(AtomicU64::new(0));
    let (seed, seen, passed) = (plan.seed, done.clone(), pauses.clone());
    let watchdog = std::thread::spawn(move || {
        let mut before = 0;
        loop {
            std::thread::park_timeout(STANDS_STILL);
            if seen.load(Ordering::Relaxed) {
                return;
            }
            let now = passed.load(Ordering::Relaxed);
            if now == before {
                println!("simulation: seed {seed} stands still");
                std::process::exit(1);
            }
            before = now;
        }
    });
    let outcome = catch_unwind(AssertUnwindSafe(|| run_noting(plan, false, &pauses)));
    done.store(true, Ordering::Relaxed);
    watchdog.thread().unpark();
    outcome.unwrap_or_else(|_| Outcome {
        failures: vec!["panic: of the run".to_owned()],
        ..Outcome::default()
    })
}

/// What all runs came to.
#[derive(Default)]
struct Sum {
    outcome: Outcome,
    runs: u64,
    faults_by_version: BTreeMap<Version, u64>,
}

impl Sum {
    fn add(&mut self, plan: &Plan, outcome: &Outcome) {
        let counts = &mut self.outcome.counts;
        let more = &outcome.counts;
        counts.holds += more.holds;
        counts.drops += more.drops;
        counts.faults += more.faults;
        counts.double += more.double;
        counts.stale += more.stale;
        counts.answers += more.answers;
        counts.orphans += more.orphans;
        counts.hung += more.hung;
        counts.leaks += more.leaks;
        self.outcome.panics += outcome.panics;
        self.outcome.spins += outcome.spins;
        self.outcome.time += outcome.time;
        self.runs += 1;
        *self.faults_by_version.entry(plan.version).or_default() += more.faults;
    }
}

/// Runs each seed on two threads at once, and compares the hashes.
fn same(seeds: u64, first: u64, ordered: bool) -> Result<bool, String> {
    let differ = AtomicU64::new(0);
    for seed in first..first + seeds {
        let mut plan = Plan::of(seed, false, seed % 2 == 0);
        plan.ordered = ordered;
        let hashes: Vec<_> = std::thread::scope(|scope| {
            let runs: Vec<_> = (0..2).map(|_| scope.spawn(|| run(&plan, false).hash)).collect();
            runs.into_iter().map(|run| run.join().unwrap_or_default()).collect()
        });
        if hashes[0] != hashes[1] {
            differ.fetch_add(1, Ordering::Relaxed);
            if ordered {
                println!("seed {seed}: {:#x} and {:#x}", hashes[0], hashes[1]);
                let (one, other) = (run(&plan, true).trace, run(&plan, true).trace);
                let place = one.iter().zip(&other).position(|(one, other)| one != other);
                if let Some(place) = place {
                    one[place.saturating_sub(5)..place].iter().for_each(|line| println!("{line}"));
                    println!("{}\n{}", one[place], other[place]);
                }
            }
        }
    }
    let differ = differ.into_inner();
    println!("simulation: {seeds} seeds twice, {differ} differ");
    Ok(if ordered { differ == 0 } else { differ > 0 })
}
