//! What operators see, as Prometheus would scrape it.
//!
//! Each test has a recorder of its own: that is the thread's, and so are all tasks of a runtime without other threads.

mod locks;
mod losses;
mod recipes;
mod recorders;
mod retries_and_cleanup;
mod sessions;
