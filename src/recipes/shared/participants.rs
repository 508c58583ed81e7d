//! [`Participant`]: a holder or a waiter of a path.

use std::future::Future;
use std::time::SystemTime;

use futures_util::future::try_join_all;

use super::revocation::REVOKE;
use crate::client::{Failure, Node};
use crate::fencing_token::FencingToken;
use crate::lock_path::LockPath;
use crate::queue::rules::admission::{Family, Rank, queue, standings};
use crate::queue::rules::node_name::{ContenderName, Kind, tagged};
use crate::session::Session;
use crate::session::follower::read_or_look;

/// A contender that holds a lock or waits for it. If its node may not be read, the fields that only the node shows are `None`.
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
    /// The path of the contender's node, under the namespace.
    pub node: String,
    /// True for a holder, false for a waiter.
    pub holds: bool,
    /// The contender's place in the queue: smaller is earlier.
    pub sequence: i64,
    /// The contender's identity, as text; `None` also if a [request to revoke](Self::revocation_requested) has replaced it.
    #[doc(alias = "getId")]
    pub identity: Option<String>,
    /// The ZooKeeper session that owns the node.
    pub session_id: Option<i64>,
    /// The time at which the node was created, by the clock of the servers.
    pub since: Option<SystemTime>,
    /// The token that the contender's hold has, or will have. One exception: a read that a writer acquired while it wrote has
    /// the token of the write hold.
    pub fencing_token: Option<FencingToken>,
    data: Vec<u8>,
}

impl Participant {
    pub(crate) fn new(path: String, contender: &ContenderName, holds: bool, node: Node) -> Self {
        let session_id = node.session_id();
        let since = node.since();
        let fencing_token = node.fencing_token();
        let data = node.data;
        let has_identity = !data.is_empty() && data != REVOKE;
        let identity = has_identity.then(|| String::from_utf8_lossy(&data).into());
        Self {
            node: path,
            holds,
            sequence: contender.sequence(),
            identity,
            session_id,
            since,
            fencing_token,
            data,
        }
    }

    /// The node's data, which are the contender's identity; empty if the node may not be read.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// The name of the node: the last segment of the path.
    pub fn node_name(&self) -> &str {
        self.node.rsplit('/').next().unwrap_or_default()
    }

    /// The contender's kind, by the name of its node, such as a reader or a writer. `None` for a contender that only a
    /// [custom filter](crate::interop::ContenderFilter::custom) counts. A contender that waits for leases and has none yet
    /// is a [`Lock`](Kind::Lock).
    pub fn kind(&self) -> Option<Kind> {
        tagged(self.node_name())
    }

    /// Returns true if another process has asked the contender to give its place back, as a
    /// [`Revoker`](crate::interop::Revoker) does.
    pub fn revocation_requested(&self) -> bool {
        self.data == REVOKE
    }

    /// This contender as a waiter.
    pub(crate) fn waiting(self) -> Self {
        Self { holds: false, ..self }
    }

    /// Keeps the identity that a request to revoke has replaced.
    pub(crate) fn keep_identity_of(&mut self, earlier: &Self) {
        if self.revocation_requested() && self.node == earlier.node {
            self.identity.clone_from(&earlier.identity);
            self.data.clone_from(&earlier.data);
        }
    }
}

/// The contenders of a family, in order. Some of them may be left out, if their nodes are deleted meanwhile.
pub(super) async fn read_all(
    session: &Session,
    path: &LockPath,
    family: &Family,
) -> Result<Vec<Participant>, Failure> {
    let children = list(session, path).await?;
    let client = session.client()?;
    // All requests are sent before the first answer is awaited.
    let reads: Vec<_> = standings(&children, family)
        .into_iter()
        .map(|(contender, holds)| {
            let path = path.child(contender.as_str());
            let read = client.read(&path);
            async move {
                match read_or_look(session, &path, read).await {
                    Err(Failure::NoNode) => Ok(None),
                    read => Ok(Some(Participant::new(path, &contender, holds, read?))),
                }
            }
        })
        .collect();
    drop(client);
    Ok(try_join_all(reads).await?.into_iter().flatten().collect())
}

/// The exclusive holder of a family.
pub(super) async fn read_holder(
    session: &Session,
    path: &LockPath,
    family: &Family,
) -> Result<Option<Participant>, Failure> {
    let children = list(session, path).await?;
    let read = |node: String| {
        let read = session.request(|client| client.read(&node));
        async move { Ok((node, read.await?, ())) }
    };
    let holder = first(&children, path, family, read).await?;
    Ok(holder.map(|(holder, ())| holder))
}

/// The first exclusive holder whose node `read` finds. `read` returns the path, the node, and a value that is passed through.
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
            // The node was deleted, so the next contender holds.
            Err(Failure::NoNode) => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(None)
}

/// Lists the children of a path; none if the path does not exist.
pub(crate) async fn list(session: &Session, path: &LockPath) -> Result<Vec<String>, Failure> {
    match session.request(|client| client.list(path.as_str())).await {
        Err(Failure::NoNode) => Ok(Vec::new()),
        listed => Ok(listed?.children),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Servers from 3.8.4 and 3.9.2 on hide these fields of a node that may not be read.
    #[test]
    fn what_is_unknown_of_a_node_is_nothing() {
        let name = ContenderName::new(7, "x-lock-0000000007");
        let hidden =
            Participant::new("/l/x-lock-0000000007".to_owned(), &name, true, Node::default());
        assert_eq!((hidden.since, hidden.session_id, hidden.fencing_token), (None, None, None));
        assert_eq!((hidden.sequence, hidden.holds, hidden.identity), (7, true, None));
    }
}
