//! Helpers that the tests and the tools of several packages share: a [`Testbed`] for each test, conditions to wait for, and the
//! class path of Apache Curator.
#![allow(clippy::disallowed_methods)] // a test owns the tasks that it starts

#[cfg(feature = "testbed")]
mod checks;
mod class_path;
mod missing;
#[cfg(feature = "testbed")]
mod testbed;
#[cfg(feature = "testbed")]
mod world;

#[cfg(feature = "testbed")]
pub use self::{
    checks::{
        BUSY, LONG, SHORT, TICK, acquired, anyone, children, cut_off, eventually, fails, flap,
        held, lost_by, round_trip, struck_once, until, within,
    },
    testbed::{Testbed, Waiting},
    world::{
        Admin, Cut, Direction, Fault, Link, Message, Operation, Server, Servers, is_before,
        is_real, lateness,
    },
};

pub use self::class_path::{class_path, home};
pub use self::missing::{does_not_apply, skipped};
