//! A long job that gives its lock back when somebody asks for it.
//!
//! `cargo run --example revocation` runs against `ZOOKEEPER_CONNECT`, or a ZooKeeper that the testkit starts. It prints
//! who is asked, how far the job was, and who holds the lock next.

use std::error::Error;
use std::time::Duration;

use zookeeper_recipes::{Curator, InterProcessMutex, Revoker};
use zookeeper_testkit::{TestServer, random_path};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // An existing server if `ZOOKEEPER_CONNECT` names one, else a container or a local process.
    let server = TestServer::start().await?;
    println!("ZooKeeper runs as {} at {}", server.backend(), server.connect_string());
    let path = random_path("reindex");

    let (ours, theirs) = (
        Curator::connect(server.connect_string()).await?,
        Curator::connect(server.connect_string()).await?,
    );
    let guard = InterProcessMutex::new(&ours, &path)?.acquire().await?;
    let mut job = tokio::task::JoinSet::new();
    job.spawn(async move {
        let mut done = 0;
        loop {
            tokio::select! {
                // One piece of the work; it is not left half done.
                () = tokio::time::sleep(Duration::from_millis(50)) => done += 1,
                requested = guard.revocation_requested() => {
                    requested.map_err(|loss| loss.to_string())?; // if the lock was lost before
                    println!("we are asked to give it back, after {done} pieces");
                    guard.release().await?;
                    return Ok::<(), Box<dyn Error + Send + Sync>>(());
                }
            }
        }
    });

    let mutex = InterProcessMutex::new(&theirs, &path)?;
    let revoker = Revoker::new(&theirs);
    tokio::time::sleep(Duration::from_millis(200)).await;
    for participant in mutex.participants().await?.into_iter().filter(|one| one.holds) {
        let there = revoker.attempt_revoke(&participant.path).await?;
        assert!(there, "it has ended by itself");
        println!("{} is asked", participant.path);
    }
    let next = mutex.acquire().await?;
    println!("and the next holds it with token {}", next.fencing_token());
    next.release().await?;
    for done in job.join_all().await {
        done.map_err(|error| error.to_string())?;
    }

    ours.close().await?;
    theirs.close().await?;
    server.close().await?;
    Ok(())
}
