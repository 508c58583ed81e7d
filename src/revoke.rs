//! [`Revoker`]: asks a holder to give a lock back; and what a holder sees of that.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::client::{Failure, NodeEvent, NodeWatch};
use crate::contender_name::last_number;
use crate::curator::Curator;
use crate::error::{ConfigError, Loss, RevokeError};
use crate::lock_path::LockPath;
use crate::participants::REVOKE;
use crate::queue::HoldState;
use crate::session::{NoEpoch, Session};

/// How often to look where there is no room for a watch, or reading fails.
const LOOK: Duration = Duration::from_secs(1);

/// Asks holders to give locks back, as Curator's class of that name does. It is a request: who does not
/// [listen](crate::MutexGuard::revocation_requested) goes on.
///
/// ```no_run
/// # use zookeeper_recipes::{Curator, InterProcessMutex, Revoker};
/// # async fn example(curator: Curator, mutex: InterProcessMutex) -> Result<(), Box<dyn std::error::Error>> {
/// let revoker = Revoker::new(&curator);
/// for participant in mutex.participants().await? {
///     if participant.holds {
///         revoker.attempt_revoke(&participant.path).await?;
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

    /// Asks the contender whose node this is. Its data, which says who it is, is replaced. `false` if it is not there
    /// any more.
    ///
    /// # Cancel safety
    ///
    /// Once it was polled the request may be made all the same.
    ///
    /// # Errors
    ///
    /// * [`RevokeError::Config`]: the path is not one of a contender; nothing was written;
    /// * [`RevokeError::NoAuth`], [`RevokeError::Refused`]: the server does not let us write to the node;
    /// * [`RevokeError::Session`], [`RevokeError::RetriesExhausted`]: nobody answered, and it may have been written.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    pub async fn attempt_revoke(&self, node: &str) -> Result<bool, RevokeError> {
        let path = LockPath::parse("contender's node", node)?;
        if last_number(path.as_str()).is_none() {
            let (path, reason) = (path.to_string(), "no sequence number ends it");
            return Err(
                ConfigError::InvalidPath { option: "contender's node", path, reason }.into()
            );
        }
        let path = path.as_str();
        let session = self.curator.session();
        let patience = session.settings.connection_timeout;
        let ask = || async {
            match session.epoch(patience).await {
                Ok(epoch) => {
                    // Without the client, which a caller could keep for as long as its future.
                    let sent = epoch.client()?.set_data(path, REVOKE, None);
                    sent.await.map(drop)
                }
                Err(NoEpoch::NotNow | NoEpoch::Over(_)) => Err(Failure::session_over()),
            }
        };
        match session.retried(&session.settings.retry, ask).await {
            Ok(()) => Ok(true),
            Err(Failure::NoNode) => Ok(false),
            Err(Failure::Refused(error)) if error.is_no_auth() => {
                Err(RevokeError::NoAuth { node: path.to_owned() })
            }
            Err(Failure::Refused(source)) => {
                Err(RevokeError::Refused { node: path.to_owned(), source })
            }
            Err(Failure::SessionOver(_)) => {
                let source = match session.present_epoch() {
                    Err(NoEpoch::Over(error)) => error,
                    Ok(_) | Err(NoEpoch::NotNow) => crate::error::SessionError::NotNow,
                };
                Err(RevokeError::Session { node: path.to_owned(), source })
            }
            Err(failure) => {
                let (node, source) = (path.to_owned(), failure.into_source());
                Err(RevokeError::RetriesExhausted { node, source })
            }
        }
    }
}

/// Resolves when the hold's node asks for it, or with how the hold ended before.
pub(crate) fn requested(
    session: &Arc<Session>,
    hold: &Arc<HoldState>,
) -> impl Future<Output = Result<(), Loss>> + Send + use<> {
    let requested = hold.revocation(|| {
        let requested = CancellationToken::new();
        // A task of the session's: whoever asks may keep the future, and not poll it.
        session.spawn(look_out(hold.clone(), requested.clone()));
        requested
    });
    let hold = hold.clone();
    async move {
        tokio::select! {
            biased;
            () = requested.cancelled() => Ok(()),
            () = hold.ended().cancelled() => Err(hold.end().unwrap_or(Loss::Released)),
        }
    }
}

/// Watches the node until it asks, or the hold ends.
async fn look_out(hold: Arc<HoldState>, requested: CancellationToken) {
    let asks = async {
        loop {
            match look(&hold).await {
                Ok((true, _)) => return,
                Ok((false, watch)) => changed(watch).await,
                Err(_) => tokio::time::sleep(LOOK).await,
            }
        }
    };
    tokio::select! {
        biased;
        () = hold.ended().cancelled() => {}
        () = hold.epoch().over().cancelled() => {}
        () = asks => {
            // Before whoever holds complies.
            hold.node_is_revoked();
            requested.cancel();
        }
    }
}

/// Room for a watch is given back with it.
type Watch = Option<(NodeWatch, tokio::sync::OwnedSemaphorePermit)>;

/// Whether the node asks; and a watch from before, if there is room.
async fn look(hold: &HoldState) -> Result<(bool, Watch), Failure> {
    let client = hold.epoch().client()?;
    let (node, watch) = match hold.epoch().spare_room(hold.node()) {
        None => (client.read(hold.node()).await?, None),
        Some(room) => {
            let (node, watch) = client.read_and_watch(hold.node()).await?;
            (node, Some((watch, room)))
        }
    };
    Ok((node.data == REVOKE, watch))
}

async fn changed(watch: Watch) {
    match watch {
        None => tokio::time::sleep(LOOK).await,
        Some((watch, _room)) => {
            if watch.await != NodeEvent::Changed {
                // The hold is about to learn that it has ended.
                std::future::pending::<()>().await;
            }
        }
    }
}
