//! A process that stands for election and tells what it believes. It ends with its input.

use std::io::Write;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use zookeeper_recipes::{ConnectionState, Curator, LeaderLatch, LeaderState};

use crate::Failure;
use crate::event::{Event, What, now};

/// The first argument of such a process.
pub(crate) const ROLE: &str = "candidate";

/// Arguments: its number, connect string, path, session timeout in milliseconds.
pub(crate) async fn run(arguments: impl Iterator<Item = String>) -> Result<(), Failure> {
    let arguments: Vec<_> = arguments.collect();
    let [number, servers, path, timeout] = &arguments[..] else {
        return Err(format!("not a candidate's arguments: {arguments:?}").into());
    };
    let timeout = Duration::from_millis(timeout.parse()?);
    tokio::select! {
        result = stand(number.parse()?, servers, path, timeout) => result,
        // Whoever started us is gone, or wants us to go.
        () = end_of_input() => Ok(()),
    }
}

async fn end_of_input() {
    let mut input = tokio::io::stdin();
    while input.read_u8().await.is_ok() {}
}

async fn stand(
    candidate: usize,
    servers: &str,
    path: &str,
    timeout: Duration,
) -> Result<(), Failure> {
    let builder = Curator::builder().session_timeout(timeout);
    let curator = builder.identity(format!("candidate-{candidate}")).connect(servers).await?;
    let latch = LeaderLatch::new(&curator, path)?;
    let (mut terms, mut states) = (latch.watch(), curator.watch_state());
    latch.start()?;
    loop {
        let (what, token) = tokio::select! {
            state = terms.changed() => match state? {
                LeaderState::Leader(term) => (What::Leads, term.fencing_token().value()),
                LeaderState::NotLeader => (What::Lost, 0),
            },
            changed = states.changed() => {
                changed?;
                match *states.borrow_and_update() {
                    ConnectionState::Suspended => (What::Suspended, 0),
                    ConnectionState::Reconnected => (What::Connected, 0),
                    _ => continue,
                }
            }
        };
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", Event { candidate, what, at: now(), token })?;
        out.flush()?;
    }
}
