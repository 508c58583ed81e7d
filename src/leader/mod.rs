//! Leader election: one of several processes leads, and the others are next.
//!
//! A [latch] leads until it is closed; a [selector] runs a function while it leads, and
//! then lets the next one lead; an [observer] only looks. The first two are contenders like any lock's:
//! a leader is who holds.

mod candidate;
mod closing;
mod error;
mod latch;
mod latching;
mod leadership;
mod observer;
mod observing;
mod run;
mod running;
mod selector;
mod surface;
mod term;
mod watch;

pub use self::error::{LeaderError, TermError};
pub use self::latch::{CloseMode, LeaderLatch};
pub use self::leadership::Leadership;
pub use self::observer::LeaderObserver;
pub use self::run::LeaderRun;
pub use self::selector::LeaderSelector;
pub use self::watch::{LeaderState, LeaderWatch};
