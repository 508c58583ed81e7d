//! The three members of an ensemble are upgraded or restarted, one after the other, under holders, waiters and leaders, each in a
//! session of its own. No hold of ours may be lost, no leader may change, and every waiter gets its turn in the end. Apache Curator's
//! latch stands beside them.
//!
//! `make soak RECIPE=upgrade` reads `ROUNDS` (1), `SEED`, `TO` (zookeeper-3.9.5), and `SABOTAGE=at-once`, which stops all members for
//! longer than a session, and must fail.

mod recipe;
mod tally;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tools::{Result, distribution};
use zookeeper_recipes::session::RetryPolicy;
use zookeeper_recipes::{Curator, Hold, Lock};
use zookeeper_testkit::{Member, TestEnsemble};

use crate::peer::{Peer, What};
use recipe::{LEASES, Recipe};
use tally::{CURATOR, Tally};

const UPGRADE_SESSION: Duration = Duration::from_secs(10);
const RESTART_SESSION: Duration = Duration::from_secs(6);
const TICK: Duration = Duration::from_millis(500);
/// Time for which all members serve before the next one is upgraded, or restarted.
const UPGRADE_PAUSE: Duration = Duration::from_secs(2);
const RESTART_PAUSE: Duration = Duration::from_secs(1);
/// A shorter disconnection in a restart loses nothing: the lease is two thirds of the session, and a seventh of the session may have
/// passed since the last probe.
const DISCONNECTION_LIMIT: Duration = Duration::from_secs(3);
const TRIES: usize = 5;
/// A JVM that starts, or the expiry of a lost session, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);

/// What the contenders of one upgrade share.
struct Upgrade {
    session: Duration,
    tally: Mutex<Tally>,
    /// Becomes true when all members are upgraded: all holders release, and the waiters get their turn.
    over: watch::Sender<bool>,
}

impl Upgrade {
    fn new(session: Duration) -> Arc<Self> {
        let tally = Tally::of_one_round().into();
        Arc::new(Self { session, tally, over: watch::Sender::new(false) })
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
        let builder = Curator::builder().session_timeout(self.session);
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
    async fn start_curator(self: &Arc<Self>, servers: &str) -> Result<Option<Peer>> {
        let (sender, mut events) = mpsc::unbounded_channel();
        let Some(mut peer) = Peer::curator(&sender)? else { return Ok(None) };
        for candidate in 0..Recipe::Latch.contenders() {
            peer.hold(candidate, "latch", servers, "/upgrade/curator", self.session).await?;
        }
        let upgrade = self.clone();
        tokio::spawn(async move {
            while let Some((_, event)) = events.recv().await {
                match event.what {
                    What::Holds => upgrade.begins(CURATOR),
                    What::Lost if !upgrade.is_over() => upgrade.loses(CURATOR),
                    What::Lost => {}
                }
            }
        });
        Ok(Some(peer))
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

/// Has all contend while `replace` works on the ensemble, and counts what becomes of their holds.
async fn under_contenders(
    session: Duration,
    replace: impl AsyncFnOnce(&TestEnsemble) -> Result<()>,
) -> Result<Tally> {
    let ensemble = TestEnsemble::builder(3).tick_time(TICK).start().await?;
    let servers = ensemble.connect_string();
    let upgrade = Upgrade::new(session);
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

    replace(&ensemble).await?;
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

/// Restarts each member of one ensemble in each round. Returns true if nothing of ours was lost. A run with a longer disconnection
/// than the limit does not count if something was lost.
pub(crate) async fn restarts(rounds: usize) -> Result<bool> {
    for _ in 0..TRIES {
        let tally = under_contenders(RESTART_SESSION, async |ensemble| {
            for round in 1..=rounds {
                for member in ensemble.members() {
                    member.restart().await?;
                    ensemble.serving().await?;
                    sleep(RESTART_PAUSE).await;
                }
                println!("restarts: round {round} of {rounds}");
            }
            Ok(())
        })
        .await?;
        tally.print();
        println!("{} restarts, sessions of {RESTART_SESSION:?}: {}", 3 * rounds, tally.line());
        if tally.is_clean() || tally.longest_disconnection < DISCONNECTION_LIMIT {
            return Ok(tally.is_clean());
        }
        println!("disconnected for more than {DISCONNECTION_LIMIT:?}: this run does not count");
    }
    Err(format!("{TRIES} times disconnected for more than {DISCONNECTION_LIMIT:?}").into())
}

/// Upgrades as often as is wished, each time another ensemble. Returns true if nothing of ours was lost.
pub(crate) async fn upgrades() -> Result<bool> {
    let rounds = variable("ROUNDS").map_or(Ok(1), |rounds| rounds.parse())?;
    let seed = variable("SEED").map_or(Ok(fastrand::u64(..1_000_000)), |seed| seed.parse())?;
    let to = variable("TO").unwrap_or_else(|| "zookeeper-3.9.5".to_owned());
    let at_once = match variable("SABOTAGE").as_deref() {
        None => false,
        Some("at-once") => true,
        Some(name) => return Err(format!("SABOTAGE={name}: an upgrade has only `at-once`").into()),
    };
    let home = distribution(&to)?;
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut all = Tally::default();
    for round in 1..=rounds {
        println!("upgrade {round} of {rounds}: sessions of {UPGRADE_SESSION:?}");
        let tally = under_contenders(UPGRADE_SESSION, async |ensemble| match at_once {
            true => stop_all(ensemble).await,
            false => upgrade(ensemble, &home, &mut rng).await,
        })
        .await?;
        println!("{}", tally.line());
        all.add(&tally);
    }
    all.print();
    println!("soak: recipe=upgrade seed={seed} rounds={rounds} to={to} {}", all.line());
    Ok(all.is_clean())
}

/// Returns `None` if it is empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

async fn stop_all(ensemble: &TestEnsemble) -> Result<()> {
    for member in ensemble.members() {
        member.stop().await?;
    }
    sleep(UPGRADE_SESSION).await;
    for member in ensemble.members() {
        member.launch().await?;
    }
    Ok(ensemble.serving().await?)
}

/// Upgrades one member after the other, in a random order.
async fn upgrade(ensemble: &TestEnsemble, home: &Path, rng: &mut fastrand::Rng) -> Result<()> {
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
            return Err(format!("the members run {before} already").into());
        }
        sleep(UPGRADE_PAUSE).await;
    }
    Ok(())
}
