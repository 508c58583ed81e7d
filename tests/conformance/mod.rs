//! Conformance: random scripts run through the seam against simulated servers, in virtual time, and against real ones.
//! What the sessions saw is written down, in its order, and must be the same.
//!
//! `SEED` is the first script, `SCRIPTS` how many there are, `SERVERS` 1 or 3.
//!
//! # What may differ
//!
//! * Ids and transactions: their order and equality are compared, and which session it is.
//! * The order of a node's children in a list: a server's is that of a hash.
//! * The order of events that follow from one reconnection, or from the end of one session: hashes again.
//! * Of a watch that fires while requests that were made with its own are answered: it may be seen to have fired before
//!   answers that the server sent before the event, for a real client reads several messages at once.
//! * The words of a failure after which it is unknown what happened.
//! * What happened to requests on the way while their connection is cut ([`Step::Torn`]): that is judged on each side.
//! * How often a client tries to connect, and sets its watches again.
//! * Whether a watch is taken back whose event may be on the way: one of a dropped request, or dropped during a cut.

mod run;
mod script;

use std::env;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::runtime::Builder;
use tokio::sync::Barrier;
use zookeeper_testkit::{TestEnsemble, TestServer};

use self::run::{Side, run};
use self::script::{Script, Step, script};
use crate::simulation::Ensemble;

/// So many run at once, each on paths of its own.
const BATCH: u64 = 50;

const TICK: Duration = Duration::from_millis(200);

/// Containers are not deleted meanwhile.
const NEVER: Duration = Duration::from_secs(1_000_000);

/// Real servers.
struct Real {
    alone: Option<TestServer>,
    ensemble: Option<TestEnsemble>,
    /// All scripts of a batch restart the server at once.
    restart: Barrier,
}

impl Real {
    async fn start(servers: u64, scripts: usize) -> Self {
        let (mut alone, mut ensemble) = (None, None);
        if servers == 1 {
            let builder = TestServer::builder().tick_time(TICK).container_check_interval(NEVER);
            alone = Some(builder.property("maxClientCnxns", "0").start().await.unwrap());
        } else {
            let builder = TestEnsemble::builder(3).tick_time(TICK).container_check_interval(NEVER);
            ensemble = Some(builder.property("maxClientCnxns", "0").start().await.unwrap());
        }
        Self { alone, ensemble, restart: Barrier::new(scripts) }
    }

    fn addresses(&self) -> Vec<String> {
        let alone = self.alone.iter().map(TestServer::connect_string);
        let members = self.ensemble.iter().flat_map(TestEnsemble::members);
        alone.chain(members.map(|member| member.connect_string())).map(str::to_owned).collect()
    }

    async fn restart(&self) {
        if self.restart.wait().await.is_leader() {
            self.alone.as_ref().unwrap().restart().await.unwrap();
        }
        self.restart.wait().await;
    }
}

fn simulated(script: &Script, servers: u64) -> Vec<String> {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let builder = Ensemble::builder(script.seed).servers(servers.try_into().unwrap());
        let builder = builder.tick_time(TICK).container_check_interval(NEVER);
        let timeouts = Duration::from_secs(1)..=Duration::from_secs(60);
        run(script, &Side::Simulated(builder.session_timeouts(timeouts).start())).await
    })
}

/// One batch on real servers.
#[allow(clippy::disallowed_methods)] // what is not awaited ends with the runtime
fn real(scripts: &Arc<Vec<Script>>, servers: &Arc<Real>) -> Vec<Vec<String>> {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let all = (0..scripts.len()).map(|nth| {
            let (scripts, servers) = (scripts.clone(), servers.clone());
            tokio::spawn(async move { run(&scripts[nth], &Side::Real(servers)).await })
        });
        join_all(all).await.into_iter().map(Result::unwrap).collect()
    })
}

fn number(name: &str, default: u64) -> u64 {
    let Ok(value) = env::var(name) else { return default };
    value.parse().unwrap_or_else(|_| {
        println!("{name}={value} is not a number");
        std::process::exit(2);
    })
}

/// Moves events that were seen early to where they are due.
fn align(ours: &[String], theirs: &mut Vec<String>) {
    for nth in 0..theirs.len() {
        while theirs[nth].ends_with(" at once") && ours.get(nth) != Some(&theirs[nth]) {
            let due = ours.iter().skip(nth).position(|line| *line == theirs[nth]);
            let Some(due) = due.map(|due| nth + due).filter(|due| *due < theirs.len()) else {
                return;
            };
            let event = theirs.remove(nth);
            theirs.insert(due, event);
        }
    }
}

fn print_difference(script: &Script, simulated: &[String], real: &[String]) {
    println!("\nSEED={} SCRIPTS=1 differs:", script.seed);
    script.steps.iter().enumerate().for_each(|(nth, step)| println!("{nth:>3} {step:?}"));
    println!("{:<90} | real", "simulated");
    let (mut ours, mut theirs) = (simulated.iter().peekable(), real.iter().peekable());
    while ours.peek().is_some() || theirs.peek().is_some() {
        let only_theirs = theirs.peek().is_some_and(|line| !ours.clone().any(|one| one == *line));
        let same = ours.peek() == theirs.peek();
        let theirs = if same || only_theirs { theirs.next() } else { None };
        let ours = if same || !only_theirs { ours.next() } else { None };
        let [ours, theirs] = [ours, theirs].map(|line| line.map_or("", String::as_str));
        println!("{}{ours:<90} | {theirs}", if same { ' ' } else { '*' });
    }
}

#[test]
fn simulated_servers_are_as_real_ones() {
    let (first, count) = (number("SEED", 1), number("SCRIPTS", 50));
    let servers = number("SERVERS", 1);
    if ![1, 3].contains(&servers) {
        println!("SERVERS={servers} is neither 1 nor 3");
        std::process::exit(2);
    }
    let batch = BATCH.min(count);
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let started = Real::start(servers, batch.try_into().unwrap());
    let servers_of_all = Arc::new(runtime.block_on(started));
    let (mut done, mut requests, mut differences) = (0, 0, 0);
    while done < count {
        let restarts = servers == 1 && (first + done) / BATCH % 10 == 1;
        let seeds = first + done..first + (done + batch).min(count);
        let scripts = Arc::new(seeds.map(|seed| script(seed, restarts)).collect::<Vec<_>>());
        let (these, theirs) = (scripts.clone(), servers_of_all.clone());
        let theirs = thread::spawn(move || real(&these, &theirs));
        let ours: Vec<_> = scripts.iter().map(|script| simulated(script, servers)).collect();
        let theirs = theirs.join().unwrap();
        for ((script, ours), mut theirs) in scripts.iter().zip(ours).zip(theirs) {
            requests += script.steps.iter().map(Step::requests).sum::<usize>();
            align(&ours, &mut theirs);
            if ours != theirs {
                differences += 1;
                print_difference(script, &ours, &theirs);
            }
        }
        done += batch;
    }
    drop(servers_of_all);
    println!(
        "conformance: scripts={count} servers={servers} requests={requests} differences={differences}"
    );
    assert_eq!(differences, 0, "scripts that differ");
}
