//! Simulated servers are equivalent to real ones, as the seam sees them (`make conformance`). Random scripts run through the
//! seam on simulated servers, in virtual time, and on real ones. The observations of the sessions are recorded in their order
//! and must be the same.
//!
//! `SEED` is the first script, `SCRIPTS` how many there are, `SERVERS` 1 or 3. The simulated servers have the version that the
//! real ones say they have.
//!
//! # What may differ
//!
//! * The numbers of sessions and transactions. Which session it is, and the order of transactions, are compared.
//! * The order of a node's children in a list: a server's is that of a hash.
//! * The order of events that follow from one reconnection, or from the end of one session: hashes again.
//! * How often a client tries to connect, and with that sets its watches again.
//! * The words of a failure after which it is unknown what happened.
//! * What came of requests on the way while their connection is cut ([`Torn`](script::What::Torn)): each side's is judged by itself.
//! * Of a watch that fires before requests that were made with its own are answered: it may be seen to have fired before
//!   answers that the server sent before the event, for a real client reads several messages at once.
//! * Of a watch that is dropped while its event may be on the way, with its request: whether it is taken back, and the order
//!   of the other watches of its node. A third of the scripts have such.
//! * What comes of requests on the way when a server of 3.5 refuses to read several nodes: it answers that at once, before the
//!   requests that came earlier, and closes the connection. Scripts for it have no such read.
//! * Which sessions lose their connection when one of three servers restarts: where each of them is, is left to chance.

#![allow(clippy::unwrap_used)] // a test, which clippy does not see by `all(test, ..)`

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
use self::script::{BATCH, Script};
use crate::simulation::{Ensemble, Version};

const TICK: Duration = Duration::from_millis(200);

/// Containers are not deleted meanwhile.
const NEVER: Duration = Duration::from_secs(1_000_000);

/// Real servers.
struct Real {
    alone: Option<TestServer>,
    ensemble: Option<TestEnsemble>,
}

impl Real {
    async fn start(servers: u64) -> Self {
        let (mut alone, mut ensemble) = (None, None);
        if servers == 1 {
            let builder = TestServer::builder().tick_time(TICK).container_check_interval(NEVER);
            alone = Some(builder.property("maxClientCnxns", "0").start().await.unwrap());
        } else {
            let builder = TestEnsemble::builder(3).tick_time(TICK).container_check_interval(NEVER);
            ensemble = Some(builder.property("maxClientCnxns", "0").start().await.unwrap());
        }
        Self { alone, ensemble }
    }

    fn addresses(&self) -> Vec<String> {
        let alone = self.alone.iter().map(TestServer::connect_string);
        let members = self.ensemble.iter().flat_map(TestEnsemble::members);
        alone.chain(members.map(|member| member.connect_string())).map(str::to_owned).collect()
    }

    /// The version of the servers, by their answer to `srvr`.
    async fn version(&self) -> Version {
        let answer = match &self.ensemble {
            None => self.alone.as_ref().unwrap().four_letter_word("srvr").await.unwrap(),
            Some(ensemble) => ensemble.members()[0].four_letter_word("srvr").await.unwrap(),
        };
        let said = answer.split_once("version: ").map_or("", |(_, version)| version);
        let known = Version::ALL.into_iter().find(|known| said.starts_with(&format!("{known}.")));
        known.unwrap_or_else(|| panic!("no version whose rules are known: {answer}"))
    }

    async fn restart(&self) {
        match &self.ensemble {
            None => self.alone.as_ref().unwrap().restart().await.unwrap(),
            Some(ensemble) => ensemble.members()[fastrand::usize(..3)].restart().await.unwrap(),
        }
    }
}

fn simulated(script: &Script, servers: u64, version: Version) -> Vec<String> {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let builder = Ensemble::builder(script.seed).servers(servers.try_into().unwrap());
        let builder = builder.tick_time(TICK).container_check_interval(NEVER).version(version);
        let timeouts = Duration::from_secs(1)..=Duration::from_secs(60);
        run(script, &Side::Simulated(builder.session_timeouts(timeouts).start())).await
    })
}

/// One batch on real servers.
#[allow(clippy::disallowed_methods)] // what is not awaited ends with the runtime
fn real(scripts: &Arc<Vec<Script>>, servers: &Arc<Real>) -> Vec<Vec<String>> {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let batch = Arc::new(Barrier::new(scripts.len()));
        let all = (0..scripts.len()).map(|nth| {
            let (scripts, side) = (scripts.clone(), Side::Real(servers.clone(), batch.clone()));
            tokio::spawn(async move { run(&scripts[nth], &side).await })
        });
        join_all(all).await.into_iter().map(Result::unwrap).collect()
    })
}

/// The number that a variable has.
fn number(name: &str, default: u64) -> u64 {
    let value = env::var(name).unwrap_or_default();
    if value.is_empty() { default } else { value.parse().expect(name) }
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
#[ignore = "make conformance"]
fn simulated_servers_are_as_real_ones() {
    let servers = number("SERVERS", 1);
    let first = number("SEED", 1);
    let count = number("SCRIPTS", 100);
    assert!([1, 3].contains(&servers) && count > 0, "SERVERS={servers} SCRIPTS={count}");
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let real_ones = Arc::new(runtime.block_on(Real::start(servers)));
    let version = runtime.block_on(real_ones.version());
    let (mut next, mut requests, mut differences) = (first, 0, 0);
    while next < first + count {
        let end = ((next / BATCH + 1) * BATCH).min(first + count);
        let scripts = Arc::new((next..end).map(Script::new).collect::<Vec<_>>());
        let (these, on) = (scripts.clone(), real_ones.clone());
        let theirs = thread::spawn(move || real(&these, &on));
        let ours: Vec<_> =
            scripts.iter().map(|script| simulated(script, servers, version)).collect();
        let theirs = theirs.join().unwrap();
        for ((script, ours), mut theirs) in scripts.iter().zip(ours).zip(theirs) {
            requests += script.requests;
            align(&ours, &mut theirs);
            if ours != theirs {
                differences += 1;
                print_difference(script, &ours, &theirs);
            }
        }
        next = end;
    }
    drop(real_ones);
    println!(
        "conformance: version={version} servers={servers} scripts={count} requests={requests} differences={differences}"
    );
    assert_eq!(differences, 0, "scripts that differ");
}
