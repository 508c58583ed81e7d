//! The rules that save round trips: what each saves, counted on the wire with the rule and
//! without it; and attacks on the conditions that `make simulate SABOTAGE=all` does not find dropped.

mod care;
mod counts;
mod gap;
mod head;
mod herd;
mod leader;
mod leases;
mod link;
mod passing;
mod read_write;
mod remembered;
