//! ZooKeeper itself refuses the write of a stale holder: each fenced write carries a check of the holder's node.
//!
//! `cargo run --example fencing` uses `ZOOKEEPER_CONNECT`, or a ZooKeeper that the testkit starts. For writes to a database
//! see `docs/guide/guarantees.md`, "Fenced writes".

use zookeeper_recipes::zookeeper_client::Client;
use zookeeper_recipes::{Curator, Error, ErrorKind};
use zookeeper_testkit::{TestServer, random_path};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = TestServer::start().await?;
    println!("ZooKeeper runs as {} at {}", server.backend(), server.connect_string());
    let (path, node) = (random_path("lock"), random_path("config"));
    let administrator = Client::connect(server.connect_string()).await?;

    let old = Curator::connect(server.connect_string()).await?;
    let stale = old.mutex(&path)?.acquire().await?;
    stale.fenced().create(&node, b"by the old holder").await?;
    println!("the old holder wrote under token {}", stale.fencing_token());

    // An administrator deletes the holder's node, so the lock passes on. The old holder could as well have been stopped
    // for longer than its session, between its last check and its next write.
    administrator.delete(stale.node(), None).await?;
    let new = Curator::connect(server.connect_string()).await?;
    let mutex = new.mutex(&path)?;
    let written = mutex.run(async |hold| -> Result<_, Error> {
        hold.fenced().set(&node, b"by the new holder").await?;
        println!("the new holder wrote under token {}", hold.fencing_token());

        let refused = stale.fenced().set(&node, b"stale").await.err();
        assert_eq!(refused.as_ref().map(Error::kind), Some(ErrorKind::Lost));
        println!("ZooKeeper refuses the old holder: {}", refused.expect("an error"));
        assert!(!stale.is_held());
        Ok(())
    });
    written.await?;

    let (data, _) = administrator.get_data(&node).await?;
    assert_eq!(data, b"by the new holder");
    administrator.delete(&node, None).await?;
    drop((stale, administrator));
    new.close().await;
    server.close().await?;
    Ok(())
}
