//! The page docs/guide/coming-from-curator.md, held to what it says: the service that it links to runs, in its steps.

#[allow(unreachable_pub)] // it is a whole file of a user's service
mod biller;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use zookeeper_recipes::zookeeper_client::CreateMode;
use zookeeper_recipes_dev::{Testbed, children, eventually};
use zookeeper_testkit::{Direction, FaultProxy};

use crate::support::commands::Nanos;
use crate::support::our_process::questions;
use crate::support::our_recipes::now;
use crate::support::peer_process::Peer;
use crate::support::peers;

const PAGE: &str = include_str!("../../../docs/guide/coming-from-curator.md");

/// How often each instance bills in each step before the next one is taken.
const ROUNDS: usize = 25;
const SERVERS: &str = "BILLING_SERVERS";

/// By the page's table: the instances that run in each step.
fn steps() -> Vec<Vec<&'static str>> {
    let is_instance = |name: &&str| name.starts_with("java-") || name.starts_with("rust-");
    let rows = PAGE.lines().filter(|line| line.starts_with('|'));
    let cells = rows.filter_map(|row| row.split('|').nth(2));
    let named = cells.map(|cell| cell.split('`').filter(is_instance).collect::<Vec<_>>());
    named.filter(|instances| !instances.is_empty()).collect()
}

/// One process of the service.
struct Instance {
    who: String,
    peer: Arc<Peer>,
    /// What it billed, as far as it was asked: each from when to when.
    log: Vec<(Nanos, Nanos)>,
}

impl Instance {
    /// Of its servers; with more, which only Java knows, it bills until it may not any more.
    fn start(name: &str, number: usize, arguments: &[&str]) -> Option<Self> {
        let servers = arguments[0];
        let peer = if name.starts_with("java") {
            let mut program = peers::java("BillingInstance", &java_sources())?;
            program.extend(arguments.iter().map(|&one| one.to_owned()));
            peers::start(peers::CURATOR, &program)
        } else {
            let environment = vec!["env".to_owned(), format!("{SERVERS}={servers}")];
            let program = peers::this_executable("migration::instance");
            peers::start(peers::OURS, &[environment, program].concat())
        };
        Some(Self { who: format!("{name}, process {number}"), peer, log: Vec::new() })
    }

    /// Its whole log; `stop` ends it in order before.
    async fn ask(&mut self, question: &str) {
        let told = self.peer.ask(question).await;
        let bill = |stamps: &str| {
            let (from, to) = stamps.split_once(':').expect("two stamps");
            (from.parse().expect("a stamp"), to.parse().expect("a stamp"))
        };
        self.log = told.split_whitespace().map(bill).collect();
    }

    /// Waits until it has billed so often once more.
    async fn bills(&mut self) {
        self.ask("holds").await;
        let enough = self.log.len() + ROUNDS;
        let who = self.who.clone();
        eventually(&format!("{who} bills"), async || {
            self.ask("holds").await;
            self.log.len() >= enough
        })
        .await;
    }
}

fn java_sources() -> [PathBuf; 2] {
    ["migration/Biller.java", "migration/BillingInstance.java"].map(peers::source)
}

