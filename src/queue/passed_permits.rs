//! The permits of a semaphore that are kept for callers of this process: released ones for the *head*, and retained ones.
//!
//! The head is the caller that has the semaphore's mutex. It waits by a node of its own under `leases`, its *seat*, until the count
//! fits. A permit that a task of this process releases meanwhile is kept for the head in place of being deleted, and the next head
//! waits by the same seat. That is safe because no node is added, and each permit was counted when it was admitted, by a limit that
//! has not changed since. It is in order because the head is first in the queue of the mutex, which passes from task to task by the
//! rules of [`local_queue`](super::local_queue): a task that asked after another process was seen does not get the mutex before it.
//!
//! Permits that are released while the mutex passes from one head to the next are kept for that moment. When the mutex leaves the
//! tasks of this process, all that is kept is deleted.
//!
//! A retained permit is taken without the mutex, as long as no caller has come to the mutex since it was released.

use std::sync::Arc;

use tokio::sync::Notify;

use super::driver::QueueDriver;
use super::local_queue::NodeSpec;
use super::permits::Seat;
use crate::session::Session;
use crate::sync::Mutex;

/// The permits that are kept. Belongs to the queue of the mutex.
#[derive(Debug, Default)]
pub(super) struct PassedPermits {
    state: Mutex<State>,
    /// Notifies the head of a permit.
    added: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// True while the head waits for one permit, or the mutex is on its way to the next head.
    are_wanted: bool,
    /// The number of callers in the queue of the mutex, the head included.
    in_line: usize,
    /// The queue of each permit that is kept.
    permits: Vec<Arc<QueueDriver>>,
    seat: Option<Seat>,
}

impl PassedPermits {
    /// Returns true if a head waits for one permit.
    pub(super) fn are_wanted(&self) -> bool {
        self.state.lock().are_wanted
    }

    /// Adds a permit. `wanted`: it is kept for the head alone. Returns false if no head waits any more.
    pub(super) fn add(&self, permit: &Arc<QueueDriver>, wanted: bool) -> bool {
        let mut state = self.state.lock();
        let is_added = state.are_wanted || !wanted;
        if is_added {
            state.permits.push(permit.clone());
        }
        is_added
    }

    /// Removes a permit that is deleted.
    pub(super) fn remove(&self, permit: &QueueDriver) {
        self.state.lock().permits.retain(|kept| !std::ptr::eq(&**kept, permit));
    }

    /// Removes and returns a permit. While tasks of this process are in the queue of the mutex, the permits are for the head alone.
    /// This call deletes the permits that a caller with this limit may not have.
    pub(super) fn next(&self, limit: usize, is_head: bool) -> Option<Arc<QueueDriver>> {
        loop {
            let permit = {
                let mut state = self.state.lock();
                if state.in_line > 0 && !is_head {
                    return None;
                }
                state.permits.pop()?
            };
            if permit.is_within(limit) {
                return Some(permit);
            }
            permit.end_retention();
        }
    }

    /// Deletes all that is kept, unless a head waits for one permit.
    pub(super) fn delete_unwanted(&self) {
        let mut state = self.state.lock();
        if state.are_wanted {
            return;
        }
        let permits = std::mem::take(&mut state.permits);
        let seat = state.seat.take();
        drop(state);
        permits.iter().for_each(QueueDriver::end_retention);
        drop(seat);
    }

    /// Notifies the head that a permit was added.
    pub(super) fn notify_head(&self) {
        self.added.notify_one();
    }

    /// Resolves when a permit may have been added since the last call.
    pub(super) async fn added(&self) {
        self.added.notified().await;
    }

    /// Leaves the seat to the next head.
    pub(super) fn leave_seat(&self, seat: Seat) {
        let replaced = self.state.lock().seat.replace(seat);
        drop(replaced);
    }

    /// Returns the seat of the last head, if a caller may wait by it.
    pub(super) fn take_seat(&self, session: &Session, spec: &NodeSpec) -> Option<Seat> {
        let seat = self.state.lock().seat.take()?;
        (seat.node.fits(session) && seat.spec == *spec).then_some(seat)
    }
}

/// A caller in the queue of the mutex. Dropping this, after the hold of the mutex, deletes all that is kept, unless another task of
/// this process has the mutex now.
pub(super) struct InLine {
    mutex: Arc<QueueDriver>,
}

impl InLine {
    pub(super) fn new(mutex: &Arc<QueueDriver>) -> Self {
        mutex.passed.state.lock().in_line += 1;
        Self { mutex: mutex.clone() }
    }

    /// The caller has the mutex. If it wants several permits, those that are kept are of no use to it.
    pub(super) fn becomes_head(&self, wants_one: bool) {
        self.mutex.passed.state.lock().are_wanted = wants_one;
        self.mutex.passed.delete_unwanted();
    }
}

impl Drop for InLine {
    fn drop(&mut self) {
        let passed = &self.mutex.passed;
        let mut state = passed.state.lock();
        state.in_line -= 1;
        // Asked under the lock: the next head must not find its permits unwanted.
        if state.in_line == 0 || !self.mutex.is_held() {
            state.are_wanted = false;
        }
        drop(state);
        passed.delete_unwanted();
    }
}
