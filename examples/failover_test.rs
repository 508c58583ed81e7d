//! A test of a leader's failover that needs no ZooKeeper and takes no time: three replicas of a service elect a leader in
//! a simulated ensemble, in virtual time; the leader is stopped, killed, and cut off.
//!
//! In a project of yours this is a test: `#[tokio::test(start_paused = true)]`, and the feature `simulation` of the crate
//! among the dev-dependencies.
//!
//! ```sh
//! cargo run --example failover_test --features simulation
//! ```

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use zookeeper_recipes::Curator;
use zookeeper_recipes::simulation::Ensemble;

/// The replica that leads, as the replicas say.
type Leader = Arc<Mutex<Option<usize>>>;

/// The code under test. It connects as in production, by a connect string.
async fn replica(number: usize, servers: String, leader: Leader) {
    let curator = Curator::connect(&servers).await.expect("a session");
    let selector = curator.leader_selector("/service/leader").expect("a path").auto_requeue();
    let terms = selector.run(async move |term| {
        set(&leader, Some(number));
        term.cancellation_token().cancelled().await;
        set(&leader, None);
    });
    while terms.next_report().await.is_some() {}
}

fn set(leader: &Leader, number: Option<usize>) {
    *leader.lock().unwrap_or_else(PoisonError::into_inner) = number;
}

fn get(leader: &Leader) -> Option<usize> {
    *leader.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for another leader than `old`, and says how long that took.
async fn next(leader: &Leader, old: Option<usize>) -> (usize, Duration) {
    let began = Instant::now();
    loop {
        match get(leader) {
            Some(number) if Some(number) != old => return (number, began.elapsed()),
            _ => sleep(Duration::from_millis(1)).await,
        }
    }
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() {
    let mut ensemble = Ensemble::builder(42).servers(3).start();
    // If an assertion fails, a picture of the seconds before it is written.
    ensemble.picture_on_panic("failover_test.svg");
    let leader = Leader::default();
    let start = |number| {
        let process = ensemble.process().named(format!("replica {number}"));
        process.spawn(replica(number, ensemble.connect_string().to_owned(), leader.clone()));
        process
    };
    let replicas: Vec<_> = (0..3).map(start).collect();
    let (first, _) = next(&leader, None).await;
    println!("replica {first} leads");

    // It stands still, as under a debugger or while it is swapped out: the servers end its session.
    replicas[first].pause();
    let (second, took) = next(&leader, Some(first)).await;
    println!("replica {first} stands still: after {took:.1?} replica {second} leads");
    assert!(took < Duration::from_secs(17), "a session timeout, and a tick");
    replicas[first].resume();

    replicas[second].kill();
    let (third, took) = next(&leader, Some(second)).await;
    println!("replica {second} is killed: after {took:.1?} replica {third} leads");
    assert!(took < Duration::from_secs(17), "a session timeout, and a tick");

    // A restart of the servers, one after the other, changes nothing.
    for server in 0..ensemble.servers() {
        ensemble.stop(server);
        sleep(Duration::from_millis(500)).await;
        ensemble.start_again(server);
        ensemble.serving().await;
        sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(get(&leader), Some(third), "no other replica leads");
    println!("the servers were restarted: replica {third} still leads");
}
