//! The background job: it runs in the process that leads, and goes on where the leader before it stopped.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use zookeeper_recipes::{Curator, FencedError, LeaderLatch, Leadership};

use crate::Fault;

/// How many steps are done. Under the namespace.
pub(crate) const PROGRESS: &str = "/progress";
/// How long a step takes.
const STEP: Duration = Duration::from_millis(20);

/// Until `end`; an error if this process cannot do it.
pub(crate) async fn run(
    curator: Curator,
    latch: LeaderLatch,
    end: CancellationToken,
) -> Result<(), Fault> {
    loop {
        let leadership = tokio::select! {
            () = end.cancelled() => return Ok(()),
            leads = latch.await_leadership() => leads?,
        };
        println!("leads, with token {}", leadership.fencing_token());
        work(&curator, &leadership, &end).await?;
        if end.is_cancelled() {
            println!("stopped its job");
            return Ok(());
        }
        let loss = leadership.lost().await;
        println!("leads no more: {loss}");
    }
}

/// As long as it leads. A step that has begun is not cut off: `end` waits for it.
async fn work(
    curator: &Curator,
    leadership: &Leadership,
    end: &CancellationToken,
) -> Result<(), FencedError> {
    let over = leadership.cancellation_token();
    let mut known = None;
    loop {
        tokio::select! {
            biased;
            () = end.cancelled() => return Ok(()),
            () = over.cancelled() => return Ok(()),
            () = tokio::time::sleep(STEP) => {}
        }
        let asked = match known {
            Some(done) => Some(done),
            None => progress(curator).await,
        };
        let Some(done) = asked else {
            continue; // no server answers
        };
        known = match write(leadership, done + 1).await {
            Ok(()) => Some(done + 1),
            // It led no more, whatever it believed: ZooKeeper refused it.
            Err(FencedError::Lost { .. }) => return Ok(()),
            Err(FencedError::Unknown { .. }) => None,
            Err(error) => return Err(error),
        };
    }
}

/// What is done, by whoever led. The server that is asked may lag behind: the `sync` makes it catch up.
async fn progress(curator: &Curator) -> Option<u64> {
    use zookeeper_recipes::zookeeper_client::Error;

    let client = curator.client().ok()?;
    client.sync(PROGRESS).await.ok()?;
    match client.get_data(PROGRESS).await {
        Ok((data, _)) => String::from_utf8_lossy(&data).parse().ok(),
        Err(Error::NoNode) => Some(0),
        Err(_) => None,
    }
}

async fn write(leadership: &Leadership, done: u64) -> Result<(), FencedError> {
    let (fenced, text) = (leadership.fenced(), done.to_string());
    match fenced.set(PROGRESS, text.as_bytes()).await {
        Err(FencedError::NoNode { .. }) => fenced.create(PROGRESS, text.as_bytes()).await,
        written => written,
    }
}
