//! Processes, and the tasks that run in the order of the seed.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::process_state::{ProcessScope, ProcessState};
use super::recording::RunEvent;
use super::scheduler::TaskWaker;
use super::world::World;

/// A simulated process: tasks and clients that are paused and killed together.
///
/// Everything that the futures given to [`spawn`](Self::spawn) start belongs to the process, above all each
/// [`Curator`](crate::Curator).
#[derive(Clone, Debug)]
pub struct Process {
    world: Arc<World>,
    state: Arc<ProcessState>,
}

impl Process {
    pub(super) fn new(world: &Arc<World>, fast: i32) -> Self {
        let number = world.change(|state| state.recording.add_process());
        Self { world: world.clone(), state: Arc::new(ProcessState::new(number, fast)) }
    }

    /// Names the process in a [picture](super::Picture). Processes with the same name share a lane, as one that is killed and its
    /// replacement do.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        let name = name.into();
        self.world.change(|state| state.recording.rename(self.state.number(), name));
        self
    }

    fn recorded(&self, event: RunEvent) {
        self.world.change(|state| state.recorded(event));
    }

    /// Starts a task of this process.
    ///
    /// # Panics
    ///
    /// Outside the runtime of the simulation.
    #[allow(clippy::disallowed_methods)] // it ends with the process
    pub fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> tokio::task::JoinHandle<T> {
        let _scope = ProcessScope::enter(&self.state);
        tokio::spawn(scheduled(task))
    }

    /// Pauses the process, as if it had been stopped or swapped out: its tasks are not polled, and its clients neither
    /// read nor send. The clock goes on.
    pub fn pause(&self) {
        self.recorded(RunEvent::Paused { process: self.state.number() });
        self.state.pause();
    }

    /// Resumes a paused process.
    pub fn resume(&self) {
        self.recorded(RunEvent::Resumed { process: self.state.number() });
        self.state.resume();
        self.world.change(|state| state.process_resumed(&self.state));
    }

    /// Kills the process, as `kill -9` does. Messages that it sends from now on are lost, its tasks are dropped without
    /// effect, and its connections end. Its sessions stay until they expire.
    pub fn kill(&self) {
        self.recorded(RunEvent::Killed { process: self.state.number() });
        self.state.kill();
        self.world.change(|state| state.process_died(&self.state));
        self.state.wake_all();
    }

    /// Returns true unless the process is paused or was killed.
    #[doc(hidden)]
    pub fn runs(&self) -> bool {
        self.state.runs()
    }

    /// Returns true if the process was [killed](Self::kill).
    #[doc(hidden)]
    pub fn is_killed(&self) -> bool {
        self.state.is_dead()
    }

    /// Calls a function as code of this process, which sees the clock of this process.
    #[doc(hidden)]
    pub fn within<T>(&self, look: impl FnOnce() -> T) -> T {
        let _scope = ProcessScope::enter(&self.state);
        look()
    }

    /// Number of tasks that have not ended.
    pub fn tasks(&self) -> usize {
        self.state.running()
    }
}

/// Makes a future a task of the simulation. Outside a simulation the future stays as it is.
pub(crate) fn scheduled<F: Future>(inner: F) -> Scheduled<F> {
    let is_ordered = |world: &Arc<World>| world.change(|state| state.settings.ordered);
    let task = World::here().filter(is_ordered).map(|world| {
        let task = TaskWaker::new(&world.scheduler);
        (task.clone(), Waker::from(task))
    });
    Scheduled { inner: Some(Box::pin(inner)), task }
}

/// The future that [`scheduled`] returns.
pub(crate) struct Scheduled<F> {
    inner: Option<Pin<Box<F>>>,
    task: Option<(Arc<TaskWaker>, Waker)>,
}

impl<F: Future> Future for Scheduled<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        let Some(inner) = &mut this.inner else { return Poll::Pending };
        let Some((task, waker)) = &this.task else { return inner.as_mut().poll(context) };
        if !task.takes_its_turn(context.waker()) {
            return Poll::Pending;
        }
        let _scope = ProcessScope::enter(task.process());
        if task.process().is_dead() {
            // The destructors run, but messages from them are not sent.
            this.inner = None;
            return Poll::Pending;
        }
        let polled = AssertUnwindSafe(|| inner.as_mut().poll(&mut Context::from_waker(waker)));
        catch_unwind(polled).unwrap_or_else(|panic| {
            if let Some(world) = World::here() {
                world.panicked(&*panic);
            }
            resume_unwind(panic)
        })
    }
}

impl<F> Drop for Scheduled<F> {
    fn drop(&mut self) {
        let Some((task, _)) = &self.task else { return };
        let _scope = ProcessScope::enter(task.process());
        self.inner = None;
        task.process().task_ended();
    }
}
