//! A job that runs once for each night, although two machines start it.
//!
//! `cargo run --example once` uses `ZOOKEEPER_CONNECT`, or a ZooKeeper that the testkit starts. [`cron_job`](cron_job.rs)
//! is a program for a crontab, with jobs that fail and machines that die.

use zookeeper_recipes::{Curator, Error, Hold, OnceOutcome};
use zookeeper_testkit::{TestServer, random_path};

/// Stands for the job. It does not run again once it has returned `Ok`.
async fn report(hold: Hold) -> Result<u64, Error> {
    println!("reporting under token {}", hold.fencing_token());
    Ok(42)
}

async fn machine(name: &str, servers: &str, path: &str) -> Result<(), Error> {
    let curator = Curator::builder().identity(name).connect(servers).await?;
    // The key is yours: a date, a deployment, a batch.
    let nightly = curator.once(path, "2026-11-24")?;
    match nightly.run(report).await? {
        OnceOutcome::Ran(rows) => println!("{name} reported {rows} rows"),
        OnceOutcome::AlreadyDone { by, .. } => println!("{name} does nothing: {by} did it"),
    }
    curator.close().await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = TestServer::start().await?;
    println!("ZooKeeper runs as {} at {}", server.backend(), server.connect_string());
    let (servers, path) = (server.connect_string(), random_path("nightly"));
    // Two sessions stand for two machines.
    tokio::try_join!(machine("arles", servers, &path), machine("bern", servers, &path))?;

    // The record is persistent, so that a machine that comes later finds it.
    let curator = Curator::connect(servers).await?;
    curator.client()?.delete(&format!("{path}/done/2026-11-24"), None).await?;
    curator.close().await;
    server.close().await?;
    Ok(())
}
