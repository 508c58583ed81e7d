//! What the library promises, in one binary.
//!
//! Each test has simulated servers of its own and runs in virtual time; with `WORLD=real` the same tests run against real
//! ones. `SEED` chooses other runs. `real` always needs a real ZooKeeper, `api` needs none.
#![allow(clippy::disallowed_methods)] // a test owns the tasks and threads that it starts
#![allow(clippy::unwrap_used, clippy::future_not_send)] // a test fails by it, and need not be sent

mod api;
mod metrics;
mod pictures;
mod prelude;
mod processes;
mod real;
mod recipes;
mod round_trips;
mod support;
mod traced;
