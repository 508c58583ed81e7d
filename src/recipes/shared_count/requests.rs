//! The requests behind a count. Each function is one try, in one session.

use std::sync::Arc;

use super::count::{Verdict, VersionedCount, judge};
use crate::client::{Acl, Change, CreateMode, Failed, Failure, Node, PARENTS_AT_ONCE};
use crate::lock_path::LockPath;
use crate::session::Session;

/// The data of a node, and the change that wrote them.
pub(super) type Found = (Vec<u8>, Change);

fn found(node: Node) -> Found {
    (node.data, node.change)
}

/// Reads the node, which is created with `seed` if it does not exist.
pub(super) async fn read_or_create(
    session: Arc<Session>,
    path: &LockPath,
    seed: [u8; 4],
    acls: &[Acl],
) -> Result<Found, Failed> {
    for _ in 0..PARENTS_AT_ONCE {
        // Read first: a client that may not create the node may still use it.
        match read(&session, path).await {
            Err(Failed { failure: Failure::NoNode, .. }) => {}
            read => return read,
        }
        let borrowed =
            session.borrow_client().map_err(|failure| Failed::at(path, "create", failure))?;
        let client = &borrowed.client;
        match client.create(path.as_str(), &seed, acls, CreateMode::Persistent).await {
            Ok(change) => return Ok((seed.to_vec(), change)),
            // Another client created the node first.
            Err(Failure::NodeExists) => {}
            Err(Failure::NoNode) => client.make_parents(path, acls).await?,
            Err(failure) => return Err(Failed::at(path, "create", failure)),
        }
    }
    Err(Failed::at(path, "create", Failure::NoNode))
}

async fn read(session: &Session, path: &LockPath) -> Result<Found, Failed> {
    let read = session.request(|client| client.read(path.as_str()));
    read.await.map(found).map_err(|failure| Failed::at(path, "read", failure))
}

/// Reads the node as the leader has it at the time of the request, or later; `None` if the node does not exist.
pub(super) async fn read_if_there(
    session: Arc<Session>,
    path: &LockPath,
) -> Result<Option<Found>, Failed> {
    match read_latest(session, path).await {
        Err(Failed { failure: Failure::NoNode, .. }) => Ok(None),
        read => read.map(Some),
    }
}

async fn read_latest(session: Arc<Session>, path: &LockPath) -> Result<Found, Failed> {
    let latest = async {
        let borrowed = session.borrow_client()?;
        // Both requests are sent before the first answer is awaited.
        let sync = borrowed.client.sync();
        let read = borrowed.client.read(path.as_str());
        sync.await?;
        read.await.map(found)
    };
    latest.await.map_err(|failure| Failed::at(path, "read", failure))
}

/// Writes over any version.
pub(super) async fn set(
    session: Arc<Session>,
    path: &LockPath,
    value: i32,
) -> Result<Change, Failed> {
    write(&session, path, value, None).await.map_err(|failure| Failed::at(path, "set", failure))
}

async fn write(
    session: &Session,
    path: &LockPath,
    value: i32,
    version: Option<i32>,
) -> Result<Change, Failure> {
    let data = value.to_be_bytes();
    session.request(|client| client.set_data(path.as_str(), &data, version)).await
}

/// The outcome of a write over one version.
#[derive(Debug)]
pub(super) enum Swapped {
    Done(Change),
    /// The node has another version by now.
    Stale,
}

/// Writes over `expected`. With `unsure`, an earlier try may have written already.
pub(super) async fn swap(
    session: Arc<Session>,
    path: &LockPath,
    expected: &VersionedCount,
    value: i32,
    unsure: bool,
) -> Result<Swapped, Failed> {
    let refused = match write(&session, path, value, Some(expected.version)).await {
        // If an earlier try had written, the version would be different.
        Ok(change) => return Ok(Swapped::Done(change)),
        Err(Failure::Refused(error)) if error.is_bad_version() => error,
        Err(failure) => return Err(Failed::at(path, "set", failure)),
    };
    if !unsure {
        return Ok(Swapped::Stale);
    }
    let (data, found) = read_latest(session, path).await?;
    match judge(expected, value, &data, found) {
        Verdict::Overtaken => Ok(Swapped::Stale),
        // Another try would not tell who wrote.
        Verdict::Unclear => Err(Failed::at(path, "set", Failure::Refused(refused))),
        // The server that refused the write knows more than the one that we read from.
        Verdict::Unseen => Err(Failed::at(path, "set", Failure::Unknown(refused))),
    }
}
