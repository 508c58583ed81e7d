//! Needs nothing for the checker's rules; a server, for the runs with a lock that is broken on purpose.
//!
//! The soak itself is examples/soak, whose files are part of this test. Its workers are this executable, called to
//! run nothing but `worker`.
#![allow(clippy::unwrap_used)] // a test fails by it
#![allow(clippy::disallowed_methods)] // the soak's processes and tasks are its own
#![allow(clippy::future_not_send)] // they stay on the thread that began them

#[path = "../../examples/soak/admin.rs"]
mod admin;
#[path = "../../examples/soak/candidate.rs"]
mod candidate;
#[path = "../../examples/soak/checker/mod.rs"]
mod checker;
#[path = "../../examples/soak/faults.rs"]
mod faults;
#[path = "../../examples/soak/guards.rs"]
mod guards;
#[path = "../../examples/soak/hand.rs"]
mod hand;
#[path = "../../examples/soak/held.rs"]
mod held;
#[path = "../../examples/soak/hold.rs"]
mod hold;
mod leaders;
#[path = "../../examples/soak/leading.rs"]
mod leading;
#[path = "../../examples/soak/links.rs"]
mod links;
#[path = "../../examples/soak/log.rs"]
mod log;
#[path = "../../examples/soak/naive.rs"]
mod naive;
#[path = "../../examples/soak/observer.rs"]
mod observer;
#[path = "../../examples/soak/page.rs"]
mod page;
#[path = "../../examples/soak/report.rs"]
mod report;
#[path = "../../examples/soak/rows.rs"]
mod rows;
mod rules;
#[path = "../../examples/soak/run.rs"]
mod run;
mod sabotaged;
#[path = "../../examples/soak/schedule.rs"]
mod schedule;
mod script;
#[allow(dead_code)] // the environment's settings
#[path = "../../examples/soak/settings.rs"]
mod settings;
mod shared;
#[path = "../../examples/soak/store.rs"]
mod store;
#[path = "../../examples/soak/turns.rs"]
mod turns;
#[path = "../../examples/soak/worker.rs"]
mod worker;

pub(crate) type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;
