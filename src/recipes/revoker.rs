//! [`Revoker`]: asks a holder to give a lock back.

use std::sync::Arc;

use super::shared::revocation::REVOKE;
use crate::client::{Failed, Failure};
use crate::curator::Curator;
use crate::error::Error;
use crate::lock_path::LockPath;
use crate::queue::rules::node_name::last_number;
use crate::session::Session;
use crate::session::retry::{Idempotent, with_retry};

/// Asks holders to give locks back, as Curator's class of that name does. A holder that does not
/// [listen](crate::Hold::revocation_requested) keeps its lock.
///
/// ```no_run
/// # use zookeeper_recipes::interop::Revoker;
/// # use zookeeper_recipes::{Curator, Error, InterProcessMutex};
/// # async fn example(curator: Curator, mutex: InterProcessMutex) -> Result<(), Error> {
/// let revoker = Revoker::new(&curator);
/// for participant in mutex.participants().await? {
///     if participant.holds {
///         revoker.attempt_revoke(&participant.node).await?;
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Revoker {
    curator: Curator,
}

impl Revoker {
    /// Returns a revoker that writes through `curator`. Paths are under its namespace.
    pub fn new(curator: &Curator) -> Self {
        Self { curator: curator.clone() }
    }

    /// Asks the contender of this node to give way. The request replaces the identity in the node's data. Returns `false` if the
    /// node does not exist.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it is polled writes nothing. Dropped later, the request may still be written.
    ///
    /// # Errors
    ///
    /// * [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput): the path is not that of a contender;
    /// * [`ErrorKind::PermissionDenied`](crate::ErrorKind::PermissionDenied), [`ErrorKind::Refused`](crate::ErrorKind::Refused): the server does not let us write to the node;
    /// * [`ErrorKind::OutcomeUnknown`](crate::ErrorKind::OutcomeUnknown): no server answered, and the request may have been written;
    /// * [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable), [`ErrorKind::Closed`](crate::ErrorKind::Closed): nothing was written.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    pub async fn attempt_revoke(&self, node: &str) -> Result<bool, Error> {
        let path = LockPath::parse("contender's node", node)?;
        if last_number(path.as_str()).is_none() {
            let value = format!("{node:?}");
            return Err(Error::invalid("contender's node", value, "no sequence number ends it"));
        }
        let path = &path;
        let write = |session: Arc<Session>, _| async move {
            let write = session.request(|client| client.set_data(path.as_str(), REVOKE, None));
            match write.await {
                Ok(_) => Ok(true),
                Err(Failure::NoNode) => Ok(false),
                Err(failure) => Err(Failed::at(path, "write to", failure)),
            }
        };
        let retry = &self.curator.options().retry;
        with_retry(self.curator.connection(), path, retry, Idempotent::No, write).await
    }
}
