//! Needs a real ZooKeeper. The rules that save round trips: what each saves, counted on the wire with the rule and
//! without it, and attacks on what makes it safe. `make sabotage` drops those conditions one by one, and shows
//! which of these tests fails.
#![allow(clippy::disallowed_methods)] // a test owns the tasks that it starts
#![allow(clippy::unwrap_used, clippy::future_not_send)] // a test fails by it, and need not be sent

#[path = "../harness/mod.rs"]
#[allow(dead_code)] // it serves more tests than these
mod harness;

mod care;
mod counts;
mod fence;
mod gap;
mod head;
mod herd;
mod incarnations;
mod leader;
mod leases;
mod link;
mod local;
mod local_ends;
mod read_write;
mod read_write_wakes;
mod remembered;
mod stand_by;
