//! The nodes that may be listed although no task of this process wants them: those whose create is not answered yet, because its
//! callers may have left; those that a task searches for, because their create was dropped; and those whose delete is not confirmed.
//!
//! Such nodes keep out other processes until they are deleted. A try of this process does not count them: it would be busy by a
//! call that its own task has dropped.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use super::entry::list;
use super::path_nodes::PathNodes;
use super::request::{EntryAborted, Request};
use super::retries::Callers;
use super::session_nodes::SessionNodes;
use crate::client::Listing;
use crate::error::Error;

/// The longest time that a try waits for nodes that leave. A node that takes longer is as good as a contender.
const PATIENCE: Duration = Duration::from_secs(1);

/// Counts the nodes of one path that may leave.
#[derive(Debug, Default)]
pub(super) struct LeavingNodes(watch::Sender<Numbers>);

/// Each node has a number, in the order in which they were counted.
#[derive(Debug, Default)]
struct Numbers {
    next: u64,
    leaving: BTreeSet<u64>,
}

/// Counts one node, for as long as it may be listed although nobody wants it.
#[derive(Debug)]
pub(super) struct Leaving {
    number: u64,
    /// Keeps the count in the registry of paths.
    path_nodes: Arc<PathNodes>,
}

impl PathNodes {
    pub(super) fn count_leaving(self: &Arc<Self>) -> Leaving {
        let mut number = 0;
        self.leaving.0.send_modify(|numbers| {
            number = numbers.next;
            numbers.next += 1;
            numbers.leaving.insert(number);
        });
        Leaving { number, path_nodes: self.clone() }
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.path_nodes.leaving.0.send_modify(|numbers| {
            numbers.leaving.remove(&self.number);
        });
    }
}

impl LeavingNodes {
    /// The number of the first node that leaves now, or else of the next one.
    fn first(&self) -> u64 {
        let numbers = self.0.borrow();
        numbers.leaving.first().copied().unwrap_or(numbers.next)
    }

    fn next(&self) -> u64 {
        self.0.borrow().next
    }

    /// Waits for the nodes that leave now. The caller lists again, before it takes one of them for a contender.
    pub(super) async fn until_all_gone(&self) {
        self.until_gone(self.next()).await;
    }

    /// Waits for the nodes before `limit`.
    async fn until_gone(&self, limit: u64) {
        let mut numbers = self.0.subscribe();
        let are_gone = |numbers: &Numbers| numbers.leaving.first().is_none_or(|one| *one >= limit);
        let _ = timeout(PATIENCE, numbers.wait_for(are_gone)).await;
    }
}

/// Lists the path for a try. Fails if a listing without leaving nodes shows that the caller is kept out, or if the session ends.
/// `None` if the path does not exist.
pub(super) async fn list_for_try(
    nodes: &SessionNodes,
    request: &Request,
    is_kept_out: impl Fn(&PathNodes, &Listing) -> Result<bool, EntryAborted>,
) -> Result<Option<Listing>, EntryAborted> {
    tokio::select! {
        biased;
        () = nodes.session.ended().cancelled() => Err(EntryAborted::Retry(None)),
        listing = list_without_leaving(nodes, request, is_kept_out) => listing,
    }
}

async fn list_without_leaving(
    nodes: &SessionNodes,
    request: &Request,
    is_kept_out: impl Fn(&PathNodes, &Listing) -> Result<bool, EntryAborted>,
) -> Result<Option<Listing>, EntryAborted> {
    let path_nodes = nodes.at(&request.path, &request.family);
    let callers = Callers::One(&nodes.connection, request);
    let mut is_repeated = false;
    loop {
        let first = path_nodes.leaving.first();
        // A lagging server may still list a node whose deletion another server has already confirmed.
        let Some(listing) = list(nodes, request, callers, true).await? else { return Ok(None) };
        if !is_kept_out(&path_nodes, &listing)? {
            return Ok(Some(listing));
        }
        // A node may have been counted, and be gone, while the listing that shows it was under way.
        let limit = path_nodes.leaving.next();
        if is_repeated || limit == first {
            return Err(EntryAborted::Failed(Error::busy(&request.path)));
        }
        path_nodes.leaving.until_gone(limit).await;
        is_repeated = true;
    }
}
