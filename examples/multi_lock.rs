//! A transfer between two accounts takes the locks of both; transfers in opposite directions do not dead-lock.
//!
//! `cargo run --example multi_lock` runs against `ZOOKEEPER_CONNECT`, or a ZooKeeper that the testkit starts. It prints
//! two transfers, one after the other, and that neither of two locks is taken while one of them is busy.

use std::error::Error;
use std::time::Duration;

use zookeeper_recipes::{Curator, InterProcessMultiLock, InterProcessMutex, WithError};
use zookeeper_testkit::{TestServer, random_path};

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
    // An existing server if `ZOOKEEPER_CONNECT` names one, else a container or a local process.
    let server = TestServer::start().await?;
    println!("ZooKeeper runs as {} at {}", server.backend(), server.connect_string());
    let builder = Curator::builder().namespace(&random_path("bank"));
    let curator = builder.connect(server.connect_string()).await?;
    let (one, two) = ("/accounts/1", "/accounts/2");

    let (forth, back) = tokio::join!(transfer(&curator, one, two), transfer(&curator, two, one));
    forth?;
    back?;

    // All or none: with one of them taken, neither is.
    let holder = InterProcessMutex::new(&curator, two)?.acquire().await?;
    let both = InterProcessMultiLock::from_paths(&curator, [one, two])?;
    let limit = Duration::from_secs(2); // for both of them
    assert!(both.acquire_timeout(limit).await?.is_none());
    println!("{} were not free within {limit:?}, so neither is held", both.path());
    assert!(InterProcessMutex::new(&curator, one)?.try_acquire().await?.is_some());
    holder.release().await?;
    let guard = both.acquire().await?;
    assert!(guard.is_held());
    println!("both are free, and held");
    guard.release().await?; // what must be known of each member, if it was not simply released

    curator.close().await?;
    server.close().await?;
    Ok(())
}
