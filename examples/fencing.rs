//! What a stale holder writes to ZooKeeper is refused by ZooKeeper itself: each write comes with a check of the hold's node.
//!
//! `cargo run --example fencing` runs against `ZOOKEEPER_CONNECT`, or a ZooKeeper that the testkit starts. It prints what
//! the old holder believes, before and after its write was refused. For writes to a database: `docs/guarantees.md`, "Fenced writes".

use std::error::Error;

use zookeeper_recipes::zookeeper_client::Client;
use zookeeper_recipes::{Curator, FencedError, InterProcessMutex};
use zookeeper_testkit::{TestServer, random_path};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // An existing server if `ZOOKEEPER_CONNECT` names one, else a container or a local process.
    let server = TestServer::start().await?;
    println!("ZooKeeper runs as {} at {}", server.backend(), server.connect_string());
    let (old, new) = (
        Curator::connect(server.connect_string()).await?,
        Curator::connect(server.connect_string()).await?,
    );
    let (path, node) = (random_path("lock"), random_path("config"));

    let stale = InterProcessMutex::new(&old, &path)?.acquire().await?;
    stale.fenced().create(&node, b"by the old holder").await?;
    println!("the old holder wrote under token {}", stale.fencing_token());

    // An administrator deletes the holder's node, and the lock passes on. The old holder could as well
    // have been stopped for longer than its session, between its last check and its next write.
    let administrator = Client::connect(server.connect_string()).await?;
    administrator.delete(stale.node(), None).await?;
    let next = InterProcessMutex::new(&new, &path)?.acquire().await?;
    next.fenced().set(&node, b"by the new holder").await?;
    println!("the new holder wrote under token {}", next.fencing_token());
    println!("the old holder believes that it holds: {}", stale.is_held());

    match stale.fenced().set(&node, b"stale").await {
        Err(refused @ FencedError::Lost { .. }) => println!("ZooKeeper refuses it: {refused}"),
        other => return Err(format!("ZooKeeper took a stale write: {other:?}").into()),
    }
    println!("the old holder believes that it holds: {}", stale.is_held());
    assert!(!stale.is_held());

    let (data, _) = administrator.get_data(&node).await?;
    println!("the node holds {:?}", String::from_utf8_lossy(&data));
    assert_eq!(data, b"by the new holder");
    next.fenced().delete(&node).await?;
    next.release().await?;
    drop((stale, administrator));
    server.close().await?;
    Ok(())
}
