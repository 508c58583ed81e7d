//! At most N at a time, among all processes: three leases, some of them taken together.
//!
//! `cargo run --example semaphore` uses `ZOOKEEPER_CONNECT`, or a ZooKeeper that the testkit starts.

use std::time::Duration;

use zookeeper_recipes::{Curator, Error, FencingToken};
use zookeeper_testkit::{TestServer, random_path};

/// Stands for your work.
async fn import(token: FencingToken) -> Result<u64, Error> {
    println!("importing under token {token}");
    Ok(3)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = TestServer::start().await?;
    println!("ZooKeeper runs as {} at {}", server.backend(), server.connect_string());
    let path = random_path("imports");

    // Two sessions stand for two processes. All processes must use the same limit.
    let ours = Curator::builder().identity("ours").connect(server.connect_string()).await?;
    let theirs = Curator::builder().identity("theirs").connect(server.connect_string()).await?;
    let imports = ours.semaphore(&path, 3)?;
    let same = theirs.semaphore(&path, 3)?;

    let imported = imports.run(async |lease| import(lease.fencing_token()).await).await?;
    println!("imported {imported} files");

    let lease = same.acquire().await?;
    let two = imports.acquire_many(2).await?; // both, or it waits without any
    let busy = same.try_acquire().await;
    assert!(busy.is_err_and(|error| error.is_busy()));
    let patience = Duration::from_millis(500);
    let busy = same.acquire_many_timeout(2, patience).await;
    assert!(busy.is_err_and(|error| error.is_busy()));
    for participant in imports.participants().await? {
        println!("a lease of {} is taken: {}", imports.limit(), participant.node_name());
    }

    // Each lease is a guard of its own.
    for lease in two {
        println!("releasing lease {}", lease.fencing_token());
        lease.release().await?;
    }
    let more = same.try_acquire_many(2).await?;
    more.release().await?;
    lease.release().await?;

    ours.close().await;
    theirs.close().await;
    server.close().await?;
    Ok(())
}
