//! `RECIPE=upgrade ROUNDS=3`: the three members of an ensemble are upgraded, one after the other, under holders, waiters and
//! leaders, each in a session of its own. No hold of ours may be lost, and no leader may change. Apache Curator's latch stands
//! beside them.

mod recipe;
mod tally;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::Child;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tools::{PipedProcess, Result, curator_peer, distribution};
use zookeeper_recipes::session::RetryPolicy;
use zookeeper_recipes::{Curator, Hold, Lock};
use zookeeper_testkit::{Member, TestEnsemble};

use crate::settings::UpgradeSettings;
use recipe::{LEASES, Recipe};
use tally::{CURATOR, Tally};

const SESSION: Duration = Duration::from_secs(10);
const TICK: Duration = Duration::from_millis(500);
/// Time for which all members serve before the next one is upgraded.
const PAUSE: Duration = Duration::from_secs(2);
/// A JVM that starts, or the expiry of a lost session, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);

/// What the contenders of one upgrade share.
struct Upgrade {
    tally: Mutex<Tally>,
    /// Becomes true when all members are upgraded: all holders release, and the waiters get their turn.
    over: watch::Sender<bool>,
}

impl Upgrade {
    fn new() -> Arc<Self> {
        Arc::new(Self { tally: Tally::of_one_round().into(), over: watch::Sender::new(false) })
    }

