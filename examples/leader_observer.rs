//! Who leads, asked by one who is no candidate: a dashboard, or a client that looks for the leader's address.
//!
//! `cargo run --example leader_observer` runs against `ZOOKEEPER_CONNECT`, or a ZooKeeper that the testkit starts. It prints
//! each change as the observer is told of it: nobody, `a`, `b` after `a` stepped down, nobody again.

use std::error::Error;

use zookeeper_recipes::{Curator, LeaderLatch, LeaderObserver};
use zookeeper_testkit::{TestServer, random_path};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // An existing server if `ZOOKEEPER_CONNECT` names one, else a container or a local process.
    let server = TestServer::start().await?;
    println!("ZooKeeper runs as {} at {}", server.backend(), server.connect_string());
    let path = random_path("leader");

    // Three sessions, as of three processes: one observes, two are candidates.
    let ours = Curator::connect(server.connect_string()).await?;
    let mut observer = LeaderObserver::of_latch(&ours, &path)?;
    assert!(observer.changed().await?.is_none(), "the first answer: what there is");
    println!("nobody leads");

    let one = Curator::connect(server.connect_string()).await?;
    let first = LeaderLatch::new(&one, &path)?.with_id("a.example:8080")?;
    first.start()?;
    let leader = observer.changed().await?.ok_or("nobody leads")?;
    println!("{} leads, with token {}", leader.id(), leader.fencing_token());
    assert_eq!(leader.id(), first.id());

    // A candidate more is no change, and nobody is told.
    let two = Curator::connect(server.connect_string()).await?;
    let second = LeaderLatch::new(&two, &path)?.with_id("b.example:8080")?;
    second.start()?;
    while first.participants().await?.len() < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(observer.leader(), Some(leader.clone()));

    first.close().await?;
    let next = observer.changed().await?.ok_or("nobody leads")?;
    println!("{} leads, with token {}", next.id(), next.fencing_token());
    assert_eq!(next.id(), second.id());
    assert!(next.fencing_token() > leader.fencing_token());

    // What is told is what the servers know: a leader may hear of its term's beginning and end a moment later, or, if it was
    // stopped, much later. What may be done by one leader only is for the leader to do, with its token.
    second.close().await?;
    assert!(observer.changed().await?.is_none(), "there is no other candidate");
    println!("nobody leads");

    two.close().await?;
    one.close().await?;
    ours.close().await?;
    server.close().await?;
    Ok(())
}
