//! Which task runs next, and the processes that own tasks.
//!
//! tokio decides neither by a seed: its `watch` channel wakes waiters in an order of its own. So a task that wakes
//! only joins a set, and the world picks from that set. A task that was not picked is not polled.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Wake, Waker};
use std::time::Duration;

use tokio::sync::Notify;

thread_local! {
    /// The process whose code runs. What belongs to none has one of its own.
    static CURRENT: RefCell<Arc<Life>> = RefCell::default();
}

/// What becomes of a process, and its tasks.
#[derive(Debug, Default)]
pub(super) struct Life {
    /// By how much its clock is fast, in millionths.
    pub(super) fast: i32,
    pub(super) dead: AtomicBool,
    pub(super) paused: AtomicBool,
    pub(super) running: AtomicUsize,
    pub(super) tasks: Mutex<Vec<Weak<TaskWaker>>>,
}

impl Life {
    pub(super) fn current() -> Arc<Self> {
        CURRENT.with_borrow(Clone::clone)
    }

    pub(super) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }

    pub(super) fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Relaxed)
    }

    /// Whether it is neither dead nor paused.
    pub(super) fn runs(&self) -> bool {
        !self.is_dead() && !self.is_paused()
    }

    pub(super) fn wake_all(&self) {
        let tasks: Vec<_> = locked(&self.tasks).iter().filter_map(Weak::upgrade).collect();
        tasks.into_iter().for_each(Wake::wake);
    }

    /// The time by this process's clock.
    pub(super) fn time(&self, elapsed: Duration) -> Duration {
        let part = elapsed / 1_000_000 * self.fast.unsigned_abs();
        if self.fast < 0 { elapsed.saturating_sub(part) } else { elapsed + part }
    }
}

/// The code of a process runs until this is dropped.
pub(super) struct Within(Arc<Life>);

impl Within {
    pub(super) fn enter(process: &Arc<Life>) -> Self {
        Self(CURRENT.replace(process.clone()))
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        CURRENT.set(self.0.clone());
    }
}

/// The tasks that may run.
#[derive(Default)]
pub(super) struct Scheduler {
    ready: Mutex<BTreeMap<usize, Arc<TaskWaker>>>,
    next: AtomicUsize,
    /// Wakes the world.
    pub(super) woken: Notify,
}

impl Scheduler {
    /// How many may run. Those of a paused process wait until it goes on.
    pub(super) fn count(&self) -> usize {
        let mut ready = locked(&self.ready);
        ready.retain(|_, task| !task.process.is_paused());
        ready.len()
    }

    /// Lets the `nth` of them run.
    pub(super) fn grant(&self, nth: usize) -> Option<usize> {
        let (number, task) = {
            let mut ready = locked(&self.ready);
            let number = *ready.keys().nth(nth)?;
            (number, ready.remove(&number)?)
        };
        task.granted.store(true, Ordering::Relaxed);
        let waker = locked(&task.tokio).clone();
        waker.inspect(Waker::wake_by_ref).map(|_| number)
    }
}

pub(super) struct TaskWaker {
    number: usize,
    scheduler: Weak<Scheduler>,
    granted: AtomicBool,
    pub(super) process: Arc<Life>,
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
        task.process.running.fetch_add(1, Ordering::Relaxed);
        let mut tasks = locked(&task.process.tasks);
        if tasks.len() == tasks.capacity() {
            tasks.retain(|task| task.strong_count() > 0);
        }
        tasks.push(Arc::downgrade(&task));
        drop(tasks);
        task
    }

    /// Whether it may run now. If not, it is ready for its turn.
    pub(super) fn takes_its_turn(self: &Arc<Self>, waker: &Waker) -> bool {
        locked(&self.tokio).get_or_insert_with(|| waker.clone()).clone_from(waker);
        let is_its_turn = self.granted.swap(false, Ordering::Relaxed);
        if !is_its_turn {
            self.wake_by_ref();
        }
        is_its_turn
    }
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        if let Some(scheduler) = self.scheduler.upgrade() {
            locked(&scheduler.ready).insert(self.number, self);
            scheduler.woken.notify_one();
        }
    }
}

/// None of these locks is held while foreign code runs, so none is poisoned halfway.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
