//! Leader election: one of several processes leads, and the others are next.
//!
//! A [`LeaderLatch`] leads until it is closed; a [`LeaderSelector`] runs a function while it leads, and then lets the next
//! one lead; a [`LeaderObserver`] only looks. The first two are contenders like any lock's, and a leadership is a
//! [`Hold`](crate::Hold).

mod candidate;
mod latch;
mod observer;
mod run;
mod running;
mod selector;
mod term;

pub use self::latch::LeaderLatch;
pub use self::observer::LeaderObserver;
pub use self::run::LeaderRun;
pub use self::selector::LeaderSelector;
pub use self::term::TermError;
