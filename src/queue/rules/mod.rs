//! The rules of a queue: which nodes contend, in which order, and what a listing or a new node's number says. Pure: no I/O, no
//! clock, no tokio.

pub(crate) mod admission;
pub(crate) mod filter;
pub(crate) mod gap;
pub(crate) mod node_name;
