//! The background job: it runs in the process that leads, and continues where the last leader stopped.

use std::time::Duration;

use zookeeper_recipes::leader::LeaderLatch;
use zookeeper_recipes::zookeeper_client::Error as ClientError;
use zookeeper_recipes::{CancellationToken, Curator, Error, ErrorKind, Hold};

/// The number of steps that are done. Under the namespace.
pub(crate) const PROGRESS: &str = "/progress";
/// How long a step takes.
const STEP: Duration = Duration::from_millis(20);

/// Until `end`; an error if this process cannot do it.
pub(crate) async fn run(
    curator: Curator,
    latch: LeaderLatch,
    end: CancellationToken,
) -> Result<(), Error> {
    while let Some(term) = end.run_until_cancelled(latch.leadership()).await {
        let term = match term {
            Ok(term) => term,
            Err(ended)
                if matches!(ended.kind(), ErrorKind::Closed | ErrorKind::AuthenticationFailed) =>
            {
                return Err(ended);
            }
            Err(refused) => {
                eprintln!("does not lead yet: {refused}"); // the latch tries again
                continue;
            }
        };
        println!("leads, under token {}", term.fencing_token());
        work(&curator, &term, &end).await?;
        println!("stopped its job");
    }
    Ok(())
}

/// As long as it leads. `end` waits for a step that has begun.
async fn work(curator: &Curator, term: &Hold, end: &CancellationToken) -> Result<(), Error> {
    let mut known = None;
    loop {
        tokio::select! {
            biased;
            () = end.cancelled() => return Ok(()),
            _ = term.lost() => return Ok(()),
            () = tokio::time::sleep(STEP) => {}
        }
        let asked = match known {
            Some(done) => Some(done),
            None => progress(curator).await,
        };
        let Some(done) = asked else {
            continue; // no server answers
        };
        known = match write(term, done + 1).await {
            Ok(()) => Some(done + 1),
            Err(error) => match error.kind() {
                // ZooKeeper refused it: another process may lead.
                ErrorKind::Lost => return Ok(()),
                ErrorKind::OutcomeUnknown | ErrorKind::Unavailable => None,
                _ => return Err(error),
            },
        };
    }
}

/// What the leaders so far have done. The server that is asked may lag behind: the `sync` makes it catch up.
async fn progress(curator: &Curator) -> Option<u64> {
    let client = curator.client().ok()?;
    client.sync(PROGRESS).await.ok()?;
    match client.get_data(PROGRESS).await {
        Ok((data, _)) => String::from_utf8_lossy(&data).parse().ok(),
        Err(ClientError::NoNode) => Some(0),
        Err(_) => None,
    }
}

async fn write(term: &Hold, done: u64) -> Result<(), Error> {
    let (fenced, text) = (term.fenced(), done.to_string());
    match fenced.set(PROGRESS, text.as_bytes()).await {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            fenced.create(PROGRESS, text.as_bytes()).await
        }
        written => written,
    }
}
