//! The state of the link to the servers.

use std::future::Future;
use std::task::{Context, Waker};

use zookeeper_client as zk;

/// The state of the link, as far as it concerns us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkState {
    Connected,
    /// A read-only server counts: it cannot renew a lease.
    Disconnected,
    Expired,
    AuthFailed,
    Closed,
}

impl From<zk::SessionState> for LinkState {
    fn from(state: zk::SessionState) -> Self {
        match state {
            zk::SessionState::SyncConnected => LinkState::Connected,
            zk::SessionState::Disconnected | zk::SessionState::ConnectedReadOnly => {
                LinkState::Disconnected
            }
            zk::SessionState::Expired => LinkState::Expired,
            zk::SessionState::AuthFailed => LinkState::AuthFailed,
            zk::SessionState::Closed => LinkState::Closed,
        }
    }
}

/// Tells of changes of the link. It does not keep the session alive.
#[derive(Debug)]
pub(crate) enum LinkWatch {
    Real(zk::StateWatcher),
    #[cfg(feature = "simulation")]
    Simulated(tokio::sync::watch::Receiver<LinkState>),
}

impl LinkWatch {
    /// The state at this moment. It counts as seen.
    pub(crate) fn now(&mut self) -> LinkState {
        match self {
            Self::Real(link) => link.state().into(),
            #[cfg(feature = "simulation")]
            Self::Simulated(link) => *link.borrow_and_update(),
        }
    }

    /// The state at this moment. A change that was not seen stays unseen.
    pub(crate) fn peek(&self) -> LinkState {
        match self {
            Self::Real(link) => link.peek_state().into(),
            #[cfg(feature = "simulation")]
            Self::Simulated(link) => *link.borrow(),
        }
    }

    /// The next state after the one seen last; never returns after a terminal one.
    pub(crate) async fn changed(&mut self) -> LinkState {
        match self {
            Self::Real(link) => link.changed().await.into(),
            #[cfg(feature = "simulation")]
            Self::Simulated(link) => match link.changed().await {
                Ok(()) => *link.borrow_and_update(),
                Err(_) => std::future::pending().await,
            },
        }
    }

    /// Whether the state has changed since it was seen last, though it may be the same again. Of an answer
    /// that came after a reconnect, the client tells later than of the change.
    pub(crate) fn has_changed(&mut self) -> bool {
        let changed = std::pin::pin!(self.changed());
        changed.poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }
}
