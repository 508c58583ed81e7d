//! A function that only the leader runs: three candidates, each leads for as long as its work takes; then one that leads
//! again and again.
//!
//! `cargo run --example leader_selector` uses `ZOOKEEPER_CONNECT`, or a ZooKeeper that the testkit starts.

use std::time::Duration;

use futures_util::future::try_join_all;
use zookeeper_recipes::{Curator, Error, FencingToken, Hold};
use zookeeper_testkit::{TestServer, random_path};

/// To return is to give the leadership up: the next candidate leads then, and not before.
async fn work(name: &'static str, term: Hold) -> FencingToken {
    println!("{name} leads under token {}", term.fencing_token());
    // Cancelled before another process can lead.
    let work = tokio::time::sleep(Duration::from_millis(100));
    term.cancellation_token().run_until_cancelled(work).await;
    term.fencing_token()
}

async fn one_term(servers: &str, path: &str, name: &'static str) -> Result<FencingToken, Error> {
    let curator = Curator::builder().identity(name).connect(servers).await?;
    let token =
        curator.leader_selector(path)?.run(async move |term| work(name, term).await).await?;
    curator.close().await;
    Ok(token)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = TestServer::start().await?;
    println!("ZooKeeper runs as {} at {}", server.backend(), server.connect_string());
    let path = random_path("leader");

    // Three sessions stand for three processes.
    let candidates = ["a", "b", "c"].map(|name| one_term(server.connect_string(), &path, name));
    let mut tokens = try_join_all(candidates).await?;
    tokens.sort();
    assert!(tokens.is_sorted_by(|one, next| one < next), "each led, in a term of its own");

    // This one is a candidate again after each term.
    let curator = Curator::connect(server.connect_string()).await?;
    let selector = curator.leader_selector(&path)?.auto_requeue();
    let run = selector.run(async |term| work("d", term).await);
    for _ in 0..2 {
        let token = run.next_report().await.ok_or("it goes on until it is closed")??;
        println!("d led under token {token}");
    }
    run.close().await?; // the term that has begun ends before this returns
    curator.close().await;
    server.close().await?;
    Ok(())
}