/// The page's steps, with the service's code on both sides. No two ever billed at once, in no step and in no step back.
#[tokio::test]
#[ignore = "make test-all"]
async fn a_service_migrates_in_the_steps_of_the_page() {
    let Some(_) = peers::java("BillingInstance", &java_sources()) else { return };
    let testbed = Testbed::real().await;
    testbed.create(&testbed.path, CreateMode::Container).await;
    let servers = format!("{}{}", testbed.server.connect_string(), testbed.path);
    let queue = format!("{}/shop/locks/billing", testbed.path);
    let steps = steps();
    assert!(steps.len() > 5, "the page's table has {} steps", steps.len());

    let mut running: BTreeMap<&str, Instance> = BTreeMap::new();
    let mut logs = Vec::new();
    let mut started = 0;
    for step in &steps {
        // First the new ones, then the old ones: the service is never without.
        for &name in step {
            if !running.contains_key(name) {
                started += 1;
                running.insert(name, Instance::start(name, started, &[&servers]).expect("Java"));
            }
        }
        let leaving: Vec<_> = running.keys().copied().filter(|name| !step.contains(name)).collect();
        for name in leaving {
            let mut instance = running.remove(name).unwrap();
            instance.ask("stop").await;
            logs.push(instance.log);
        }
        for instance in running.values_mut() {
            instance.bills().await;
        }
        // What the page says is to be seen.
        let count = running.len();
        eventually(&format!("a node for each of {count}"), async || {
            children(&testbed.admin, &queue).await.len() == count
        })
        .await;
    }
    for (_, mut instance) in running {
        instance.ask("stop").await;
        logs.push(instance.log);
    }
    assert_eq!(children(&testbed.admin, &queue).await, [""; 0]);
    let mut bills = logs.concat();
    bills.sort_unstable();
    for two in bills.windows(2) {
        assert!(two[0].1 <= two[1].0, "of {} bills two at once: {two:?}", bills.len());
    }
}

/// Why the Java side has a listener: cut off in the middle of its work, it stops before the next one bills.
#[tokio::test]
#[ignore = "make test-all"]
async fn the_java_side_stops_when_it_is_cut_off() {
    let testbed = Testbed::real().await;
    testbed.create(&testbed.path, CreateMode::Container).await;
    let link = FaultProxy::start(testbed.server.connect_string()).await.unwrap();
    let servers = format!("{}{}", link.connect_string(), testbed.path);
    let queue = format!("{}/shop/locks/billing", testbed.path);
    let Some(mut java) = Instance::start("java", 1, &[&servers, "until it may not"]) else {
        return;
    };
    let nodes = async || children(&testbed.admin, &queue).await.len();
    eventually("it bills", async || nodes().await == 1).await;
    let servers = format!("{}{}", testbed.server.connect_string(), testbed.path);
    let mut rust = Instance::start("rust", 2, &[&servers]).unwrap();
    eventually("the other one waits", async || nodes().await == 2).await;
    let _silence = link.stall(Direction::Both);
    rust.bills().await;
    java.ask("holds").await;
    let (stopped, took_over) = (java.log.first().expect("it stopped").1, rust.log[0].0);
    assert!(stopped < took_over, "{} ns late", stopped - took_over);
}

/// No link can be cut between two of its lines. A flag that is raised after the lock was had undoes a SUSPENDED of
/// that moment, and the holder bills on beside the next one.
#[test]
fn the_java_side_raises_its_flag_before_it_asks_for_the_lock() {
    let java = include_str!("Biller.java");
    let at = |what: &str| java.find(what).unwrap_or_else(|| panic!("no {what:?}"));
    assert_eq!(java.matches("mayBill = true").count(), 1);
    assert!(at("mayBill = true") < at("mutex.acquire("));
}

/// No test: an instance of the service in Rust, when the migration starts one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a process that another test starts"]
async fn instance() {
    let Some(mut lines) = questions() else { return };
    println!();
    let servers = std::env::var(SERVERS).unwrap();
    let holds: Arc<Mutex<Vec<String>>> = Arc::default();
    let stopping = CancellationToken::new();
    let (billed, stop) = (holds.clone(), stopping.clone());
    let mut service = tokio::spawn(async move {
        let bill = |_| async {
            let from = now();
            tokio::time::sleep(Duration::from_millis(4).mul_f64(fastrand::f64())).await;
            billed.lock().unwrap().push(format!("{from}:{}", now()));
        };
        biller::run(&servers, bill, stop).await.unwrap();
    });
    while let Some(line) = lines.recv().await {
        let (number, question) = line.split_once(' ').unwrap();
        if question == "stop" {
            stopping.cancel();
            (&mut service).await.unwrap();
        }
        let holds = holds.lock().unwrap().join(" ");
        println!("> {number} ok {holds}");
        std::io::stdout().flush().unwrap();
    }
    std::process::exit(0);
}
