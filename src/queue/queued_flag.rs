//! [`QueuedFlag`]: tells a caller that it has to wait.

use std::sync::Arc;

use tokio::sync::watch;

/// A flag that is set once the servers said that another contender is first. Only callers with a time limit and the tasks of one
/// owner read it.
#[derive(Clone, Debug)]
pub(crate) struct QueuedFlag(Option<Arc<watch::Sender<bool>>>);

impl QueuedFlag {
    /// A flag that no caller reads: always false.
    pub(crate) const UNREAD: Self = Self(None);

    pub(crate) fn set(&self, queued: bool) {
        if let Some(sender) = &self.0 {
            sender.send_replace(queued);
        }
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.as_ref().is_some_and(|sender| *sender.borrow())
    }

    /// Waits until the flag is set.
    pub(crate) async fn wait(&self) {
        match &self.0 {
            // The sender lives in `self`.
            Some(sender) => drop(sender.subscribe().wait_for(|queued| *queued).await),
            None => std::future::pending().await,
        }
    }
}

/// A flag that is not set.
impl Default for QueuedFlag {
    fn default() -> Self {
        Self(Some(Arc::default()))
    }
}
