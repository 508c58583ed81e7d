//! Where every task of the library starts: so a simulation can pick which goes next, and stop those of a process.

use std::future::Future;

use tokio::runtime::Handle;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::task::TaskTracker;

/// Where tasks run: a runtime.
#[derive(Clone, Debug)]
pub(crate) struct Home {
    runtime: Option<Handle>,
}

impl Home {
    /// The runtime of the caller, if it is in one.
    pub(crate) fn here() -> Self {
        Self { runtime: Handle::try_current().ok() }
    }

    /// Starts a task that `owner` counts.
    ///
    /// # Panics
    ///
    /// If neither this was made in a runtime nor the caller is in one.
    pub(crate) fn start<T: Send + 'static>(
        &self,
        owner: &TaskTracker,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        #[cfg(feature = "simulation")]
        let task = crate::simulation::scheduled(task);
        match &self.runtime {
            Some(runtime) => owner.spawn_on(task, runtime),
            None => owner.spawn(task),
        }
    }

    /// Starts a task that ends with `owner`.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    pub(crate) fn start_in<T: Send + 'static>(
        &self,
        owner: &mut JoinSet<T>,
        task: impl Future<Output = T> + Send + 'static,
    ) {
        #[cfg(feature = "simulation")]
        let task = crate::simulation::scheduled(task);
        match &self.runtime {
            Some(runtime) => owner.spawn_on(task, runtime),
            None => owner.spawn(task),
        };
    }
}
