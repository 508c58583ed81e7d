//! A transfer between two accounts takes the locks of both; transfers in opposite directions do not dead-lock.
//!
//! Runs against `ZOOKEEPER_CONNECT`, or a ZooKeeper that the testkit starts.

use std::error::Error;
use std::time::Duration;

use zookeeper_recipes::testkit::{TestServer, random_path};
use zookeeper_recipes::{Curator, InterProcessMultiLock, InterProcessMutex, WithError};

/// Moves an amount under the locks of both accounts.
async fn transfer(curator: &Curator, from: &str, to: &str) -> Result<(), Box<dyn Error>> {
    // Given in any order, taken in one.
    let both = InterProcessMultiLock::from_paths(curator, [from, to])?.sorted_by_path();
    let moved = both.with(async |guard| {
        let tokens: Vec<_> =
            guard.members().iter().filter_map(|member| member.fencing_token()).collect();
        println!("from {from} to {to}: under {}, tokens {tokens:?}", guard.path());
        tokio::time::sleep(Duration::from_millis(50)).await;
    });
    match moved.await {
        // The body was stopped at its next `await`: what it has done must be looked at.
        Err(WithError::Lost { path, loss, .. }) => println!("lost {path}: {loss}"),
        done => done?,
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = TestServer::start().await?;
    let curator = Curator::connect(server.connect_string()).await?;
    let accounts = random_path("accounts");
    let (one, two) = (format!("{accounts}/1"), format!("{accounts}/2"));

    let (forth, back) =
        tokio::join!(transfer(&curator, &one, &two), transfer(&curator, &two, &one));
    forth?;
    back?;

    // All or none: with one of them taken, neither is.
    let holder = InterProcessMutex::new(&curator, &two)?.acquire().await?;
    let both = InterProcessMultiLock::from_paths(&curator, [&one, &two])?;
    let limit = Duration::from_millis(200); // for both of them
    match both.acquire_timeout(limit).await? {
        None => println!("{} was not free within {limit:?}, and neither is held", both.path()),
        Some(_) => println!("somebody let go of {two}"),
    }
    holder.release().await?;
    let guard = both.acquire().await?;
    println!("both are held: {}", guard.is_held());
    guard.release().await?; // what must be known of each member, if it was not simply released

    curator.close().await?;
    server.close().await?;
    Ok(())
}
