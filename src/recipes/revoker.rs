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

/// Asks holders to give locks back, as Curator's class of that name does. It is a request: a holder that does not
/// [listen](crate::Hold::revocation_requested) goes on.
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
    /// Asks through `curator`; paths are under its namespace.
    pub fn new(curator: &Curator) -> Self {
        Self { curator: curator.clone() }
    }

    /// Asks the contender of this node, and replaces the identity in its data. `false` if the node does not exist any
    /// more.
    ///
    /// # Cancel safety
    ///
    /// Once it was polled the request may be made all the same.
    ///
    /// # Errors
    ///
    /// * [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput): the path is not one of a contender;
    /// * [`ErrorKind::PermissionDenied`](crate::ErrorKind::PermissionDenied), [`ErrorKind::Refused`](crate::ErrorKind::Refused): the server does not let us write to the node;
    /// * [`ErrorKind::OutcomeUnknown`](crate::ErrorKind::OutcomeUnknown): no server answered, and it may have been written;
    /// * [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable), [`ErrorKind::Closed`](crate::ErrorKind::Closed): nothing was written.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    pub async fn attempt_revoke(&self, node: &str) -> Result<bool, Error> {
        let path = LockPath::parse("contender's node", node)?;
        if last_number(path.as_str()).is_none() {
            let value = format_args!("{node:?}");
            return Err(Error::invalid("contender's node", value, "no sequence number ends it"));
        }
        let (connection, path) = (self.curator.connection(), &path);
        let ask = |session: Arc<Session>, _| async move {
            // Without the client, which a caller could keep for as long as its future.
            let sent = session.client().map(|client| client.set_data(path.as_str(), REVOKE, None));
            match async { sent?.await }.await {
                Ok(_) => Ok(true),
                Err(Failure::NoNode) => Ok(false),
                Err(failure) => Err(Failed::at(path, "write to", failure)),
            }
        };
        with_retry(connection, path, &self.curator.options().retry, Idempotent::No, ask).await
    }
}
