//! Who holds and who waits.

use std::sync::Arc;

use crate::admission::queue;
use crate::client::Failure;
use crate::contender::refusal;
use crate::contender_name::Kind;
use crate::error::AcquireError;
use crate::lock_path::LockPath;
use crate::retry::RetryPolicy;
use crate::session::epoch::Epoch;
use crate::session::{NoEpoch, Session};

/// One that holds a lock or waits for it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Participant {
    /// The path of its node, under the namespace.
    pub path: String,
    /// Its place: smaller is earlier.
    pub sequence: i64,
    /// The ZooKeeper session that owns the node.
    pub session: i64,
    /// What the node says of who it is.
    pub data: Vec<u8>,
}

pub(crate) async fn participants(
    session: &Arc<Session>,
    path: &LockPath,
    kind: Kind,
    retry: &RetryPolicy,
) -> Result<Vec<Participant>, AcquireError> {
    let patience = session.settings.connection_timeout;
    let text = || path.to_string();
    loop {
        let epoch = session.epoch(patience).await.map_err(|none| match none {
            NoEpoch::NotNow => AcquireError::TimedOut { path: text(), waited: patience },
            NoEpoch::Over(source) => AcquireError::Session { path: text(), source },
        })?;
        let read = session.retried(retry, || read(&epoch, path, kind));
        let read = tokio::select! {
            biased;
            // The next epoch is asked in its place.
            () = epoch.over().cancelled() => continue,
            read = read => read,
        };
        return match read {
            Ok(participants) => Ok(participants),
            Err(Failure::SessionOver(_)) => {
                // The supervisor is about to end it.
                epoch.over().cancelled().await;
                continue;
            }
            Err(Failure::Refused(error)) => Err(refusal(path.as_str(), "read", error)),
            Err(failure) => {
                let (path, source) = (text(), failure.into_source());
                Err(AcquireError::RetriesExhausted { path, source })
            }
        };
    }
}

async fn read(epoch: &Epoch, path: &LockPath, kind: Kind) -> Result<Vec<Participant>, Failure> {
    let client = epoch.client()?;
    let children = match client.list(path.as_str()).await {
        Err(Failure::NoNode) => Vec::new(),
        listed => listed?.children,
    };
    // All are sent before the first is awaited.
    let reads: Vec<_> = queue(&children, kind)
        .into_iter()
        .map(|contender| {
            let path = path.child(contender.as_str());
            let read = client.read(&path);
            (path, contender.sequence(), read)
        })
        .collect();
    let mut participants = Vec::with_capacity(reads.len());
    for (path, sequence, read) in reads {
        match read.await {
            Ok(node) => {
                let (session, data) = (node.owner, node.data);
                participants.push(Participant { path, sequence, session, data });
            }
            Err(Failure::NoNode) => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(participants)
}
