//! [`LinkState`]: the state of the link to the servers, and [`LinkWatch`], which follows it.

use std::future::Future;
use std::task::{Context, Waker};

use zookeeper_client as zk;

/// The state of the link to the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkState {
    Connected,
    /// No server is connected, or a read-only one, which cannot renew a lease.
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

/// Follows the state of the link. Does not keep the session alive.
#[derive(Debug)]
pub(crate) enum LinkWatch {
    Real(zk::StateWatcher),
    #[cfg(feature = "simulation")]
    Simulated(tokio::sync::watch::Receiver<LinkState>),
}

impl LinkWatch {
    /// Returns the present state, and marks it as seen.
    pub(crate) fn now(&mut self) -> LinkState {
        match self {
            Self::Real(link) => link.state().into(),
            #[cfg(feature = "simulation")]
            Self::Simulated(link) => *link.borrow_and_update(),
        }
    }

    /// Returns the present state. A change that was not seen stays unseen.
    pub(crate) fn peek(&self) -> LinkState {
        match self {
            Self::Real(link) => link.peek_state().into(),
            #[cfg(feature = "simulation")]
            Self::Simulated(link) => *link.borrow(),
        }
    }

    /// Waits for the next state after the one seen last. Never returns after a terminal one.
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

    /// Waits until the client is connected again.
    pub(crate) async fn reconnected(&mut self) {
        while self.changed().await != LinkState::Connected {}
    }

    /// Returns true if the state has changed since it was seen last, even if it is the same again. After a reconnect the client
    /// reports the change before any later answer.
    pub(crate) fn has_changed(&mut self) -> bool {
        let changed = std::pin::pin!(self.changed());
        changed.poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }
}
