//! Needs a real ZooKeeper. The rules that save round trips: what each saves, counted on the wire with the rule and
//! without it, and attacks on what makes it safe. `make sabotage` drops those conditions one by one, and shows
//! which of these tests fails.

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
