//! The README's example: one lock, and what to know while it is held.
//!
//! Runs against `ZOOKEEPER_CONNECT`, or a ZooKeeper that the testkit starts.

use std::error::Error;

use zookeeper_recipes::testkit::TestServer;
use zookeeper_recipes::{Curator, InterProcessMutex};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // An existing server if `ZOOKEEPER_CONNECT` names one, else a container or a local process.
    let server = TestServer::start().await?;
    println!("ZooKeeper: {} at {}", server.backend(), server.connect_string());

    let curator = Curator::connect(server.connect_string()).await?;
    let mutex = InterProcessMutex::new(&curator, "/locks/orders")?;

    let guard = mutex.acquire().await?; // first come, first served, among all processes
    println!("held with fencing token {}: {}", guard.fencing_token(), guard.is_held());
    println!("somebody else would find it busy: {}", mutex.try_acquire().await?.is_none());
    for participant in mutex.participants().await? {
        let identity = String::from_utf8_lossy(&participant.data).into_owned();
        println!("in the queue: {identity} as {}", participant.path);
    }
    println!("released: {:?}", guard.release().await?);

    // The same, with a body that is cancelled if the lock is lost.
    let token = mutex.with(async |hold| hold.fencing_token()).await?;
    println!("held again with fencing token {token}");

    curator.close().await?;
    server.close().await?;
    Ok(())
}
