//! Which task runs next, and the processes that own tasks.
//!
//! tokio decides neither by a seed: its `watch` channel wakes waiters in an order of its own. So a task that wakes
//! only joins a set, and the world picks from that set. A task that was not picked is not polled.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

thread_local! {
    static CURRENT: RefCell<Option<Arc<Life>>> = const { RefCell::new(None) };
}

/// What becomes of a process, and what it owns.
#[derive(Debug, Default)]
pub(super) struct Life {
    /// By how much its clock is fast, in millionths.
    fast: i32,
    pub(super) dead: AtomicBool,
    pub(super) paused: AtomicBool,
    pub(super) running: AtomicUsize,
    tasks: Mutex<Vec<Weak<TaskWaker>>>,
    clients: Mutex<Vec<usize>>,
}

impl Life {
    pub(super) fn new(fast: i32) -> Arc<Self> {
        Arc::new(Self { fast, ..Self::default() })
    }

    pub(super) fn current() -> Option<Arc<Self>> {
        CURRENT.with_borrow(Clone::clone)
    }

    pub(super) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }

    pub(super) fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Relaxed)
    }

    pub(super) fn own(&self, client: usize) {
        locked(&self.clients).push(client);
    }

    pub(super) fn clients(&self) -> Vec<usize> {
        locked(&self.clients).clone()
    }

    pub(super) fn wake_all(&self) {
        let tasks: Vec<_> = locked(&self.tasks).iter().filter_map(Weak::upgrade).collect();
        tasks.iter().for_each(TaskWaker::ready);
    }

    /// The time by this process's clock.
    pub(super) fn time(&self, elapsed: Duration) -> Duration {
        let part = elapsed / 1_000_000 * self.fast.unsigned_abs();
        if self.fast < 0 { elapsed.saturating_sub(part) } else { elapsed + part }
    }
}

/// Whose code runs.
pub(super) struct Within(Option<Arc<Life>>);

impl Within {
    pub(super) fn enter(process: Option<Arc<Life>>) -> Self {
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
        ready.tasks.retain(|_, task| !task.process.as_ref().is_some_and(|life| life.is_paused()));
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

pub(super) struct TaskWaker {
    number: usize,
    scheduler: Weak<Scheduler>,
    granted: AtomicBool,
    pub(super) process: Option<Arc<Life>>,
    tokio: Mutex<Option<Waker>>,
}

impl TaskWaker {
    /// A new task of the process that runs now.
    pub(super) fn new(scheduler: &Arc<Scheduler>) -> Arc<Self> {
        let task = Arc::new(Self {
            number: scheduler.next.fetch_add(1, Ordering::Relaxed),
            scheduler: Arc::downgrade(scheduler),
            granted: AtomicBool::new(false),
            process: Life::current(),
            tokio: Mutex::default(),
        });
        if let Some(process) = &task.process {
            process.running.fetch_add(1, Ordering::Relaxed);
            let mut tasks = locked(&process.tasks);
            if tasks.len() == tasks.capacity() {
                tasks.retain(|task| task.strong_count() > 0);
            }
            tasks.push(Arc::downgrade(&task));
        }
        task
    }

    fn ready(self: &Arc<Self>) {
        let Some(scheduler) = self.scheduler.upgrade() else { return };
        locked(&scheduler.ready).tasks.insert(self.number, self.clone());
        scheduler.wake();
    }

    /// Whether it may run now. If not, it is ready for its turn.
    pub(super) fn takes_its_turn(self: &Arc<Self>, waker: &Waker) -> bool {
        {
            let mut tokio = locked(&self.tokio);
            if !tokio.as_ref().is_some_and(|last| last.will_wake(waker)) {
                *tokio = Some(waker.clone());
            }
        }
        let is_its_turn = self.granted.swap(false, Ordering::Relaxed);
        if !is_its_turn {
            self.ready();
        }
        is_its_turn
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

/// None of these locks is held while foreign code runs, so none is poisoned halfway.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
