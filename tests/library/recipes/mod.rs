//! The promises of each recipe, also when something fails.

mod bad_input;
mod busy;
pub(crate) mod contract;
mod curator_bugs;
mod fenced_writes;
mod holds_of_one_process;
mod hostile_nodes;
mod lagging_member;
mod leader_latch;
mod leader_observer;
mod leader_selector;
mod mixed_recipes;
mod multi_lock;
mod mutex;
mod once;
mod participants;
mod read_write_lock;
mod reentrancy;
mod refused_candidates;
mod revocation;
mod semaphore;
mod session;
mod shared_count;
mod shutdown;
mod ten_thousand_tasks;
mod tries;
mod zero_limit;
