//! The fault product: nearly every public async function, dropped at every await; and every request that it makes, lost, answered in
//! vain, held, cut, on a dead link, answered by a follower that lags. After each: nothing of ours is left at the server, nobody
//! hangs, the next contender is served, and what the caller was told is what the server has.
//!
//! Three files always run simulated: futures that are kept and not polled (`unpolled_futures`), 16 tasks next to another
//! process (`fairness_between_processes`), and 10,000 tasks and an outage (`ten_thousand_waiters`).
//!
//! It needs nothing: each case has simulated servers of its own and runs in virtual time. With `WORLD=real` the same functions run against a
//! real server, where connections are also cut within requests. `SEED` chooses other runs.
#![allow(clippy::unwrap_used, clippy::future_not_send)] // a test fails by it, and need not be sent
#![allow(clippy::disallowed_methods)] // a test owns its tasks

mod fairness_between_processes;
mod group;
mod leader;
mod multi_lock;
mod mutex;
mod once;
mod outages;
mod product;
mod read_write_lock;
mod semaphore;
mod session;
mod shared_count;
mod slots;
mod support;
mod ten_thousand_waiters;
mod unpolled_futures;
