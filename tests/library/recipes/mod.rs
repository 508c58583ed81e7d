//! What each recipe does, and does when something fails.

mod bad_input;
pub(crate) mod conformance;
mod curator_bugs;
mod fenced;
mod hostile;
mod lagging_member;
pub(crate) mod latches;
mod leader_latch;
mod leader_observer;
mod leader_selector;
mod leading;
pub(crate) mod leases;
mod many;
mod mixed;
mod multi_lock;
mod mutex;
mod once;
mod owner;
mod participants;
mod read_write_lock;
mod revocation;
mod semaphore;
mod session;
mod shared_count;
mod zero_limit;
