//! Needs a real ZooKeeper, and the feature `metrics`. What operators see, as Prometheus would scrape it.
//!
//! Each test has a recorder of its own: that is the thread's, and so are all tasks of a runtime without other threads.
#![allow(clippy::disallowed_methods)] // a test owns the tasks that it starts
#![allow(clippy::unwrap_used, clippy::future_not_send)] // a test fails by it, and need not be sent

#[path = "../harness/mod.rs"]
#[allow(dead_code)] // it serves more tests than these
mod harness;
mod locks;
mod losses;
mod recipes;
mod recorders;
mod scrape;
mod sessions;
mod troubles;
