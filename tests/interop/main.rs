//! Needs a real ZooKeeper, which the testkit starts, and what stands beside this crate: Apache Curator from Debian's
//! package and a JDK, kazoo in a virtual environment. `scripts/setup.sh curator kazoo` installs them. Where one is missing, its
//! tests say so and are skipped; with `CI` set they fail. `CURATOR_HOME` and `KAZOO_HOME` name other versions of them, which
//! `scripts/distributions.sh` fetches.
//!
//! This crate beside real Apache Curator and real kazoo on one lock path. Every side is a process of its own, ours
//! too (it is this executable, called to run nothing but `support::our_process::worker`), and is spoken to in lines. A test is a table of sets, each
//! tried in every order. docs/guide/mixed-fleets.md sums up what they show. Random work beside the steps of Curator and kazoo is in
//! `tests/simulation`.
//!
//! All stamps are of one clock, `CLOCK_MONOTONIC`: the only one that Java, Python and Rust can all read. (It does not count
//! the time that the machine sleeps, nor does the machine sleep here.)
#![allow(clippy::unwrap_used)] // a test fails by it
#![allow(clippy::disallowed_methods)] // the processes and threads are the test's own
#![allow(clippy::future_not_send)] // they stay on the thread that began them

mod beside_the_locks;
mod group;
mod migration;
mod mutual_exclusion;
mod passed_and_retained_nodes;
mod read_write;
mod revocation;
mod semaphore;
mod shared_count;
mod support;
mod takeover;
