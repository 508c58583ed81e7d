//! The requests behind a count: each is one try, in one session.

use std::sync::Arc;

use super::count::{Verdict, VersionedCount, judge};
use crate::client::{Acl, Change, Failed, Failure, Node};
use crate::lock_path::LockPath;
use crate::session::Session;

/// How often the node, or one above it, is made again at once: an operator may delete it as fast as we make it.
const MADE_AT_ONCE: usize = 3;

/// What a node has, and which change it was.
pub(super) type Found = (Vec<u8>, Change);

fn found(node: Node) -> Found {
    (node.data, node.change)
}

/// The data of the node, which is made with `seed` if it is not there.
pub(super) async fn read_or_make(
    session: Arc<Session>,
    path: &LockPath,
    seed: [u8; 4],
    acls: &[Acl],
) -> Result<Found, Failed> {
    for _ in 0..MADE_AT_ONCE {
        // A client that may not create it may still use it.
        match read(&session, path).await {
            Err(Failed { failure: Failure::NoNode, .. }) => {}
            read => return read,
        }
        let borrowed = session.borrow_client();
        let borrowed = borrowed.map_err(|failure| Failed::at(path, "create", failure))?;
        let client = &borrowed.client;
        match client.create_persistent(path.as_str(), &seed, acls).await {
            Ok(change) => return Ok((seed.to_vec(), change)),
            // Another client's seed came first.
            Err(Failure::NodeExists) => {}
            Err(Failure::NoNode) => {
                if let Some(parent) = session.root().join(path).parent() {
                    client.make_parents(&parent, acls).await?;
                }
            }
            Err(failure) => return Err(Failed::at(path, "create", failure)),
        }
    }
    Err(Failed::at(path, "create", Failure::NoNode))
}

async fn read(session: &Session, path: &LockPath) -> Result<Found, Failed> {
    let sent = session.client().map(|client| client.read(path.as_str()));
    let found = async { sent?.await.map(found) };
    found.await.map_err(|failure| Failed::at(path, "read", failure))
}

/// What the leader had when it was asked, or later; `None` if the node is gone.
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
        // Both are sent before the first is awaited.
        let (sync, read) = (borrowed.client.sync(), borrowed.client.read(path.as_str()));
        sync.await?;
        read.await.map(found)
    };
    latest.await.map_err(|failure| Failed::at(path, "read", failure))
}

/// Writes, whatever is there.
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
    // Without the client, which a caller could keep for as long as its future.
    let data = value.to_be_bytes();
    let sent = session.client().map(|client| client.set_data(path.as_str(), &data, version));
    sent?.await
}

/// How a write over one version was answered.
#[derive(Debug)]
pub(super) enum Swapped {
    Done(Change),
    /// It is another version by now.
    Stale,
}

/// Writes over `expected`; `unsure`: an earlier try may have.
pub(super) async fn swap(
    session: Arc<Session>,
    path: &LockPath,
    expected: &VersionedCount,
    value: i32,
    unsure: bool,
) -> Result<Swapped, Failed> {
    let refused = match write(&session, path, value, Some(expected.version)).await {
        // If an earlier try had written, the version would be another.
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
        // Trying again would not show it.
        Verdict::Unclear => Err(Failed::at(path, "set", Failure::Refused(refused))),
        // The server that said so knows more than the one that we read from.
        Verdict::Unseen => Err(Failed::at(path, "set", Failure::Unknown(refused))),
    }
}
