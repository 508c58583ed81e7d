//! A long job that gives its lock back when another process asks for it.
//!
//! `cargo run --example revocation` uses `ZOOKEEPER_CONNECT`, or a ZooKeeper that the testkit starts.

use std::time::Duration;

use zookeeper_recipes::interop::Revoker;
use zookeeper_recipes::{Curator, Error, InterProcessMutex};
use zookeeper_testkit::{TestServer, random_path};

/// Works until it is asked to stop. It does not leave a piece half done.
async fn reindex(mutex: InterProcessMutex) -> Result<u32, Error> {
    mutex
        .run(async |hold| {
            let mut done = 0;
            loop {
                tokio::select! {
                    () = hold.revocation_requested() => return Ok(done),
                    () = tokio::time::sleep(Duration::from_millis(50)) => done += 1,
                }
            }
        })
        .await
}

/// Asks the holder, and takes the lock.
async fn urgent(curator: &Curator, mutex: InterProcessMutex) -> Result<(), Error> {
    tokio::time::sleep(Duration::from_millis(300)).await;
    for holder in mutex.participants().await?.into_iter().filter(|one| one.holds) {
        println!("asking {}", holder.node_name());
        Revoker::new(curator).attempt_revoke(&holder.node).await?;
    }
    mutex.with(async |hold| println!("urgent work under token {}", hold.fencing_token())).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = TestServer::start().await?;
    println!("ZooKeeper runs as {} at {}", server.backend(), server.connect_string());
    let path = random_path("reindex");
    let ours = Curator::connect(server.connect_string()).await?;
    let theirs = Curator::connect(server.connect_string()).await?;

    let job = reindex(ours.mutex(&path)?);
    let (done, ()) = tokio::try_join!(job, urgent(&theirs, theirs.mutex(&path)?))?;
    println!("the job gave the lock back after {done} pieces");

    ours.close().await;
    theirs.close().await;
    server.close().await?;
    Ok(())
}