    fn tally<T>(&self, change: impl FnOnce(&mut Tally) -> T) -> T {
        change(&mut self.tally.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn is_over(&self) -> bool {
        *self.over.borrow()
    }

    fn begins(&self, name: &'static str) {
        if !self.is_over() {
            self.tally(|tally| tally.begins(name));
        }
    }

    fn loses(&self, name: &'static str) {
        self.tally(|tally| tally.loses(name));
    }

    /// Holds until the upgrade is over or the recipe's limit is reached, or until the hold is lost.
    async fn hold(&self, recipe: Recipe, hold: &Hold) {
        self.begins(recipe.name());
        let mut over = self.over.subscribe();
        tokio::select! {
            loss = hold.lost() => {
                println!("{}: {hold:?} is lost: {loss}", recipe.name());
                self.loses(recipe.name());
            }
            _ = over.wait_for(|over| *over) => {}
            () = sleep(recipe.limit()) => {}
        }
    }

    /// Contends, in a session of its own, until it has held after the upgrade.
    async fn contend(self: Arc<Self>, recipe: Recipe, servers: String) -> Result<()> {
        let builder = Curator::builder().session_timeout(SESSION);
        let builder = builder.retry(RetryPolicy::forever(Duration::from_millis(50)));
        let curator = builder.connect(&servers).await?;
        tokio::select! {
            result = self.take_part(recipe, &curator) => result?,
            () = self.follow_connection(&curator) => {}
        }
        curator.close().await;
        Ok(())
    }

    async fn take_part(self: &Arc<Self>, recipe: Recipe, curator: &Curator) -> Result<()> {
        let path = recipe.path();
        match recipe {
            Recipe::Mutex | Recipe::Turns => self.lock(recipe, &curator.mutex(path)?).await,
            Recipe::Semaphore => self.lock(recipe, &curator.semaphore(path, LEASES)?).await,
            Recipe::Latch => {
                let latch = curator.leader_latch(path)?;
                loop {
                    let leadership = latch.leadership().await?;
                    self.hold(recipe, &leadership).await;
                    if self.is_over() {
                        latch.close().await?;
                        return Ok(());
                    }
                }
            }
            Recipe::Selector => {
                let selector = curator.leader_selector(path)?;
                let upgrade = self.clone();
                let run =
                    selector.run(async move |leadership| upgrade.hold(recipe, &leadership).await);
                while !(run.next_report().await.is_some_and(|term| term.is_ok()) && self.is_over())
                {
                    run.requeue()?;
                }
                Ok(())
            }
        }
    }

    async fn lock(&self, recipe: Recipe, lock: &dyn Lock) -> Result<()> {
        loop {
            let guard = lock.acquire().await?;
            self.hold(recipe, &guard).await;
            if self.is_over() {
                guard.release().await?;
                return Ok(());
            }
        }
    }

    /// Counts and measures the disconnections, until the connection is closed.
    async fn follow_connection(&self, curator: &Curator) {
        let mut states = curator.watch_state();
        while states.wait_for(|state| !state.is_connected()).await.is_ok() {
            let began = Instant::now();
            let ended = states.wait_for(|state| state.is_connected()).await;
            self.tally(|tally| tally.disconnected(began.elapsed()));
            if ended.is_err() {
                return;
            }
        }
    }

    /// Starts three candidates of Curator's latch, in a process that ends when the answer is dropped. `None` where Curator is not
    /// installed.
    async fn start_curator(self: &Arc<Self>, servers: &str) -> Result<Option<Child>> {
        let mut command = match curator_peer() {
            Ok(command) => command,
            Err(missing) => {
                println!("{CURATOR} is not beside: there is no {missing}");
                return Ok(None);
            }
        };
        let PipedProcess { process, mut input, mut output } = PipedProcess::start(&mut command)?;
        let session = SESSION.as_millis();
        for candidate in 0..Recipe::Latch.contenders() {
            let order = format!("hold {candidate} latch {servers} /upgrade/curator {session}\n");
            input.write_all(order.as_bytes()).await?;
        }
        let upgrade = self.clone();
        tokio::spawn(async move {
            let _orders = input; // the end of the orders ends the process
            while let Ok(Some(line)) = output.next_line().await {
                match line.split(' ').nth(1) {
                    Some("Holds") => upgrade.begins(CURATOR),
                    Some("Lost") if !upgrade.is_over() => upgrade.loses(CURATOR),
                    _ => {}
                }
            }
        });
        Ok(Some(process))
    }

    /// Waits until all contend, and as many hold as can.
    async fn all_contend(&self, servers: &str, names: &[(&'static str, usize)]) -> Result<()> {
        let admin = Curator::connect(servers).await?;
        let contend = async {
            for (name, holders) in names {
                while self.tally(|tally| tally.of(name).begun) < *holders {
                    sleep(LOOK).await;
                }
            }
            for recipe in [Recipe::Mutex, Recipe::Latch, Recipe::Selector] {
                let path = recipe.path();
                while admin.client()?.list_children(&path).await?.len() < recipe.contenders() {
                    sleep(LOOK).await;
                }
            }
            Ok::<_, tools::Failure>(())
        };
        timeout(PATIENCE, contend).await.map_err(|_| "not all contend after a minute")??;
        admin.close().await;
        Ok(())
    }
}

/// The first line of its status has the version.
async fn version(member: &Member) -> Result<String> {
    let status = member.four_letter_word("srvr").await?;
    let version = status.lines().find_map(|line| line.strip_prefix("Zookeeper version: "));
    let number = version.and_then(|version| version.split('-').next());
    Ok(number.ok_or("a member does not say its version")?.to_owned())
}

/// Upgrades one member after the other, in a random order.
async fn replace(
    ensemble: &TestEnsemble,
    settings: &UpgradeSettings,
    home: &Path,
    rng: &mut fastrand::Rng,
) -> Result<()> {
    if settings.at_once {
        for member in ensemble.members() {
            member.stop().await?;
        }
        sleep(SESSION).await;
        for member in ensemble.members() {
            member.launch().await?;
        }
        return Ok(ensemble.serving().await?);
    }
    let mut order: Vec<_> = ensemble.members().iter().collect();
    rng.shuffle(&mut order);
    for member in order {
        let role = member.role().await?;
        let before = version(member).await?;
        member.restart_with_distribution(home).await?;
        ensemble.serving().await?;
        let after = version(member).await?;
        println!("{role:?} {}: {before} is now {after}", member.connect_string());
        if before == after {
            return Err(format!("TO={}: the members run {before} already", settings.to).into());
        }
        sleep(PAUSE).await;
    }
    Ok(())
}

async fn upgrade(
    settings: &UpgradeSettings,
    home: &Path,
    rng: &mut fastrand::Rng,
) -> Result<Tally> {
    let ensemble = TestEnsemble::builder(3).tick_time(TICK).start().await?;
    let servers = ensemble.connect_string();
    let upgrade = Upgrade::new();
    let mut contenders = JoinSet::new();
    for recipe in Recipe::ALL {
        for _ in 0..recipe.contenders() {
            contenders.spawn(upgrade.clone().contend(recipe, servers.to_owned()));
        }
    }
    let curator = upgrade.start_curator(servers).await?;
    let mut names: Vec<_> =
        Recipe::ALL.iter().map(|recipe| (recipe.name(), recipe.holders())).collect();
    names.extend(curator.as_ref().map(|_| (CURATOR, 1)));
    upgrade.all_contend(servers, &names).await?;

    replace(&ensemble, settings, home, rng).await?;
    upgrade.over.send_replace(true);
    let all_hold = async {
        while let Some(ended) = contenders.join_next().await {
            ended??;
        }
        Ok::<_, tools::Failure>(())
    };
    let ended = timeout(PATIENCE, all_hold).await;
    let hung = contenders.len();
    upgrade.tally(|tally| tally.hung = hung);
    ended.unwrap_or(Ok(()))?;
    contenders.shutdown().await;
    drop(curator);
    ensemble.close().await?;
    Ok(upgrade.tally(std::mem::take))
}

/// Upgrades as often as is wished, each time another ensemble. Returns true if nothing of ours was lost.
#[tokio::main]
pub(crate) async fn run(settings: &UpgradeSettings) -> Result<bool> {
    let home = distribution(&settings.to)?;
    let mut rng = fastrand::Rng::with_seed(settings.seed);
    let mut all = Tally::default();
    for round in 1..=settings.rounds {
        println!("upgrade {round} of {}: sessions of {SESSION:?}", settings.rounds);
        let tally = upgrade(settings, &home, &mut rng).await?;
        println!("{}", tally.line());
        all.add(&tally);
    }
    all.print();
    let UpgradeSettings { rounds, seed, to, .. } = settings;
    println!("soak: recipe=upgrade seed={seed} rounds={rounds} to={to} {}", all.line());
    Ok(all.is_clean())
}
