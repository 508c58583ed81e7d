//! The state of a process, and which process runs now.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::task::Wake;
use std::time::Duration;

use super::scheduler::{TaskWaker, locked};

thread_local! {
    /// The process whose code runs. Code that belongs to no process has a state of its own here.
    static CURRENT: RefCell<Arc<ProcessState>> = RefCell::default();
}

#[derive(Debug, Default)]
pub(super) struct ProcessState {
    /// Names the process in a recording. Zero for code that belongs to no process.
    number: usize,
    /// Millionths by which the clock is fast; negative if it is slow.
    fast: i32,
    is_dead: AtomicBool,
    is_paused: AtomicBool,
    /// Number of tasks that have not ended.
    running: AtomicUsize,
    /// Number of tasks that code of the process has started and that do not belong to it.
    strays: AtomicUsize,
    tasks: Mutex<Vec<Weak<TaskWaker>>>,
}

impl ProcessState {
    pub(super) fn new(number: usize, fast: i32) -> Self {
        Self { number, fast, ..Self::default() }
    }

    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// The process whose code runs.
    pub(super) fn current() -> Arc<Self> {
        CURRENT.with_borrow(Clone::clone)
    }

    pub(super) fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::Relaxed)
    }

    pub(super) fn is_paused(&self) -> bool {
        self.is_paused.load(Ordering::Relaxed)
    }

    /// Returns true if the process is neither dead nor paused.
    pub(super) fn runs(&self) -> bool {
        !self.is_dead() && !self.is_paused()
    }

    pub(super) fn pause(&self) {
        self.is_paused.store(true, Ordering::Relaxed);
    }

    pub(super) fn resume(&self) {
        self.is_paused.store(false, Ordering::Relaxed);
        self.wake_all();
    }

    /// Marks the process as dead. Its tasks drop their futures when [`wake_all`](Self::wake_all) wakes them.
    pub(super) fn kill(&self) {
        self.is_dead.store(true, Ordering::Relaxed);
        self.is_paused.store(false, Ordering::Relaxed);
    }

    pub(super) fn wake_all(&self) {
        let tasks: Vec<_> = locked(&self.tasks).iter().filter_map(Weak::upgrade).collect();
        tasks.into_iter().for_each(Wake::wake);
    }

    pub(super) fn task_started(&self, task: &Arc<TaskWaker>) {
        self.running.fetch_add(1, Ordering::Relaxed);
        let mut tasks = locked(&self.tasks);
        if tasks.len() == tasks.capacity() {
            tasks.retain(|task| task.strong_count() > 0);
        }
        tasks.push(Arc::downgrade(task));
    }

    pub(super) fn task_ended(&self) {
        self.running.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn add_strays(&self, started: isize) {
        self.strays.fetch_add(usize::try_from(started).unwrap_or(0), Ordering::Relaxed);
    }

    pub(super) fn strays(&self) -> usize {
        self.strays.load(Ordering::Relaxed)
    }

    /// Number of tasks that have not ended.
    pub(super) fn running(&self) -> usize {
        self.running.load(Ordering::Relaxed)
    }

    /// The time by this process's clock.
    pub(super) fn time(&self, elapsed: Duration) -> Duration {
        let part = elapsed / 1_000_000 * self.fast.unsigned_abs();
        if self.fast < 0 { elapsed.saturating_sub(part) } else { elapsed + part }
    }
}

/// Makes a process the current one until this is dropped.
pub(super) struct ProcessScope(Arc<ProcessState>);

impl ProcessScope {
    pub(super) fn enter(process: &Arc<ProcessState>) -> Self {
        Self(CURRENT.replace(process.clone()))
    }
}

impl Drop for ProcessScope {
    fn drop(&mut self) {
        CURRENT.set(self.0.clone());
    }
}
