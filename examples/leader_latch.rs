//! Three candidates for one post: one leads, and when it gives up the next one does.
//!
//! `cargo run --example leader_latch` runs against `ZOOKEEPER_CONNECT`, or a ZooKeeper that the testkit starts. It prints
//! who leads, under which fencing token, and who gave up.

use std::error::Error;

use futures_util::FutureExt;
use futures_util::future::select_all;
use zookeeper_recipes::{CloseMode, Curator, LeaderError, LeaderLatch, Loss};
use zookeeper_testkit::{TestServer, random_path};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // An existing server if `ZOOKEEPER_CONNECT` names one, else a container or a local process.
    let server = TestServer::start().await?;
    println!("ZooKeeper runs as {} at {}", server.backend(), server.connect_string());
    let path = random_path("leader");

    // Three sessions, as of three processes. None of them waits for its connection.
    let (mut curators, mut latches) = (Vec::new(), Vec::new());
    for name in ["a", "b", "c"] {
        let curator = Curator::builder().start(server.connect_string())?;
        let latch = LeaderLatch::new(&curator, &path)?.with_id(name)?;
        latch.start()?;
        latches.push(latch);
        curators.push(curator);
    }

    // Each leads in turn: as long as one does, it keeps its place.
    let mut tokens = Vec::new();
    while !latches.is_empty() {
        let waits = latches.iter().map(|latch| latch.await_leadership().boxed());
        let (leadership, place, _) = select_all(waits).await;
        let (leadership, latch) = (leadership?, latches.swap_remove(place));
        println!("{} leads, with token {}", latch.id(), leadership.fencing_token());
        let mut watch = latch.watch();
        assert!(latch.has_leadership() && watch.state().is_leader());
        assert!(latches.iter().all(|other| !other.has_leadership()));
        // Asked of the servers, also by who does not take part.
        let leader = latch.leader().await?.ok_or("nobody leads")?;
        assert_eq!(leader.id(), latch.id());
        assert_eq!(leader.fencing_token(), leadership.fencing_token());
        tokens.push(leadership.fencing_token());

        // Its watches are told of that, too: by default they only end.
        latch.close_with(CloseMode::NotifyLeader).await?;
        assert!(!leadership.is_held());
        assert_eq!(leadership.lost().await, Loss::Released);
        assert!(!watch.changed().await?.is_leader());
        assert!(matches!(watch.changed().await, Err(LeaderError::Closed { .. })));
        println!("{} gave up", latch.id());
    }
    assert!(tokens.is_sorted_by(|one, next| one < next), "each token is greater than those before");

    for curator in curators {
        curator.close().await?;
    }
    server.close().await?;
    Ok(())
}
