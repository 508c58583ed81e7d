//! Who holds and who waits.

use std::borrow::Cow;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::future::try_join_all;

use crate::admission::{Family, Rank, queue, standings};
use crate::client::{Failure, Node};
use crate::contender_name::{ContenderName, Kind, tagged};
use crate::error::AcquireError;
use crate::fencing::FencingToken;
use crate::lock_path::LockPath;
use crate::reading::reading;
use crate::retry::RetryPolicy;
use crate::session::Session;
use crate::session::epoch::Epoch;

/// What a node's data is when its contender is asked to give way; Curator's.
pub(crate) const REVOKE: &[u8] = b"__REVOKE__";

/// One that holds a lock or waits for it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Participant {
    /// The path of its node, under the namespace.
    pub path: String,
    /// Its place: smaller is earlier.
    pub sequence: i64,
    /// The ZooKeeper session that owns the node; zero if none does, or if it is unknown, see [`since`](Self::since).
    pub session: i64,
    /// What the node says of who it is; nothing where it may not be read.
    pub data: Vec<u8>,
    /// Whether it holds; else it waits.
    pub holds: bool,
    /// When its node was created, by the clock of the servers. [`SystemTime::UNIX_EPOCH`] if that is unknown, because
    /// the node may not be read and the server is a newer one (3.9.5); then the session and the token are zero.
    pub since: SystemTime,
    /// The transaction that created its node, if that is known.
    pub(crate) czxid: Option<i64>,
}

impl Participant {
    pub(crate) fn new(path: String, contender: &ContenderName, holds: bool, node: Node) -> Self {
        let Node { change, owner, created, data } = node;
        let since = SystemTime::UNIX_EPOCH + Duration::from_millis(created);
        let (sequence, session) = (contender.sequence(), owner);
        // Transactions are numbered from one.
        let czxid = Some(change.czxid).filter(|czxid| *czxid > 0);
        Self { path, sequence, session, data, holds, since, czxid }
    }

    /// The name of its node: the last segment of the path.
    pub fn node_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// What it is, by its node's name: who reads and who writes, and whether it is one of kazoo's. `None` for one that
    /// only a [custom filter](crate::ContenderFilter::custom) counts. Who waits for leases and has none yet is a
    /// [`Lock`](Kind::Lock).
    pub fn kind(&self) -> Option<Kind> {
        tagged(self.node_name())
    }

    /// Whether somebody had asked it to give its place back, as a [`Revoker`](crate::Revoker) does. The request has
    /// replaced what its node says of who it is. `false` where the node may not be read.
    pub fn revocation_requested(&self) -> bool {
        self.data == REVOKE
    }

    /// What its node says of who it is, as text.
    pub fn id(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.data)
    }

    /// The token that its hold has, or will have; but for a read beside a write hold, which has that one's.
    pub fn fencing_token(&self) -> FencingToken {
        FencingToken::new(self.czxid.unwrap_or(0))
    }
}

pub(crate) async fn participants(
    session: &Arc<Session>,
    path: &LockPath,
    family: &Family,
    retry: &RetryPolicy,
) -> Result<Vec<Participant>, AcquireError> {
    let read = |epoch: Arc<Epoch>| async move { read(&epoch, path, family).await };
    let mut participants = reading(session, path, retry, read).await?;
    if let Some(first) = participants.first_mut()
        && family.is_exclusive()
    {
        // Who was listed before it may have vanished since.
        first.holds = true;
    }
    Ok(participants)
}

async fn read(
    epoch: &Epoch,
    path: &LockPath,
    family: &Family,
) -> Result<Vec<Participant>, Failure> {
    let children = list(epoch, path).await?;
    let client = epoch.client()?;
    // All are sent before the first is awaited; so are the second looks.
    let reads: Vec<_> = standings(&children, family)
        .into_iter()
        .map(|(contender, holds)| {
            let path = path.child(contender.as_str());
            let read = client.read(&path);
            async move {
                let node = or_look(epoch, &path, read).await?;
                Ok(node.map(|node| Participant::new(path, &contender, holds, node)))
            }
        })
        .collect();
    drop(client);
    Ok(try_join_all(reads).await?.into_iter().flatten().collect())
}

/// What a read found, if the node is there; without what it says, where it may not be read. That it is there, anybody
/// may know who may list the path.
async fn or_look(
    epoch: &Epoch,
    path: &str,
    read: impl Future<Output = Result<Node, Failure>>,
) -> Result<Option<Node>, Failure> {
    match read.await {
        Err(Failure::Refused(error)) if error.is_no_auth() => {
            let look = epoch.client()?.look(path);
            look.await
        }
        Err(Failure::NoNode) => Ok(None),
        read => read.map(Some),
    }
}

/// Who holds alone.
pub(crate) async fn holder(
    session: &Arc<Session>,
    path: &LockPath,
    family: &Family,
    retry: &RetryPolicy,
) -> Result<Option<Participant>, AcquireError> {
    let read = |epoch: Arc<Epoch>| async move {
        let children = list(&epoch, path).await?;
        let read = |node: String| {
            let sent = epoch.client().map(|client| client.read(&node));
            async move { Ok((node, sent?.await?, ())) }
        };
        Ok(first(&children, path, family, read).await?.map(|(holder, ())| holder))
    };
    reading(session, path, retry, read).await
}

/// The first of those who hold alone that `read` finds, with what that gives besides.
pub(crate) async fn first<T, F>(
    children: &[String],
    path: &LockPath,
    family: &Family,
    read: impl Fn(String) -> F,
) -> Result<Option<(Participant, T)>, Failure>
where
    F: Future<Output = Result<(String, Node, T), Failure>>,
{
    for contender in queue(children, family).into_iter().map(Rank::to_name) {
        match read(path.child(contender.as_str())).await {
            Ok((node, found, besides)) => {
                return Ok(Some((Participant::new(node, &contender, true, found), besides)));
            }
            // The next one holds.
            Err(Failure::NoNode) => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(None)
}

async fn list(epoch: &Epoch, path: &LockPath) -> Result<Vec<String>, Failure> {
    // Without the client, which a caller could keep for as long as its future.
    let sent = epoch.client()?.list(path.as_str());
    match sent.await {
        Err(Failure::NoNode) => Ok(Vec::new()),
        listed => Ok(listed?.children),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Servers from 3.9.5 on do not tell it of a node that may not be read.
    #[test]
    fn what_is_unknown_of_a_node_is_nothing() {
        let name = ContenderName::new(7, "x-lock-0000000007");
        let hidden =
            Participant::new("/l/x-lock-0000000007".to_owned(), &name, true, Node::default());
        assert_eq!((hidden.since, hidden.session), (SystemTime::UNIX_EPOCH, 0));
        assert_eq!((hidden.czxid, hidden.fencing_token().value()), (None, 0));
        assert_eq!((hidden.sequence, hidden.holds), (7, true));
    }
}
