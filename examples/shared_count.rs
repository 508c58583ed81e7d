//! A number that two processes share, such as a limit: one changes it, the other follows.
//!
//! `cargo run --example shared_count` uses `ZOOKEEPER_CONNECT`, or a ZooKeeper that the testkit starts.

use zookeeper_recipes::interop::SharedCount;
use zookeeper_recipes::{Curator, Error};
use zookeeper_testkit::{TestServer, random_path};

/// Writes over the value that it read. Of two that do so at the same time, one succeeds and the other reads again.
async fn increment(count: &SharedCount) -> Result<(), Error> {
    loop {
        let before = count.versioned();
        if count.try_set(&before, before.value + 1).await? {
            return Ok(());
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = TestServer::start().await?;
    println!("ZooKeeper runs as {} at {}", server.backend(), server.connect_string());
    let path = random_path("limit");

    // Two sessions stand for two processes. The first seed counts.
    let ours = Curator::connect(server.connect_string()).await?;
    let theirs = Curator::connect(server.connect_string()).await?;
    let count = SharedCount::start(&ours, &path, 3).await?;
    let same = SharedCount::start(&theirs, &path, 100).await?;
    println!("both start at {} and {}", count.value(), same.value());

    let mut watch = same.watch();
    count.set(5).await?; // whatever it was
    println!("the other process follows: {}", watch.changed().await?);

    tokio::try_join!(increment(&count), increment(&same))?;
    while watch.value() < 7 {
        watch.changed().await?;
    }
    println!("two increments at the same time: {}", watch.value());

    ours.client()?.delete(&path, None).await?; // the count's node is persistent
    ours.close().await;
    theirs.close().await;
    server.close().await?;
    Ok(())
}
