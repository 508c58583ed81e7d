//! Leader election: one of several processes leads, and the others wait to lead.
//!
//! A [`LeaderLatch`] leads until it is closed. A [`LeaderSelector`] runs a function while it leads, and then lets the next
//! candidate lead. A [`LeaderObserver`] only reports the leader. Latches and selectors contend as locks do, and a leadership
//! is a [`Hold`](crate::Hold).

mod candidate;
mod handle;
mod latch;
mod observer;
mod selector;
mod task;

pub use self::handle::{LeaderRun, TermError};
pub use self::latch::LeaderLatch;
pub use self::observer::LeaderObserver;
pub use self::selector::LeaderSelector;
