//! Needs a real ZooKeeper: the testkit starts one, and an ensemble for what a lagging follower answers.
//!
//! The fault product: every public async function, dropped at every await; and every request that it makes,
//! lost, answered in vain, stalled, cut. After each: nothing of ours is left at the server, nobody hangs,
//! the next contender is served, and what the caller was told is what the server has. With `--include-ignored`, as in
//! `make test-all`, connections are also cut within and behind requests, and `products! { product_twice: .. }` has a second layer.
#![allow(clippy::disallowed_methods)] // a test owns the tasks that it starts
#![allow(clippy::unwrap_used, clippy::future_not_send)] // a test fails by it, and need not be sent
#![allow(dead_code)] // the harness is that of `tests/library`, which uses all of it

mod case;
#[path = "../harness/mod.rs"]
mod harness;
mod lagging;
mod leader;
mod multi_lock;
mod mutex;
mod product;
mod read_write_lock;
mod semaphore;
mod session;
mod shared_count;
mod stage;
