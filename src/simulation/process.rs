//! Which task runs next, and the processes that own tasks.
//!
//! tokio decides neither by a seed: its `watch` channel wakes who waits in an order of its own. So a task that wakes
//! only joins a set, and the world picks from that set. A task that was not picked is not polled.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use super::world::World;

thread_local! {
    static CURRENT: RefCell<Option<Process>> = const { RefCell::new(None) };
}

/// A simulated process: tasks and clients that are paused and killed together.
///
/// What the futures given to [`spawn`](Self::spawn) start, a [`Curator`](crate::Curator) above all, belongs to it.
#[derive(Clone)]
pub struct Process(Arc<Inner>);

struct Inner {
    world: Weak<World>,
    /// By how much its clock is fast, in millionths.
    fast: i32,
    dead: AtomicBool,
    paused: AtomicBool,
    running: AtomicUsize,
    tasks: Mutex<Vec<Weak<TaskWaker>>>,
    clients: Mutex<Vec<usize>>,
}

impl Process {
    pub(super) fn new(world: &Arc<World>, fast: i32) -> Self {
        Self(Arc::new(Inner {
            world: Arc::downgrade(world),
            fast,
            dead: AtomicBool::new(false),
            paused: AtomicBool::new(false),
            running: AtomicUsize::new(0),
            tasks: Mutex::default(),
            clients: Mutex::default(),
        }))
    }

    pub(crate) fn current() -> Option<Self> {
        CURRENT.with_borrow(Clone::clone)
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
        let _within = Within::enter(Some(self.clone()));
        tokio::spawn(scheduled(task))
    }

    /// None of its tasks is polled any more, and its clients neither read nor send: as a process that was stopped, or
    /// swapped out. The clock goes on.
    pub fn pause(&self) {
        self.0.paused.store(true, Ordering::Relaxed);
    }

    /// It goes on.
    pub fn resume(&self) {
        self.0.paused.store(false, Ordering::Relaxed);
        self.wake_all();
        if let Some(world) = self.0.world.upgrade() {
            world.change(|state| state.resumed(&self.clients()));
        }
    }

    /// Ends it as `kill -9` does: nothing that it sends from now on leaves it, its tasks are dropped without effect, its
    /// connections end, and its sessions stay until they expire.
    pub fn kill(&self) {
        self.0.dead.store(true, Ordering::Relaxed);
        self.0.paused.store(false, Ordering::Relaxed);
        if let Some(world) = self.0.world.upgrade() {
            world.change(|state| state.died(&self.clients()));
        }
        self.wake_all();
    }

    /// Whether it can do anything now.
    #[doc(hidden)]
    pub fn runs(&self) -> bool {
        !self.is_dead() && !self.is_paused()
    }

    /// Whether it was [killed](Self::kill).
    #[doc(hidden)]
    pub fn is_killed(&self) -> bool {
        self.is_dead()
    }

    /// Looks at something as its own code would, by its own clock.
    #[doc(hidden)]
    pub fn within<T>(&self, look: impl FnOnce() -> T) -> T {
        let _within = Within::enter(Some(self.clone()));
        look()
    }

    /// How many of its tasks have not ended.
    pub fn tasks(&self) -> usize {
        self.0.running.load(Ordering::Relaxed)
    }

    pub(super) fn is_dead(&self) -> bool {
        self.0.dead.load(Ordering::Relaxed)
    }

    pub(super) fn is_paused(&self) -> bool {
        self.0.paused.load(Ordering::Relaxed)
    }

    pub(super) fn own(&self, client: usize) {
        locked(&self.0.clients).push(client);
    }

    fn clients(&self) -> Vec<usize> {
        locked(&self.0.clients).clone()
    }

    fn wake_all(&self) {
        let tasks: Vec<_> = locked(&self.0.tasks).iter().filter_map(Weak::upgrade).collect();
        tasks.iter().for_each(TaskWaker::ready);
    }

    /// The time by this process's clock.
    pub(crate) fn time(&self, elapsed: Duration) -> Duration {
        let part = elapsed / 1_000_000 * self.0.fast.unsigned_abs();
        if self.0.fast < 0 { elapsed.saturating_sub(part) } else { elapsed + part }
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").field("tasks", &self.tasks()).finish_non_exhaustive()
    }
}

