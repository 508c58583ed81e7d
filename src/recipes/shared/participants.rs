//! The holders and the waiters of a path.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::future::try_join_all;

use super::recipe::Recipe;
use super::revocation::REVOKE;
use crate::client::{Failed, Failure, Node};
use crate::error::Error;
use crate::fencing_token::FencingToken;
use crate::lock_path::LockPath;
use crate::queue::rules::admission::{Family, Rank, queue, standings};
use crate::queue::rules::node_name::{ContenderName, Kind, tagged};
use crate::session::Session;
use crate::session::retry::{Idempotent, with_retry};

/// One that holds a lock or waits for it. Where its node may not be read, what only that tells is `None`.
///
/// ```no_run
/// # use zookeeper_recipes::{Error, InterProcessMutex};
/// # async fn example(mutex: InterProcessMutex) -> Result<(), Error> {
/// for one in mutex.participants().await? {
///     let does = if one.holds { "holds" } else { "waits" };
///     println!("{} {does} since {:?}", one.identity.as_deref().unwrap_or("?"), one.since);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Participant {
    /// The path of its node, under the namespace.
    pub node: String,
    /// Whether it holds; else it waits.
    pub holds: bool,
    /// Its place: smaller is earlier.
    pub sequence: i64,
    /// Its identity, as text; `None` also where a [request](Self::revocation_requested) has replaced it.
    pub identity: Option<String>,
    /// The ZooKeeper session that owns the node.
    pub session_id: Option<i64>,
    /// When its node was created, by the clock of the servers.
    pub since: Option<SystemTime>,
    /// The token that its hold has, or will have; but for a read beside a write hold, which has that one's.
    pub fencing_token: Option<FencingToken>,
    data: Vec<u8>,
}

impl Participant {
    pub(crate) fn new(path: String, contender: &ContenderName, holds: bool, node: Node) -> Self {
        let Node { change, owner, created, data } = node;
        // Transactions are numbered from one; a server that hides a node may hide its number, too (3.9.5).
        let is_known = change.czxid > 0;
        let since = || SystemTime::UNIX_EPOCH + Duration::from_millis(created);
        let says = !data.is_empty() && data != REVOKE;
        let identity = says.then(|| String::from_utf8_lossy(&data).into());
        Self {
            node: path,
            holds,
            sequence: contender.sequence(),
            identity,
            session_id: Some(owner).filter(|owner| *owner != 0),
            since: is_known.then(since),
            fencing_token: is_known.then(|| FencingToken::new(change.czxid)),
            data,
        }
    }

    /// The node's data, which are its identity; empty where the node may not be read.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// The name of its node: the last segment of the path.
    pub fn node_name(&self) -> &str {
        self.node.rsplit('/').next().unwrap_or_default()
    }

    /// What it is, by its node's name: a reader or a writer, one of kazoo's. `None` for one that only a
    /// [custom filter](crate::interop::ContenderFilter::custom) counts. A contender that waits for leases and has none yet
    /// is a [`Lock`](Kind::Lock).
    pub fn kind(&self) -> Option<Kind> {
        tagged(self.node_name())
    }

    /// Whether another process had asked it to give its place back, as a [`Revoker`](crate::interop::Revoker) does.
    pub fn revocation_requested(&self) -> bool {
        self.data == REVOKE
    }

    /// The same, that does not hold.
    pub(crate) fn waiting(self) -> Self {
        Self { holds: false, ..self }
    }

    /// Keeps its identity over a request that has replaced it.
    pub(crate) fn keep_identity_of(&mut self, earlier: &Self) {
        if self.revocation_requested() && self.node == earlier.node {
            self.identity.clone_from(&earlier.identity);
            self.data.clone_from(&earlier.data);
        }
    }
}

impl Recipe {
    pub(crate) async fn participants(&self, family: &Family) -> Result<Vec<Participant>, Error> {
        let Self { curator, path, retry, .. } = self;
        let read = |session: Arc<Session>, _| async move {
            read(&session, path, family).await.map_err(|failure| Failed::at(path, "read", failure))
        };
        let mut participants =
            with_retry(curator.connection(), path, retry, Idempotent::Yes, read).await?;
        if let Some(first) = participants.first_mut()
            && family.is_exclusive()
        {
            // A node that was listed before it may have vanished since.
            first.holds = true;
        }
        Ok(participants)
    }

    /// The exclusive holder of a family.
    pub(crate) async fn holder(&self, family: &Family) -> Result<Option<Participant>, Error> {
        let Self { curator, path, retry, .. } = self;
        let holder = |session: Arc<Session>| async move {
            let children = list(&session, path).await?;
            let read = |node: String| {
                let sent = session.client().map(|client| client.read(&node));
                async move { Ok((node, sent?.await?, ())) }
            };
            Ok(first(&children, path, family, read).await?.map(|(holder, ())| holder))
        };
        let read = |session, _| async move {
            holder(session).await.map_err(|failure| Failed::at(path, "read", failure))
        };
        with_retry(curator.connection(), path, retry, Idempotent::Yes, read).await
    }
}

async fn read(
    session: &Session,
    path: &LockPath,
    family: &Family,
) -> Result<Vec<Participant>, Failure> {
    let children = list(session, path).await?;
    let client = session.client()?;
    // All are sent before the first is awaited; so are the second looks.
    let reads: Vec<_> = standings(&children, family)
        .into_iter()
        .map(|(contender, holds)| {
            let path = path.child(contender.as_str());
            let read = client.read(&path);
            async move {
                let node = match read.await {
                    Err(Failure::NoNode) => return Ok(None),
                    // Each client that may list the path may know that the node is there.
                    Err(Failure::Refused(error)) if error.is_no_auth() => {
                        let look = session.client()?.look(&path);
                        look.await?
                    }
                    read => Some(read?),
                };
                Ok(node.map(|node| Participant::new(path, &contender, holds, node)))
            }
        })
        .collect();
    drop(client);
    Ok(try_join_all(reads).await?.into_iter().flatten().collect())
}

/// The first exclusive holder that `read` finds, with the third value that `read` returns.
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

async fn list(session: &Session, path: &LockPath) -> Result<Vec<String>, Failure> {
    // Without the client, which a caller could keep for as long as its future.
    let sent = session.client()?.list(path.as_str());
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
        assert_eq!((hidden.since, hidden.session_id, hidden.fencing_token), (None, None, None));
        assert_eq!((hidden.sequence, hidden.holds, hidden.identity), (7, true, None));
    }
}
