//! Needs a real ZooKeeper, which the testkit starts, and what stands beside this crate: Apache Curator from Debian's
//! package and a JDK, kazoo in a virtual environment. `scripts/setup.sh curator kazoo` installs them. Where one is missing, its
//! tests say so and are skipped; with `CI` set they fail.
//!
//! This crate beside real Apache Curator and real kazoo on one lock path. Every side is a process of its own, ours
//! too (it is this executable, called to run nothing but `worker`), and is spoken to in lines. Each pair is tried in both roles, one
//! holds and the other is kept out; then both hold at random for a while, and a checker reads what they logged. Each prints
//! what it shows; docs/mixed-fleets.md sums it up.
//!
//! All stamps are of one clock, `CLOCK_MONOTONIC`: the only one that Java, Python and Rust can all read. (It does not count
//! the time that the machine sleeps, nor does the machine sleep here.)
#![allow(clippy::unwrap_used)] // a test fails by it
#![allow(clippy::disallowed_methods)] // the processes and threads are the test's own
#![allow(clippy::future_not_send)] // they stay on the thread that began them

mod class_path;
mod counter;
mod excludes;
mod faults;
#[allow(dead_code)] // it is that of `tests/library`, which uses all of it
#[path = "../harness/mod.rs"]
mod harness;
mod leader;
mod leading;
mod lock;
mod migration;
mod others;
mod ours;
mod pair;
mod peer;
mod peers;
mod read_write;
mod rows;
mod rules;
mod rules_tests;
mod semaphore;
mod takeover;
mod who;
mod worker;
