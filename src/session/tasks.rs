//! The start of every task of the library: so a simulation can choose which task runs next, and stop those of a process.

use std::future::Future;

use tokio::runtime::Handle;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

/// Spawns tasks on one runtime.
#[derive(Clone, Debug)]
pub(crate) struct Spawner {
    runtime: Option<Handle>,
}

impl Spawner {
    /// Takes the caller's runtime, if there is one.
    pub(crate) fn current() -> Self {
        Self { runtime: Handle::try_current().ok() }
    }

    pub(crate) fn on(runtime: Handle) -> Self {
        Self { runtime: Some(runtime) }
    }

    /// Runs a future as a task of `runtime`, which ends with the returned future. `None` if the runtime shuts down.
    #[allow(clippy::disallowed_methods)] // the returned future owns the task
    pub(crate) async fn run<T: Send + 'static>(
        runtime: &Handle,
        task: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        AbortOnDropHandle::new(runtime.spawn(task)).await.ok()
    }

    /// Spawns a task that `owner` counts.
    ///
    /// # Panics
    ///
    /// If the spawner has no runtime, and the caller is not in one.
    pub(crate) fn spawn<T: Send + 'static>(
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

    /// Spawns a task that ends with `owner`.
    ///
    /// # Panics
    ///
    /// As [`spawn`](Self::spawn).
    pub(crate) fn spawn_in_set<T: Send + 'static>(
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
