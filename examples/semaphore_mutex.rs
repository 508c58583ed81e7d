//! A lock that shares a path with Curator's `InterProcessSemaphoreMutex`, and is a semaphore with one lease to others.
//!
//! `cargo run --example semaphore_mutex` runs against `ZOOKEEPER_CONNECT`, or a ZooKeeper that the testkit starts. It prints
//! that neither its own task nor a semaphore on the same path gets in while it is held.

use std::error::Error;

use zookeeper_recipes::{Curator, InterProcessSemaphore, InterProcessSemaphoreMutex};
use zookeeper_testkit::{TestServer, random_path};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // An existing server if `ZOOKEEPER_CONNECT` names one, else a container or a local process.
    let server = TestServer::start().await?;
    println!("ZooKeeper runs as {} at {}", server.backend(), server.connect_string());
    let path = random_path("orders");

    let curator = Curator::connect(server.connect_string()).await?;
    let mutex = InterProcessSemaphoreMutex::new(&curator, &path)?;
    let semaphore = InterProcessSemaphore::new(&curator, &path, 1)?;

    let guard = mutex.acquire().await?;
    println!("we hold it with fencing token {} (node {})", guard.fencing_token(), guard.node());
    assert!(mutex.try_acquire().await?.is_none());
    println!("nobody re-enters, not even we");
    assert!(semaphore.try_acquire().await?.is_none());
    println!("a semaphore with one lease on the same path finds none");
    let first = guard.fencing_token();
    guard.release().await?; // an error if the lock was not held to the end

    // The same, with a body that is cancelled if the lock is lost.
    let token = mutex.with(async |hold| hold.fencing_token()).await?;
    assert!(token > first);
    println!("we held it again, with the greater token {token}");

    curator.close().await?;
    server.close().await?;
    Ok(())
}
