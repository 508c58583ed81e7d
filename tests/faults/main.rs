//! The fault product: every public async function, dropped at every await; and every request that it makes, lost, answered in
//! vain, held, cut, on a dead link, answered by a follower that lags. After each: nothing of ours is left at the server, nobody
//! hangs, the next contender is served, and what the caller was told is what the server has.
//!
//! Besides, always simulated: futures that are kept and not polled (`kept`), 16 tasks beside a stranger (`turns`), 10,000 tasks
//! and an outage (`many`).
//!
//! It needs nothing: each case has simulated servers of its own and runs in virtual time. With `WORLD=real` the same functions run against a
//! real server, where connections are also cut within requests. `SEED` chooses other runs.
#![allow(clippy::unwrap_used, clippy::future_not_send)] // a test fails by it, and need not be sent
#![allow(clippy::disallowed_methods, dead_code)] // a test owns its tasks; the harness is that of `tests/library`

mod case;
#[path = "../harness/mod.rs"]
mod harness;
mod kept;
mod leader;
mod many;
mod multi_lock;
mod mutex;
mod once;
mod product;
mod read_write_lock;
mod semaphore;
mod session;
mod shared_count;
mod stage;
mod turns;
