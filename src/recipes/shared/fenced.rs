//! [`Fenced`]: writes that ZooKeeper refuses once a hold has ended.

use std::fmt;
use std::sync::Arc;

use crate::client::{Acl, CreateMode, Write, WriteFailure, check_frame};
use crate::clock::BootInstant;
use crate::error::{Error, ErrorKind, Loss};
use crate::lock_path::LockPath;
use crate::metrics::{self, Operation};
use crate::queue::{End, HoldState};

/// Writes that ZooKeeper refuses once the hold has ended; from [`Hold::fenced`](crate::Hold::fenced).
///
/// Each write is one transaction of two steps: a check that the hold's own node exists, and the write. So the write takes
/// effect while the hold lasts or not at all, even if this process does not know yet that it lost the lock. Each node has a
/// random name, so no other node can be taken for it, even after the lock path was deleted and created again.
///
/// Paths are under the namespace. A handle is cheap to clone and may outlive the guard, but is of no use then. Once this
/// process knows that the hold has ended, it sends nothing.
///
/// ```no_run
/// # use zookeeper_recipes::{Error, Guard};
/// # async fn example(guard: Guard) -> Result<(), Error> {
/// guard.fenced().set("/orders/last", b"4711").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Fenced {
    pub(super) hold: Arc<HoldState>,
    pub(super) acls: Arc<[Acl]>,
}

impl Fenced {
    /// Creates a persistent node, with the curator's ACLs. The parent must exist.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it is polled sends nothing. Dropped later, the write may still take effect, as long as the
    /// hold's node exists.
    ///
    /// # Errors
    ///
    /// * [`ErrorKind::Lost`]: the hold was lost, and nothing was written; [`ErrorKind::Closed`]: it was released;
    /// * [`ErrorKind::OutcomeUnknown`]: no server answered. The write may have taken effect, or may yet do so while the
    ///   hold's node exists;
    /// * [`ErrorKind::AlreadyExists`], [`ErrorKind::NotFound`] for a missing parent, [`ErrorKind::PermissionDenied`],
    ///   [`ErrorKind::Refused`], [`ErrorKind::Unavailable`], [`ErrorKind::InvalidInput`] (a bad path, or more data than a
    ///   server takes, 1 MiB in all): nothing was written.
    pub async fn create(&self, path: &str, data: &[u8]) -> Result<(), Error> {
        self.write(path, &Write::Create { data, acls: &self.acls, mode: CreateMode::Persistent })
            .await
    }

    /// Replaces a node's data.
    ///
    /// # Cancel safety
    ///
    /// As for [`create`](Self::create).
    ///
    /// # Errors
    ///
    /// As for [`create`](Self::create); [`ErrorKind::NotFound`] if the node does not exist.
    pub async fn set(&self, path: &str, data: &[u8]) -> Result<(), Error> {
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
    /// As for [`create`](Self::create); [`ErrorKind::NotFound`] if the node does not exist, [`ErrorKind::Refused`] if it has
    /// children.
    pub async fn delete(&self, path: &str) -> Result<(), Error> {
        self.write(path, &Write::Delete).await
    }

    async fn write(&self, path: &str, write: &Write<'_>) -> Result<(), Error> {
        let path = LockPath::parse("path", path)?;
        // The namespace counts twice, because both paths have it.
        let namespace = 2 * self.hold.session().root().as_str().len();
        let bytes = write.data().len() + self.hold.node().len() + namespace;
        check_frame("data", &path, bytes, &self.acls)?;
        let over = |end: End| match end {
            End::Lost(loss) => Error::lost(self.hold.path(), loss),
            End::Released => Error::new(
                ErrorKind::Closed,
                format!("{path} was not written: the hold was released"),
            ),
        };
        let session = self.hold.session();
        let Ok(borrowed) = session.borrow_client() else {
            return Err(over(self.hold.end().unwrap_or(End::Lost(Loss::SessionExpired))));
        };
        let stamp = BootInstant::now();
        let send = || borrowed.client.write_while_there(self.hold.node(), path.as_str(), write);
        let writing = self.hold.fence(send).map_err(over)?;
        let written = tokio::select! {
            biased;
            written = session.renew_on_success(stamp, writing) => written.map_err(|failure| match failure {
                WriteFailure::NotThere => over(self.hold.mark_node_gone()),
                WriteFailure::Check(failure) => failure.into_write_error(self.hold.node()),
                WriteFailure::Write(failure) => failure.into_write_error(path.as_str()),
            }),
            // The client would wait for the next connection as long as the session may live.
            () = self.hold.ended().cancelled() => Err(Error::unknown(&path)),
        };
        written.inspect_err(|error| {
            if error.kind() == ErrorKind::OutcomeUnknown {
                metrics::unknown(Operation::FENCED_WRITE);
            }
        })
    }
}

impl fmt::Debug for Fenced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fenced")
            .field("node", &self.hold.node())
            .field("end", &self.hold.end())
            .finish_non_exhaustive()
    }
}
