//! The primitive: tasks that wait for their turn at a lock path, and the nodes that stand for them at the servers.
//!
//! A caller joins a [local queue](local_queue) and waits; dropping its future, at any time, leaves it (invariant 3). One
//! task of the session's [makes an entry](entry): it creates a node, and waits until that is first. A hold has no task:
//! a release passes the seat on, or hands the delete to the client. Each node belongs to one epoch and has a
//! GUID of its own; when the epoch ends, what it may have left at the servers becomes a duty of the next, and the seat is
//! taken again.

mod background;
mod by_path;
mod contending;
mod create;
mod driver;
mod entry;
mod epoch_nodes;
mod epochs;
mod hold;
mod leases;
mod local_queue;
mod node;
mod node_monitor;
mod parent;
mod queues;
mod request;
mod rounds;
pub(crate) mod rules;
mod shortcuts;
mod siblings;
mod wait;

pub(crate) use self::contending::Contending;
pub(crate) use self::hold::{End, Hold, HoldState, Queued};
pub(crate) use self::leases::{LeaseRequest, Limit};
pub(crate) use self::queues::Queues;
pub(crate) use self::request::Request;
pub use self::shortcuts::Shortcuts;
