//! What the library promises, in one binary: it is linked once, and its tests share one server.
//!
//! `api` needs no server. Tests that stop or restart a server start one of their own, and fail with `ZOOKEEPER_CONNECT`,
//! which names a server of somebody else.
#![allow(clippy::disallowed_methods)] // a test owns the tasks and threads that it starts
#![allow(clippy::unwrap_used, clippy::future_not_send)] // a test fails by it, and need not be sent

mod api;
#[path = "../harness/mod.rs"]
mod harness;
mod metrics;
mod recipes;
mod round_trips;
mod traced;
