//! Processes, and the tasks that run in the order of the seed.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::runtime::Handle;

use super::process_state::{ProcessScope, ProcessState};
use super::recording::Place;
use super::scheduler::TaskWaker;
use super::world::World;

/// A simulated process: tasks and clients that are paused and killed together.
///
/// The futures that are given to [`spawn`](Self::spawn) belong to the process, and all that they start of this crate, above all each
/// [`Curator`](crate::Curator).
///
/// A task that these futures start by `tokio::spawn`, a `JoinSet` or a `TaskTracker` does not belong to it, because tokio reports no
/// such start. The task works on while the process is paused, and after the process was killed. Wrap its future in
/// [`in_this_process`]. Threads and `spawn_blocking` never belong to a process.
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

    fn place(&self) -> Place {
        Place::Process(self.state.number())
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
        self.report_strays();
        self.world.change(|state| {
            state.recorded(|recording, now| recording.pause(now, self.place()));
        });
        self.state.pause();
    }

    /// Resumes a paused process.
    pub fn resume(&self) {
        self.state.resume();
        self.world.change(|state| {
            state.recorded(|recording, now| recording.resume(now, self.place()));
            state.process_resumed(&self.state);
        });
    }

    /// Kills the process, as `kill -9` does. Messages that it sends from now on are lost, its tasks are dropped without
    /// effect, and its connections end. Its sessions stay until they expire.
    pub fn kill(&self) {
        self.report_strays();
        self.state.kill();
        self.world.change(|state| {
            state.recorded(|recording, now| recording.kill(now, self.state.number()));
            state.process_died(&self.state);
        });
        self.state.wake_all();
    }

    /// Number of tasks that code of the process has started and that do not belong to it.
    #[doc(hidden)]
    pub fn strays(&self) -> usize {
        self.state.strays()
    }

    /// A test that fails shows what was written.
    fn report_strays(&self) {
        let strays = self.strays();
        if strays > 0 {
            let number = self.state.number();
            eprintln!(
                "process {number} has started {strays} tasks that do not belong to it and work on: \
                 wrap them in `zookeeper_recipes::simulation::in_this_process`"
            );
        }
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

/// Makes a future a task of the process whose code calls this function: it is paused, resumed and killed with the process, and runs in
/// the order of the seed. Outside all processes, and outside a simulation, the future stays as it is.
///
/// Code under test that starts tasks by itself needs this, because such tasks would not belong to the [`Process`]. A future that was
/// killed never ends, and does nothing.
///
/// ```
/// use std::time::Duration;
///
/// use tokio::task::JoinSet;
/// use zookeeper_recipes::simulation::{Ensemble, in_this_process};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
/// # runtime.block_on(async {
/// let ensemble = Ensemble::start(1);
/// let process = ensemble.process();
/// process.spawn(async {
///     let mut workers = JoinSet::new();
///     workers.spawn(in_this_process(async {
///         tokio::time::sleep(Duration::from_secs(1)).await;
///         unreachable!("the process was killed");
///     }));
///     workers.join_next().await;
/// });
/// ensemble.until(|_| process.tasks() == 2).await;
/// process.kill();
/// tokio::time::sleep(Duration::from_secs(2)).await;
/// # });
/// ```
pub fn in_this_process<F: Future>(future: F) -> impl Future<Output = F::Output> {
    match ProcessState::current().number() {
        0 => Scheduled { inner: Some(Box::pin(future)), task: None },
        _ => scheduled(future),
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
        let before = strays(task);
        let polled = catch_unwind(polled);
        task.process().add_strays(strays(task) - before);
        polled.unwrap_or_else(|panic| {
            if let Some(world) = World::here() {
                world.panicked(&*panic);
            }
            resume_unwind(panic)
        })
    }
}

/// Number of the runtime's tasks, less the number of tasks of the simulation that ever began. A poll during which this grows has
/// started a task that is none of the simulation's, because no task ends meanwhile.
fn strays(task: &TaskWaker) -> isize {
    let alive = Handle::try_current().map_or(0, |runtime| runtime.metrics().num_alive_tasks());
    alive.cast_signed() - task.begun().cast_signed()
}

impl<F> Drop for Scheduled<F> {
    fn drop(&mut self) {
        let Some((task, _)) = &self.task else { return };
        let _scope = ProcessScope::enter(task.process());
        self.inner = None;
        task.process().task_ended();
    }
}
