//! Three candidates for one role: one leads until it closes its latch, then the next one leads.
//!
//! `cargo run --example leader_latch` uses `ZOOKEEPER_CONNECT`, or a ZooKeeper that the testkit starts.

use std::time::Duration;

use tokio::task::JoinSet;
use zookeeper_recipes::{CancellationToken, Curator, Error, ErrorKind, Hold};
use zookeeper_testkit::{TestServer, random_path};

/// Stands for the work of a leader.
async fn serve(name: &str, term: &Hold) {
    println!("{name} leads under token {}", term.fencing_token());
    std::future::pending().await
}

/// Returns true if the latch takes part no more. After any other error it tries again.
fn is_final(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Closed | ErrorKind::AuthenticationFailed)
}

/// One process of the service, until `stop`.
async fn replica(curator: Curator, path: String, name: &str, stop: CancellationToken) {
    let latch = curator.with_identity(name).leader_latch(&path).expect("a valid path");
    let terms = async {
        loop {
            // Waits, until this process leads.
            let term = match latch.leadership().await {
                Ok(term) => term,
                Err(ended) if is_final(&ended) => return ended,
                Err(refused) => {
                    eprintln!("{name} does not lead yet: {refused}");
                    continue;
                }
            };
            // Cancelled before another process can lead.
            term.cancellation_token().run_until_cancelled(serve(name, &term)).await;
        }
    };
    if let Some(error) = stop.run_until_cancelled(terms).await {
        eprintln!("{name} cannot be a candidate: {error}");
    }
    latch.close().await.expect("its place is given up");
    println!("{name} gave up its place");
    curator.close().await;
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = TestServer::start().await?;
    println!("ZooKeeper runs as {} at {}", server.backend(), server.connect_string());
    let path = random_path("leader");

    let (mut replicas, stop) =
        (JoinSet::new(), ["a", "b", "c"].map(|n| (n, CancellationToken::new())));
    for (name, stop) in stop.clone() {
        // It does not wait for a connection.
        let curator = Curator::builder().connect_lazy(server.connect_string())?;
        replicas.spawn(replica(curator, path.clone(), name, stop));
    }

    // It knows the leader without being a candidate.
    let observing = Curator::connect(server.connect_string()).await?;
    let mut observer = observing.observe_leader(&path)?;
    let mut terms = 0;
    while terms < 3 {
        let Some(leader) = observer.changed().await? else { continue };
        tokio::time::sleep(Duration::from_millis(100)).await;
        let stopped = stop.iter().find(|(name, _)| leader.identity.as_deref() == Some(name));
        stopped.ok_or("an unknown leader")?.1.cancel();
        terms += 1;
    }
    while replicas.join_next().await.transpose()?.is_some() {}
    observing.close().await;
    server.close().await?;
    Ok(())
}
