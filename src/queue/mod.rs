//! The primitive: tasks that wait for their turn at a lock path, and the nodes that stand for them at the servers.
//!
//! A caller joins a [local queue](local_queue) and waits; dropping its future, at any time, leaves it (invariant 3). One
//! task of the session's [makes an entry](entry): it creates a node, and waits until that is first. A hold has no task:
//! a release passes the seat on, or hands the delete to the client. Each node belongs to one session and has a
//! GUID of its own; when the session ends, what it may have left at the servers becomes a duty of the next, and the seat is
//! taken again.

mod background;
mod contending;
mod create;
mod current_nodes;
mod driver;
mod entry;
mod hold;
mod leases;
mod local_queue;
mod node;
mod node_monitor;
mod parent;
mod path_nodes;
mod path_registry;
mod poller;
mod queued_flag;
mod queues;
mod request;
pub(crate) mod rules;
mod session_nodes;
mod shortcuts;
mod wait;

pub(crate) use self::contending::Contending;
pub(crate) use self::hold::{End, HoldState, OwnedHold};
pub(crate) use self::leases::{LeaseRequest, Limit};
pub(crate) use self::queued_flag::QueuedFlag;
pub(crate) use self::queues::Queues;
pub(crate) use self::request::Request;
pub use self::shortcuts::Shortcuts;
