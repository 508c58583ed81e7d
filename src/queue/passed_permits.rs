//! The permits that tasks of this process give to each other.
//!
//! The caller at the *head* has the semaphore's mutex. It waits by a node of its own under `leases`, its *seat*, until the count
//! fits. A permit that a task of this process releases meanwhile is given to the head in place of being deleted, and the next head
//! waits by the same seat. That is safe because no node is added, and each permit was counted when it was admitted. It is in order
//! because the head is first in the queue of the mutex, which passes from task to task by the rules of
//! [`local_queue`](super::local_queue): a task that asked after another process was seen does not get the mutex before it.
//!
//! Permits that are released while the mutex passes from one head to the next are kept for that moment. When the mutex leaves the
//! tasks of this process, all that is kept is deleted.

use std::sync::Arc;

use tokio::sync::Notify;

use super::driver::QueueDriver;
use super::local_queue::NodeSpec;
use super::node::OwnedNode;
use super::permits::Seat;
use crate::session::Session;
use crate::sync::Mutex;

/// The permits that are released while a caller waits for one. Belongs to the queue of the mutex.
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
    /// The number of heads: two for the moment in which one follows the other.
    heads: usize,
    permits: Vec<Permit>,
    seat: Option<Seat>,
}

/// A permit without a hold.
#[derive(Debug)]
pub(super) struct Permit {
    pub(super) node: OwnedNode,
    pub(super) spec: NodeSpec,
    /// The number of children when the permit was admitted.
    pub(super) count: usize,
}

impl PassedPermits {
    /// Takes a released permit for the head. Returns it if no head wants it.
    pub(super) fn offer(&self, permit: Permit) -> Result<(), Permit> {
        let mut state = self.state.lock();
        if !state.is_open {
            return Err(permit);
        }
        state.permits.push(permit);
        drop(state);
        self.offered.notify_one();
        Ok(())
    }

    /// Returns a permit by which a caller may hold. Others are deleted.
    pub(super) fn take(&self, session: &Session, spec: &NodeSpec, limit: usize) -> Option<Permit> {
        let permits = std::mem::take(&mut self.state.lock().permits);
        let fits = |permit: &Permit| {
            permit.node.fits(session) && permit.spec == *spec && permit.count <= limit
        };
        let mut fitting: Vec<_> = permits.into_iter().filter(fits).collect();
        let taken = fitting.pop();
        self.state.lock().permits.extend(fitting);
        taken
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
/// this process has the mutex now.
pub(super) struct InLine {
    mutex: Arc<QueueDriver>,
    is_head: bool,
}

impl InLine {
    pub(super) fn new(mutex: &Arc<QueueDriver>) -> Self {
        Self { mutex: mutex.clone(), is_head: false }
    }

    /// The caller has the mutex. If it wants several permits, the permits of others are of no use to it.
    pub(super) fn becomes_head(&mut self, wants_one: bool) {
        self.is_head = true;
        let mut state = self.mutex.passed.state.lock();
        state.heads += 1;
        state.is_open = wants_one;
        let unwanted = if wants_one { None } else { Some(state.take_all()) };
        drop(state);
        drop(unwanted);
    }
}

impl Drop for InLine {
    fn drop(&mut self) {
        let is_passed = self.mutex.is_held();
        let mut state = self.mutex.passed.state.lock();
        state.heads -= usize::from(self.is_head);
        if is_passed || state.heads > 0 {
            return;
        }
        state.is_open = false;
        let unwanted = state.take_all();
        drop(state);
        drop(unwanted);
    }
}

impl State {
    fn take_all(&mut self) -> (Vec<Permit>, Option<Seat>) {
        (std::mem::take(&mut self.permits), self.seat.take())
    }
}
