//! [`Fenced`]: writes that ZooKeeper refuses once a hold is over.

use std::fmt;
use std::sync::Arc;

use crate::client::{Acl, Failure, Write, WriteFailure, check_frame};
use crate::error::{FencedError, Loss};
use crate::lock_path::LockPath;
use crate::metrics::{self, Operation};
use crate::queue::HoldState;
use crate::session::clock::Moment;

/// Writes that ZooKeeper refuses once the hold is over; from
/// [`MutexGuard::fenced`](crate::MutexGuard::fenced).
///
/// Each is one transaction of two steps: a check that the hold's own node is there, and the write. So it
/// takes effect while the hold lasts or not at all, also when this process does not know yet that it lost
/// the lock. The node's name is drawn anew for each node, so nobody else's can be taken for it, even
/// after the lock path was deleted and made again.
///
/// Paths are under the namespace. A handle is cheap to clone and may outlive the guard, but is of no use
/// then. Once this process knows that the hold is over, it sends nothing.
///
/// ```no_run
/// # use zookeeper_recipes::MutexGuard;
/// # async fn example(guard: MutexGuard) -> Result<(), Box<dyn std::error::Error>> {
/// let fenced = guard.fenced();
/// fenced.set("/orders/last", b"4711").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Fenced {
    hold: Arc<HoldState>,
    acls: Arc<[Acl]>,
}

impl Fenced {
    pub(crate) fn new(hold: Arc<HoldState>, acls: Arc<[Acl]>) -> Self {
        Self { hold, acls }
    }

    /// Creates a persistent node, with the curator's ACLs. Its parent must be there.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it is polled sends nothing; later the write may take effect all the
    /// same, as long as the hold's node is there.
    ///
    /// # Errors
    ///
    /// * [`FencedError::Lost`]: the hold is over, and nothing was written;
    /// * [`FencedError::Unknown`]: nobody answered, and it may have been written, or may yet be while
    ///   the hold's node is there;
    /// * [`FencedError::NodeExists`], [`FencedError::NoNode`] for a missing parent,
    ///   [`FencedError::NoAuth`], [`FencedError::Refused`], [`FencedError::Config`] (a bad path, or more data
    ///   than a server takes, 1 MiB in all): nothing was written.
    pub async fn create(&self, path: &str, data: &[u8]) -> Result<(), FencedError> {
        let acls = self.acls.clone();
        self.write(path, &Write::Create { data, acls: &acls, ephemeral: false }).await
    }

    /// Replaces a node's data.
    ///
    /// # Cancel safety
    ///
    /// As for [`create`](Self::create).
    ///
    /// # Errors
    ///
    /// As for [`create`](Self::create); [`FencedError::NoNode`] when there is no such node.
    pub async fn set(&self, path: &str, data: &[u8]) -> Result<(), FencedError> {
        self.write(path, &Write::Set { data }).await
    }

    /// Deletes a node that has no children.
    ///
    /// # Cancel safety
    ///
    /// As for [`create`](Self::create).
    ///
    /// # Errors
    ///
    /// As for [`create`](Self::create); [`FencedError::NoNode`] when there is no such node,
    /// [`FencedError::Refused`] when it has children.
    pub async fn delete(&self, path: &str) -> Result<(), FencedError> {
        self.write(path, &Write::Delete).await
    }

    async fn write(&self, path: &str, write: &Write<'_>) -> Result<(), FencedError> {
        let path = LockPath::parse("path", path)?;
        // Twice the namespace, which both paths have.
        let namespace = 2 * self.hold.epoch().root().as_str().len();
        let bytes = write.data().len() + self.hold.node().len() + namespace;
        check_frame("data", &path, bytes, &self.acls)?;
        let lost = |loss| FencedError::Lost { path: path.to_string(), loss };
        let epoch = self.hold.epoch();
        let Ok(borrowed) = epoch.borrow_client() else {
            return Err(lost(self.hold.end().unwrap_or(Loss::SessionExpired)));
        };
        let stamp = Moment::now();
        let send = || borrowed.client.write_while_there(self.hold.node(), path.as_str(), write);
        let writing = self.hold.fence(send).map_err(lost)?;
        let written = tokio::select! {
            biased;
            written = epoch.proven(stamp, writing) => written,
            // The client would wait for the next connection, for as long as the session may live.
            () = self.hold.ended().cancelled() => {
                metrics::unknown(Operation::FencedWrite);
                return Err(FencedError::Unknown { path: path.to_string(), source: None });
            }
        };
        written.map_err(|failure| match failure {
            WriteFailure::NotThere => lost(self.hold.node_is_gone()),
            WriteFailure::Check(failure) => refusal(self.hold.node(), failure),
            WriteFailure::Write(failure) => refusal(path.as_str(), failure),
        })
    }
}

fn refusal(path: &str, failure: Failure) -> FencedError {
    let path = path.to_owned();
    match failure {
        Failure::NoNode => FencedError::NoNode { path },
        Failure::NodeExists => FencedError::NodeExists { path },
        Failure::Refused(source) if source.is_no_auth() => FencedError::NoAuth { path },
        Failure::Refused(source) | Failure::NotNow(source) => FencedError::Refused { path, source },
        Failure::Unknown(source) | Failure::SessionOver(source) => {
            metrics::unknown(Operation::FencedWrite);
            FencedError::Unknown { path, source: Some(source) }
        }
    }
}

impl fmt::Debug for Fenced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fenced")
            .field("node", &self.hold.node())
            .field("loss", &self.hold.end())
            .finish_non_exhaustive()
    }
}
