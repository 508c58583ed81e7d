//! Three candidates that lead in turn, each for as long as its work takes; then one that leads again and again.
//!
//! `cargo run --example leader_selector` runs against `ZOOKEEPER_CONNECT`, or a ZooKeeper that the testkit starts. It prints
//! who leads, under which fencing token, and how each term ended.

use std::error::Error;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use zookeeper_recipes::{Curator, FencingToken, LeaderSelector, Leadership};
use zookeeper_testkit::{TestServer, random_path};

static LEADERS: AtomicU32 = AtomicU32::new(0);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // An existing server if `ZOOKEEPER_CONNECT` names one, else a container or a local process.
    let server = TestServer::start().await?;
    println!("ZooKeeper runs as {} at {}", server.backend(), server.connect_string());
    let path = random_path("leader");

    // Three sessions, as of three processes.
    let mut candidates = JoinSet::new();
    for name in ["a", "b", "c"] {
        let curator = Curator::connect(server.connect_string()).await?;
        let selector = LeaderSelector::new(&curator, &path)?.with_id(name)?;
        candidates.spawn(async move {
            // To return is to resign: the next leads then, and not before.
            let token = selector.run(move |leadership| work(name, leadership)).await?;
            curator.close().await?;
            Ok::<_, Box<dyn Error + Send + Sync>>(token)
        });
    }
    let mut tokens = Vec::new();
    while let Some(ended) = candidates.join_next().await {
        tokens.push(ended?.map_err(|error| error.to_string())?);
    }
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), 3, "each led, in a term of its own");

    // One that queues again after each term, and leads until somebody wants the term to end.
    let curator = Curator::connect(server.connect_string()).await?;
    let selector = LeaderSelector::new(&curator, &path)?.with_id("d")?.auto_requeue();
    let (begins, mut begun) = mpsc::unbounded_channel();
    let run = selector.run(move |leadership| {
        let begins = begins.clone();
        async move {
            let _ = begins.send(leadership.fencing_token());
            leadership.cancellation_token().cancelled().await;
            leadership.fencing_token()
        }
    });
    let mut last = *tokens.last().ok_or("nobody led")?;
    for term in 1..=3 {
        let token = begun.recv().await.ok_or("no more terms")?;
        assert!(token > last, "each token is greater than those before");
        assert!(run.interrupt_leadership());
        let value = run.next().await.ok_or("no report")??;
        println!("d led with token {value} in term {term}, until it was asked to stop");
        assert_eq!(value, token);
        last = token;
    }
    run.close().await?; // the fourth term, if it has begun, ends before this does
    curator.close().await?;
    server.close().await?;
    Ok(())
}

/// Whoever leads, leads alone, until this returns.
async fn work(name: &str, leadership: Leadership) -> FencingToken {
    assert_eq!(LEADERS.fetch_add(1, Ordering::SeqCst), 0, "one leads at a time");
    println!("{name} leads, with token {}", leadership.fencing_token());
    let over = leadership.cancellation_token();
    let done = over.run_until_cancelled(tokio::time::sleep(Duration::from_millis(100))).await;
    println!("{name} resigns, its work {}", if done.is_some() { "done" } else { "cut short" });
    assert_eq!(LEADERS.fetch_sub(1, Ordering::SeqCst), 1);
    leadership.fencing_token()
}
