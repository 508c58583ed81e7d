//! The rules that save round trips: the requests on the wire with each rule and
//! without it, and attacks on the conditions that `make simulate SABOTAGE=all` does not find dropped.

mod elections;
mod gap_rule;
mod head_rule;
mod herd;
mod node_monitor;
mod passing_on;
mod path_cache;
mod read_write;
mod request_counts;
mod semaphore;
mod sharing;
mod slots;
