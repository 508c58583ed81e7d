//! The tests of docs/guide/testing-your-code.md, as a user of the testkit writes them, and that of the README. The pages are
//! copies, which the house test checks.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Mutex;
use zookeeper_recipes::simulation::Ensemble;
use zookeeper_recipes::{Curator, Error, ErrorKind, Lock, Loss};
use zookeeper_testkit::{Direction, FaultProxy, Message, Operation, TestServer, random_path};

type Result<T = (), E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// One server for all tests that run at the same time. The last one to end stops it.
async fn server() -> Result<Arc<TestServer>> {
    static SHARED: Mutex<Weak<TestServer>> = Mutex::const_new(Weak::new());
    let mut shared = SHARED.lock().await;
    if let Some(server) = shared.upgrade() {
        return Ok(server);
    }
    let server = Arc::new(TestServer::start().await?);
    *shared = Arc::downgrade(&server);
    Ok(server)
}

#[tokio::test]
async fn a_holder_that_loses_the_lock_stops_in_time() -> Result {
    let server = server().await?;
    let link = FaultProxy::start(server.connect_string()).await?;
    let curator = Curator::builder()
        .session_timeout(Duration::from_secs(1)) // a test server grants it
        .connect(link.connect_string())
        .await?;
    let mutex = curator.mutex(random_path("orders"))?;
    let guard = mutex.acquire().await?;

    let silence = link.stall(Direction::Both); // nothing arrives, and no connection ends
    assert_eq!(guard.lost().await, Loss::LeaseEnded); // two thirds of a session later
    assert!(!guard.is_held());
    silence.heal();
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    Ok(())
}

#[tokio::test]
async fn a_lost_reply_leaves_no_second_node() -> Result {
    let server = server().await?;
    let link = FaultProxy::start(server.connect_string()).await?;
    let curator = Curator::connect(link.connect_string()).await?;
    let mutex = curator.mutex(random_path("orders"))?;
    mutex.acquire().await?.release().await?; // so that the next create is that of the contender

    let lost = link.lose(Message::reply(Operation::Create)); // the server does it; the client does not learn
    let guard = mutex.acquire().await?;
    assert_eq!(lost.strikes(), 1); // else the test has shown nothing
    assert_eq!(mutex.participants().await?.len(), 1);
    guard.release().await?;
    Ok(())
}

/// The code under test: it takes any lock.
async fn bill(lock: &dyn Lock) -> Result<bool> {
    match lock.try_run(async |hold| Ok(hold.is_held())).await {
        Err(error) if Error::is_busy(&error) => Ok(false), // another process bills
        billed => Ok(billed?),
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_server() -> Result {
    let ensemble = Ensemble::start(1); // in memory; the seed: the same one gives the same run
    let here = Curator::connect(ensemble.connect_string()).await?;
    let there = Curator::connect(ensemble.connect_string()).await?; // as if another process
    let lock = here.mutex("/locks/orders")?;
    assert!(bill(&lock).await?);
    let held = there.mutex("/locks/orders")?.acquire().await?;
    assert!(!bill(&lock).await?);
    ensemble.expire(&there); // its holder is notified, and the next is served
    assert_eq!(held.lost().await, Loss::SessionExpired);
    assert!(here.mutex("/locks/orders")?.acquire().await?.is_held());
    Ok(())
}

/// The code under test: it works while it holds the lock.
async fn work(servers: String) {
    let curator = Curator::connect(&servers).await.expect("a session");
    let mutex = curator.mutex("/locks/orders").expect("a path");
    let guard = mutex.acquire().await.expect("the lock");
    guard.lost().await;
}

#[tokio::test(start_paused = true)]
async fn a_killed_worker_is_replaced() -> Result {
    let ensemble = Ensemble::start(1);
    let (first, second) = (ensemble.process(), ensemble.process());
    let servers = ensemble.connect_string();
    first.spawn(work(servers.to_owned()));
    ensemble.until(|ensemble| ensemble.children("/locks/orders").len() == 1).await;
    let held_by = |ensemble: &Ensemble| ensemble.children("/locks/orders")[0].clone();
    let killed = held_by(&ensemble);
    second.spawn(work(servers.to_owned()));
    ensemble.until(|ensemble| ensemble.children("/locks/orders").len() == 2).await;

    first.kill(); // as `kill -9` does: its session stays until it expires
    let began = tokio::time::Instant::now();
    ensemble.until(|ensemble| held_by(ensemble) != killed).await;
    assert!(began.elapsed() < Duration::from_secs(17)); // 15 s and a tick, in no time
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_lost_lock_stops_the_work() -> Result<(), zookeeper_recipes::Error> {
    use zookeeper_recipes::{Curator, Loss, simulation::Ensemble};

    let ensemble = Ensemble::start(1); // the seed: the same one gives the same run
    let curator = Curator::connect(ensemble.connect_string()).await?;
    let guard = curator.mutex("/locks/orders")?.acquire().await?;
    let _cut = ensemble.partition(&curator);
    assert_eq!(guard.lost().await, Loss::LeaseEnded); // after 10 s of virtual time
    Ok(())
}
