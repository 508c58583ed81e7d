//! Needs nothing for the checker's rules; a server, for the runs with a lock that is broken on purpose.
//!
//! The soak itself is examples/soak, whose files are part of this test. Its workers are this executable, called to
//! run nothing but `worker`.
#![allow(clippy::unwrap_used)] // a test fails by it
#![allow(clippy::disallowed_methods)] // the soak's processes and tasks are its own
#![allow(clippy::future_not_send)] // they stay on the thread that began them

#[path = "../../src/bin/soak/admin.rs"]
mod admin;
#[path = "../../src/bin/soak/candidate.rs"]
mod candidate;
#[path = "../../src/bin/soak/checker/mod.rs"]
mod checker;
#[path = "../../src/bin/soak/faults.rs"]
mod faults;
#[path = "../../src/bin/soak/guards.rs"]
mod guards;
#[path = "../../src/bin/soak/hand.rs"]
mod hand;
#[path = "../../src/bin/soak/held.rs"]
mod held;
#[path = "../../src/bin/soak/hold.rs"]
mod hold;
mod leaders;
#[path = "../../src/bin/soak/leading.rs"]
mod leading;
#[path = "../../src/bin/soak/links.rs"]
mod links;
#[path = "../../src/bin/soak/log.rs"]
mod log;
#[path = "../../src/bin/soak/naive.rs"]
mod naive;
#[path = "../../src/bin/soak/observer.rs"]
mod observer;
#[path = "../../src/bin/soak/page.rs"]
mod page;
#[path = "../../src/bin/soak/report.rs"]
mod report;
#[path = "../../src/bin/soak/rows.rs"]
mod rows;
mod rules;
#[path = "../../src/bin/soak/run.rs"]
mod run;
mod sabotaged;
#[path = "../../src/bin/soak/schedule.rs"]
mod schedule;
mod script;
#[allow(dead_code)] // the environment's settings
#[path = "../../src/bin/soak/settings.rs"]
mod settings;
mod shared;
#[path = "../../src/bin/soak/store.rs"]
mod store;
#[path = "../../src/bin/soak/turns.rs"]
mod turns;
#[path = "../../src/bin/soak/worker.rs"]
mod worker;

pub(crate) type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;
