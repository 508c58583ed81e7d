//! A limit that two processes share: one changes it, the other is told.
//!
//! `cargo run --example shared_count` runs against `ZOOKEEPER_CONNECT`, or a ZooKeeper that the testkit starts. It prints
//! what one process sets and the other is told, and a count that both have raised at the same time.

use std::error::Error;

use zookeeper_recipes::{Curator, SharedCount};
use zookeeper_testkit::{TestServer, random_path};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // An existing server if `ZOOKEEPER_CONNECT` names one, else a container or a local process.
    let server = TestServer::start().await?;
    println!("ZooKeeper runs as {} at {}", server.backend(), server.connect_string());
    let path = random_path("limit");

    // Two sessions, as of two processes. The first seed wins.
    let ours = Curator::connect(server.connect_string()).await?;
    let theirs = Curator::connect(server.connect_string()).await?;
    let count = SharedCount::start(&ours, &path, 3).await?;
    let same = SharedCount::start(&theirs, &path, 100).await?;
    assert_eq!((count.value(), same.value()), (3, 3));
    println!("both start at {} and {}", count.value(), same.value());

    let mut watch = same.watch();
    count.set(5).await?; // whatever it was
    let told = watch.changed().await?;
    assert_eq!(told, 5);
    println!("the other is told {told}");

    // Over what was read: of two who do it at the same time, one succeeds, and the other reads again.
    for _ in 0..3 {
        let (one, two) = tokio::join!(increment(&count), increment(&same));
        one?;
        two?;
    }
    // What another has written is known a moment later.
    let mut watch = count.watch();
    while count.value() < 11 {
        watch.changed().await?;
    }
    let last = count.versioned();
    println!("six times one more makes {}, version {}", last.value, last.version);
    assert_eq!(last.value, 11, "no increment is lost, and none is done twice");

    let client = ours.client()?;
    client.delete(&path, None).await?; // it would stay
    drop(client);
    println!("deleted, the last value is still known: {}", count.value());

    ours.close().await?;
    theirs.close().await?;
    server.close().await?;
    Ok(())
}

async fn increment(count: &SharedCount) -> Result<(), Box<dyn Error>> {
    loop {
        let before = count.versioned();
        if count.try_set(&before, before.value + 1).await? {
            return Ok(());
        }
    }
}
