//! Processes, and the tasks that run in the order of the seed.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use super::tasks::{Life, TaskWaker, Within};
use super::world::World;

/// A simulated process: tasks and clients that are paused and killed together.
///
/// What the futures given to [`spawn`](Self::spawn) start, a [`Curator`](crate::Curator) above all, belongs to it.
#[derive(Clone, Debug)]
pub struct Process {
    world: Arc<World>,
    life: Arc<Life>,
}

impl Process {
    pub(super) fn new(world: &Arc<World>, fast: i32) -> Self {
        let life = Arc::new(Life { fast, ..Life::default() });
        Self { world: world.clone(), life }
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
        let _within = Within::enter(&self.life);
        tokio::spawn(scheduled(task))
    }

    /// None of its tasks is polled any more, and its clients neither read nor send: as a process that was stopped, or
    /// swapped out. The clock goes on.
    pub fn pause(&self) {
        self.life.paused.store(true, Ordering::Relaxed);
    }

    /// It goes on.
    pub fn resume(&self) {
        self.life.paused.store(false, Ordering::Relaxed);
        self.life.wake_all();
        self.world.change(|state| state.resumed(&self.life));
    }

    /// Ends it as `kill -9` does: nothing that it sends from now on leaves it, its tasks are dropped without effect, its
    /// connections end, and its sessions stay until they expire.
    pub fn kill(&self) {
        self.life.dead.store(true, Ordering::Relaxed);
        self.life.paused.store(false, Ordering::Relaxed);
        self.world.change(|state| state.died(&self.life));
        self.life.wake_all();
    }

    /// Whether it can do anything now.
    #[doc(hidden)]
    pub fn runs(&self) -> bool {
        self.life.runs()
    }

    /// Whether it was [killed](Self::kill).
    #[doc(hidden)]
    pub fn is_killed(&self) -> bool {
        self.life.is_dead()
    }

    /// Looks at something as its own code would, by its own clock.
    #[doc(hidden)]
    pub fn within<T>(&self, look: impl FnOnce() -> T) -> T {
        let _within = Within::enter(&self.life);
        look()
    }

    /// How many of its tasks have not ended.
    pub fn tasks(&self) -> usize {
        self.life.running.load(Ordering::Relaxed)
    }
}

/// A task of a simulation; elsewhere the future as it is.
pub(crate) fn scheduled<F: Future>(inner: F) -> Scheduled<F> {
    let is_ordered = |world: &Arc<World>| world.change(|state| state.setting.ordered);
    let task = World::here().filter(is_ordered).map(|world| {
        let task = TaskWaker::new(&world.scheduler);
        (task.clone(), Waker::from(task))
    });
    Scheduled { inner: Some(Box::pin(inner)), task }
}

/// See [`scheduled`].
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
        let _within = Within::enter(&task.process);
        if task.process.is_dead() {
            // Its destructors run, and send nothing.
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
        let _within = Within::enter(&task.process);
        self.inner = None;
        task.process.running.fetch_sub(1, Ordering::Relaxed);
    }
}
