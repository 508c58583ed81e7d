//! A limit that processes share: three leases, some of them taken together, and who has them.
//!
//! `cargo run --example semaphore` runs against `ZOOKEEPER_CONNECT`, or a ZooKeeper that the testkit starts. It prints
//! who has a lease and who waits, and that nobody gets one when none is left.

use std::error::Error;
use std::time::Duration;

use zookeeper_recipes::{Curator, InterProcessSemaphore};
use zookeeper_testkit::{TestServer, random_path};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // An existing server if `ZOOKEEPER_CONNECT` names one, else a container or a local process.
    let server = TestServer::start().await?;
    println!("ZooKeeper runs as {} at {}", server.backend(), server.connect_string());
    let path = random_path("imports");

    // Two sessions, as of two processes. All must say the same limit.
    let ours = Curator::builder().identity("ours").connect(server.connect_string()).await?;
    let theirs = Curator::builder().identity("theirs").connect(server.connect_string()).await?;
    let semaphore = InterProcessSemaphore::new(&ours, &path, 3)?;
    let same = InterProcessSemaphore::new(&theirs, &path, 3)?;

    let lease = same.acquire().await?;
    let two = semaphore.acquire_many(2).await?; // both of them, or a wait without any
    println!("all {} leases are taken", semaphore.limit());
    assert!(same.try_acquire().await?.is_none());
    println!("whoever tries finds none");
    assert!(same.acquire_many_timeout(2, Duration::from_secs(2)).await?.is_none());
    println!("whoever asks for two gives up after a while, and keeps none");
    for participant in semaphore.participants().await? {
        let does = if participant.holds { "has a lease" } else { "waits" };
        println!("{} {does} (node {})", participant.id(), participant.path);
    }

    // Each lease is a guard: it can be lost, has a token, and goes on its own.
    for lease in two {
        println!("we give back lease {}", lease.fencing_token());
        lease.release().await?;
    }
    let all_but_one = same.acquire_many(2).await?;
    println!("now they have {} and {}", lease.fencing_token(), all_but_one[1].fencing_token());
    all_but_one.release().await?;
    lease.release().await?;

    ours.close().await?;
    theirs.close().await?;
    server.close().await?;
    Ok(())
}
