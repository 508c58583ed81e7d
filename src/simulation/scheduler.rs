//! The order in which tasks run.
//!
//! tokio does not order tasks by a seed: its `watch` channel wakes waiters in an order of its own. Here a task that
//! wakes only joins a set, and the world picks the next task from that set. A task that was not picked is not polled.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Wake, Waker};

use tokio::sync::Notify;

use super::process_state::ProcessState;

/// The tasks that may run.
#[derive(Default)]
pub(super) struct Scheduler {
    ready: Mutex<BTreeMap<usize, Arc<TaskWaker>>>,
    next: AtomicUsize,
    /// Wakes the world.
    woken: Notify,
}

impl Scheduler {
    /// Counts the tasks that may run. Tasks of a paused process wait until it is resumed.
    pub(super) fn count(&self) -> usize {
        let mut ready = locked(&self.ready);
        ready.retain(|_, task| !task.process.is_paused());
        ready.len()
    }

    /// Lets the `nth` of the ready tasks run.
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

    /// Wakes the world: a task may run, or an event is due earlier than before.
    pub(super) fn wake_world(&self) {
        self.woken.notify_one();
    }

    /// Resolves when the world is woken.
    pub(super) async fn woken(&self) {
        self.woken.notified().await;
    }
}

pub(super) struct TaskWaker {
    number: usize,
    scheduler: Weak<Scheduler>,
    granted: AtomicBool,
    process: Arc<ProcessState>,
    tokio: Mutex<Option<Waker>>,
}

impl TaskWaker {
    /// A new task of the current process.
    pub(super) fn new(scheduler: &Arc<Scheduler>) -> Arc<Self> {
        let task = Arc::new(Self {
            number: scheduler.next.fetch_add(1, Ordering::Relaxed),
            scheduler: Arc::downgrade(scheduler),
            granted: AtomicBool::new(false),
            process: ProcessState::current(),
            tokio: Mutex::default(),
        });
        task.process.task_started(&task);
        task
    }

    /// Number of tasks of the simulation that ever began.
    pub(super) fn begun(&self) -> usize {
        self.scheduler.upgrade().map_or(0, |scheduler| scheduler.next.load(Ordering::Relaxed))
    }

    pub(super) fn process(&self) -> &Arc<ProcessState> {
        &self.process
    }

    /// Returns true if the task may run now. Otherwise the task becomes ready and waits to be picked.
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
            scheduler.wake_world();
        }
    }
}

/// Locks a mutex of the simulation. No foreign code runs under these locks, so a panic never leaves the data half
/// changed.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
