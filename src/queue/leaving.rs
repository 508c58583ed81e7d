//! The nodes that no task of this process wants any more, and that may still be listed: those whose delete is not confirmed yet,
//! and those that a task searches for, because their create was dropped before its answer. A create whose answer an entry still
//! awaits needs no count: it was sent before the listing of a later try, so the entry has its answer first, and deletes the node.
//!
//! Such nodes keep out other processes until they are deleted. A try of this process does not count them: it would be busy by a
//! call that its own task has dropped.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::entry::list;
use super::path_nodes::PathNodes;
use super::request::{EntryAborted, Request};
use super::retries::Callers;
use super::session_nodes::SessionNodes;
use crate::client::Listing;
use crate::error::Error;

/// The longest time that a try waits for nodes that leave. A node that takes longer is as good as a contender.
const PATIENCE: Duration = Duration::from_secs(1);

/// Counts the nodes of one path that leave.
#[derive(Debug)]
pub(super) struct LeavingNodes(TaskTracker);

/// Counts one node, for as long as it may be listed.
#[derive(Debug)]
pub(super) struct Leaving {
    _counted: TaskTrackerToken,
    /// Keeps the count in the registry of paths.
    _path_nodes: Arc<PathNodes>,
}

impl LeavingNodes {
    pub(super) fn new() -> Self {
        let tracker = TaskTracker::new();
        tracker.close(); // so that `wait` ends when there is none
        Self(tracker)
    }

    async fn until_deleted(&self) {
        let _ = timeout(PATIENCE, self.0.wait()).await;
    }
}

impl PathNodes {
    /// Counts a node that leaves.
    pub(super) fn count_leaving(self: &Arc<Self>) -> Leaving {
        Leaving { _counted: self.leaving.0.token(), _path_nodes: self.clone() }
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
        let had_leaving = !path_nodes.leaving.0.is_empty();
        // A lagging server may still list a node whose deletion another server has already confirmed.
        let Some(listing) = list(nodes, request, callers, true).await? else { return Ok(None) };
        if !is_kept_out(&path_nodes, &listing)? {
            return Ok(Some(listing));
        }
        if is_repeated || !had_leaving && path_nodes.leaving.0.is_empty() {
            return Err(EntryAborted::Failed(Error::busy(&request.path)));
        }
        path_nodes.leaving.until_deleted().await;
        is_repeated = true;
    }
}
