//! Needs a real ZooKeeper, which the testkit starts; for some tests one with TLS, or the right to make namespaces (where it is
//! missing, the test says so and is skipped; with `CI` set it fails).
//!
//! The real `zklock`, as a process with an environment of its own: no configuration file of the machine, nothing inherited but `PATH`.
//! What becomes of its command is seen by events: the command holds a pipe, and tells what happens to it; that the last
//! of its processes is dead is the end of that pipe. What becomes of the lock is seen by another client's watch. After each test
//! nothing that it started runs, and no node is left.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)] // a test fails by it
#![allow(clippy::disallowed_methods)] // the processes, threads and tasks are the test's own
#![allow(clippy::future_not_send)] // they stay on the thread that began them

mod contention;
mod election;
mod environment;
mod exit_codes;
mod expectations;
mod help_and_manual;
mod log;
mod loss;
mod ls_and_break;
mod ls_of_foreign_nodes;
mod ls_recursive;
mod messages;
mod metrics;
mod nesting;
mod once;
mod outages;
mod process_trees;
mod revocation;
mod secrets;
mod signals;
mod slots;
mod streams;
mod support;
mod terminals;
mod tls;
mod waiting;