/// Whose code runs.
struct Within(Option<Process>);

impl Within {
    fn enter(process: Option<Process>) -> Self {
        Self(CURRENT.replace(process))
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

/// The tasks that may run.
#[derive(Default)]
pub(super) struct Scheduler {
    ready: Mutex<Ready>,
    next: AtomicUsize,
}

#[derive(Default)]
struct Ready {
    tasks: BTreeMap<usize, Arc<TaskWaker>>,
    waker: Option<Waker>,
}

impl Scheduler {
    /// Whether some may, that are not paused. The others wait until their process goes on.
    pub(super) fn count(&self) -> usize {
        let mut ready = locked(&self.ready);
        ready.tasks.retain(|_, task| !task.process.as_ref().is_some_and(Process::is_paused));
        ready.tasks.len()
    }

    /// Lets the `nth` of them run.
    pub(super) fn grant(&self, nth: usize) -> Option<usize> {
        let mut ready = locked(&self.ready);
        let number = *ready.tasks.keys().nth(nth)?;
        let task = ready.tasks.remove(&number)?;
        drop(ready);
        task.granted.store(true, Ordering::Relaxed);
        let waker = locked(&task.tokio).clone();
        waker.inspect(Waker::wake_by_ref).map(|_| number)
    }

    /// Wakes the world when there is one.
    pub(super) fn wait(&self, context: &Context<'_>) {
        locked(&self.ready).waker = Some(context.waker().clone());
    }

    pub(super) fn wake(&self) {
        let waker = locked(&self.ready).waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

struct TaskWaker {
    number: usize,
    world: Weak<World>,
    granted: AtomicBool,
    process: Option<Process>,
    tokio: Mutex<Option<Waker>>,
}

impl TaskWaker {
    fn ready(self: &Arc<Self>) {
        let Some(world) = self.world.upgrade() else { return };
        locked(&world.scheduler.ready).tasks.insert(self.number, self.clone());
        world.scheduler.wake();
    }
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.ready();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ready();
    }
}

/// A task of a simulation; elsewhere the future as it is.
pub(crate) fn scheduled<F: Future>(inner: F) -> Scheduled<F> {
    let task = World::here().filter(|world| world.is_ordered()).map(|world| {
        let number = world.scheduler.next.fetch_add(1, Ordering::Relaxed);
        let process = Process::current();
        let world = Arc::downgrade(&world);
        let (granted, tokio) = (AtomicBool::new(false), Mutex::default());
        let task = Arc::new(TaskWaker { number, world, granted, process, tokio });
        if let Some(process) = &task.process {
            process.0.running.fetch_add(1, Ordering::Relaxed);
            let mut tasks = locked(&process.0.tasks);
            if tasks.len() == tasks.capacity() {
                tasks.retain(|task| task.strong_count() > 0);
            }
            tasks.push(Arc::downgrade(&task));
        }
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
        {
            let mut tokio = locked(&task.tokio);
            if !tokio.as_ref().is_some_and(|last| last.will_wake(context.waker())) {
                *tokio = Some(context.waker().clone());
            }
        }
        if !task.granted.swap(false, Ordering::Relaxed) {
            task.ready();
            return Poll::Pending;
        }
        let _within = Within::enter(task.process.clone());
        if task.process.as_ref().is_some_and(Process::is_dead) {
            // Its destructors run, and send nothing.
            this.inner = None;
            return Poll::Pending;
        }
        let polled = AssertUnwindSafe(|| inner.as_mut().poll(&mut Context::from_waker(waker)));
        catch_unwind(polled).unwrap_or_else(|panic| {
            if let Some(world) = task.world.upgrade() {
                world.panicked(&*panic);
            }
            resume_unwind(panic)
        })
    }
}

impl<F> Drop for Scheduled<F> {
    fn drop(&mut self) {
        let Some((task, _)) = &self.task else { return };
        let _within = Within::enter(task.process.clone());
        self.inner = None;
        if let Some(process) = &task.process {
            process.0.running.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// None of these locks is held while foreign code runs, so none is poisoned halfway.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
