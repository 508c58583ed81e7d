//! The permits of a semaphore that are kept for callers of this process: released ones for the *head*, and retained ones.
//!
//! The head is the caller that has the semaphore's mutex. It waits by a node of its own under `leases`, its *seat*, until the count
//! fits. A permit that a task of this process releases meanwhile is offered to the head in place of being deleted, and the next head
//! waits by the same seat. That is safe because no node is added, and each permit was counted when it was admitted. It is in order
//! because the head is first in the queue of the mutex, which passes from task to task by the rules of
//! [`local_queue`](super::local_queue): a task that asked after another process was seen does not get the mutex before it.
//!
//! Permits that are released while the mutex passes from one head to the next are kept for that moment. When the mutex leaves the
//! tasks of this process, all that is kept is deleted.
//!
//! A retained permit is taken without the mutex, as long as nobody has come to the mutex since it was released.

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
    offered: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// True while a head wants one permit, or the mutex is on its way to the next head.
    is_open: bool,
    /// The number of callers in the queue of the mutex, heads included.
    in_line: usize,
    /// The number of heads: two for the moment in which one follows the other.
    heads: usize,
    /// The queue of each permit that is kept. Some may be deleted by now.
    permits: Vec<Arc<QueueDriver>>,
    seat: Option<Seat>,
}

impl PassedPermits {
    /// Returns true if a head wants a permit.
    pub(super) fn are_wanted(&self) -> bool {
        self.state.lock().is_open
    }

    /// Takes a permit that is kept. `wanted`: it is kept for the head alone. Returns false if there is no head any more.
    pub(super) fn offer(&self, permit: &Arc<QueueDriver>, wanted: bool) -> bool {
        let mut state = self.state.lock();
        if wanted && !state.is_open {
            return false;
        }
        state.permits.push(permit.clone());
        drop(state);
        self.offered.notify_one();
        true
    }

    /// Forgets a permit that is deleted.
    pub(super) fn forget(&self, permit: &QueueDriver) {
        self.state.lock().permits.retain(|kept| !std::ptr::eq(&**kept, permit));
    }

    /// Returns the queue of a permit that is kept. While there is a head, the permits are for it alone. Those beyond the limit are
    /// deleted.
    pub(super) fn take(&self, limit: usize, is_head: bool) -> Option<Arc<QueueDriver>> {
        loop {
            let permit = {
                let mut state = self.state.lock();
                if state.is_open && !is_head {
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

    /// Deletes all that is kept, for a caller that wants several permits.
    pub(super) fn give_up(&self) {
        let kept = self.state.lock().take_all();
        kept.give_up();
    }

    /// Resolves when a permit may have been offered since the last call.
    pub(super) async fn offered(&self) {
        self.offered.notified().await;
    }

    /// Leaves the seat to the next head.
    pub(super) fn leave(&self, seat: Seat) {
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
/// this process is in line and one has the mutex now.
pub(super) struct InLine {
    mutex: Arc<QueueDriver>,
    is_head: bool,
}

impl InLine {
    pub(super) fn new(mutex: &Arc<QueueDriver>) -> Self {
        mutex.passed.state.lock().in_line += 1;
        Self { mutex: mutex.clone(), is_head: false }
    }

    /// The caller has the mutex. If it wants several permits, the permits of others are of no use to it.
    pub(super) fn becomes_head(&mut self, wants_one: bool) {
        self.is_head = true;
        let mut state = self.mutex.passed.state.lock();
        state.heads += 1;
        state.is_open = wants_one;
        let unwanted = (!wants_one).then(|| state.take_all());
        drop(state);
        if let Some(unwanted) = unwanted {
            unwanted.give_up();
        }
    }
}

impl Drop for InLine {
    fn drop(&mut self) {
        let mut state = self.mutex.passed.state.lock();
        state.in_line -= 1;
        state.heads -= usize::from(self.is_head);
        // Asked under the lock: the last one that leaves must see that the mutex has gone.
        let is_passed = state.heads > 0 || self.mutex.is_held();
        if state.in_line > 0 && is_passed {
            return;
        }
        state.is_open = false;
        let kept = state.take_all();
        drop(state);
        kept.give_up();
    }
}

/// What was kept. The seat is deleted when this is dropped.
struct Kept {
    permits: Vec<Arc<QueueDriver>>,
    _seat: Option<Seat>,
}

impl State {
    fn take_all(&mut self) -> Kept {
        Kept { permits: std::mem::take(&mut self.permits), _seat: self.seat.take() }
    }
}

impl Kept {
    fn give_up(self) {
        for permit in self.permits {
            permit.end_retention();
        }
    }
}
