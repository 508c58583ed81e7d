//! The README's example: one lock among all processes; then a guard, for a lock that is held across functions.
//!
//! `cargo run --example mutex` uses `ZOOKEEPER_CONNECT`, or a ZooKeeper that the testkit starts.

use std::time::Duration;

use zookeeper_recipes::{Curator, Error, FencingToken};
use zookeeper_testkit::TestServer;

/// Stands for your work. Pass the token with each write, and let the resource reject smaller ones.
async fn bill(token: FencingToken) -> Result<u64, Error> {
    println!("billing under token {token}");
    tokio::time::sleep(Duration::from_millis(200)).await;
    Ok(3)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = TestServer::start().await?;
    println!("ZooKeeper runs as {} at {}", server.backend(), server.connect_string());

    let curator = Curator::connect(server.connect_string()).await?;
    let orders = curator.mutex("/locks/orders")?;

    // First come, first served. The closure is dropped at its next `await` if the lock is lost.
    let billed = orders.run(async |hold| bill(hold.fencing_token()).await).await?;
    println!("billed {billed} orders");

    // The same, if the lock is free.
    match orders.try_run(async |hold| bill(hold.fencing_token()).await).await {
        Ok(billed) => println!("billed {billed} more"),
        Err(error) if error.is_busy() => println!("another process bills: {error}"),
        Err(error) => return Err(error.into()),
    }

    let guard = orders.acquire().await?;
    for participant in orders.participants().await? {
        let does = if participant.holds { "holds" } else { "waits for" };
        println!("{} {does} {}", participant.identity.unwrap_or_default(), orders.path());
    }
    // It does not wait, so it finds the lock that `guard` holds.
    let busy = orders.try_acquire().await;
    assert!(busy.is_err_and(|error| error.is_busy()));
    tokio::select! {
        loss = guard.lost() => println!("stop at once: {loss}"),
        billed = bill(guard.fencing_token()) => println!("billed {} more", billed?),
    }
    guard.release().await?; // an error if the lock was not held to the end

    curator.close().await;
    server.close().await?;
    Ok(())
}
