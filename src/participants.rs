//! Who holds and who waits.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::admission::{Family, standings};
use crate::client::Failure;
use crate::contender_name::{Kind, sequence_of};
use crate::error::AcquireError;
use crate::lock_path::LockPath;
use crate::reading::reading;
use crate::retry::RetryPolicy;
use crate::session::Session;
use crate::session::epoch::Epoch;

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
    /// Whether it holds; else it waits.
    pub holds: bool,
    /// When its node was created, by the clock of the servers.
    pub since: SystemTime,
    /// The transaction that created its node.
    pub(crate) czxid: i64,
}

impl Participant {
    pub(crate) fn is(&self, kind: Kind) -> bool {
        self.path.rsplit('/').next().is_some_and(|name| sequence_of(name, kind).is_some())
    }
}

pub(crate) async fn participants(
    session: &Arc<Session>,
    path: &LockPath,
    family: &Family,
    retry: &RetryPolicy,
) -> Result<Vec<Participant>, AcquireError> {
    let read = |epoch: Arc<Epoch>| async move { read(&epoch, path, family).await };
    reading(session, path, retry, read).await
}

async fn read(
    epoch: &Epoch,
    path: &LockPath,
    family: &Family,
) -> Result<Vec<Participant>, Failure> {
    // Without the client, which a caller could keep for as long as its future.
    let sent = epoch.client()?.list(path.as_str());
    let children = match sent.await {
        Err(Failure::NoNode) => Vec::new(),
        listed => listed?.children,
    };
    let client = epoch.client()?;
    // All are sent before the first is awaited.
    let reads: Vec<_> = standings(&children, family)
        .into_iter()
        .map(|(contender, holds)| {
            let path = path.child(contender.as_str());
            let read = client.read(&path);
            (path, contender.sequence(), holds, read)
        })
        .collect();
    drop(client);
    let mut participants = Vec::with_capacity(reads.len());
    for (path, sequence, holds, read) in reads {
        match read.await {
            Ok(node) => {
                let (session, czxid, data) = (node.owner, node.change.czxid, node.data);
                let since = SystemTime::UNIX_EPOCH + Duration::from_millis(node.created);
                let of = Participant { path, sequence, session, data, holds, since, czxid };
                participants.push(of);
            }
            Err(Failure::NoNode) => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(participants)
}
