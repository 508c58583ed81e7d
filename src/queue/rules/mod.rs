//! The rules of a queue: the contenders and their order, and the meaning of a listing or of a new node's number.
//!
//! Pure: no I/O, no clock, no tokio.

pub(crate) mod admission;
pub(crate) mod filter;
pub(crate) mod gap;
pub(crate) mod node_name;
