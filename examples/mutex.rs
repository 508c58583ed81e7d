//! The README's example: one lock, and what to know while it is held.
//!
//! `cargo run --example mutex` runs against `ZOOKEEPER_CONNECT`, or a ZooKeeper that the testkit starts. It prints
//! who holds the lock and under which fencing token, and that whoever else tries finds it busy.

use std::error::Error;
use std::time::Duration;

use zookeeper_recipes::{Curator, InterProcessMutex};
use zookeeper_testkit::TestServer;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // An existing server if `ZOOKEEPER_CONNECT` names one, else a container or a local process.
    let server = TestServer::start().await?;
    println!("ZooKeeper runs as {} at {}", server.backend(), server.connect_string());

    let curator = Curator::connect(server.connect_string()).await?;
    let mutex = InterProcessMutex::new(&curator, "/locks/orders")?;

    let guard = mutex.acquire().await?; // first come, first served, among all processes
    let token = guard.fencing_token();
    for (place, participant) in mutex.participants().await?.iter().enumerate() {
        let who = String::from_utf8_lossy(&participant.data);
        let does = if place == 0 { "holds" } else { "waits for" };
        println!("{who} {does} {} (node {})", mutex.path(), participant.path);
    }
    println!("we hold it with fencing token {token}");
    assert!(mutex.try_acquire().await?.is_none());
    println!("whoever else tries finds it busy");
    tokio::select! {
        loss = guard.lost() => println!("we lost it: {loss}"),
        () = tokio::time::sleep(Duration::from_millis(200)) => println!("worked under token {token}"),
    }
    guard.release().await?; // an error if the lock was not held to the end
    println!("we released it");

    // The same, with a body that is cancelled if the lock is lost.
    let next = mutex.with(async |hold| hold.fencing_token()).await?;
    assert!(next > token);
    println!("we held it again, with the greater token {next}");

    curator.close().await?;
    server.close().await?;
    Ok(())
}
