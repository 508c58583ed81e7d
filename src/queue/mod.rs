//! The primitive: tasks that wait for their turn at a lock path, and the znodes that stand for them at the servers.
//!
//! A caller joins a [local queue](local_queue) and waits; dropping its future, at any time, leaves the queue (invariant 3). One
//! session task [makes an entry](entry): it creates a node, and waits until that is first. A hold has no task: a release passes
//! the node on, or hands its delete to the client. Each node belongs to one session and has a GUID of its own. When the session
//! ends, the nodes that may be left at the servers become clean-up tasks of the next session, and the queue enters again.

mod background;
mod contending;
mod create;
mod driver;
mod entry;
mod hold;
mod leaving;
mod local_queue;
mod node;
mod node_monitor;
mod passed_permits;
mod path_nodes;
mod path_registry;
mod permits;
mod queued_flag;
mod queues;
mod request;
mod retries;
pub(crate) mod rules;
mod session_nodes;
#[cfg(all(test, feature = "simulation"))]
mod tests;
mod wait;

pub(crate) use self::contending::Contending;
pub(crate) use self::hold::{End, HoldState, OwnedHold};
pub(crate) use self::local_queue::{NodeSpec, Waiter};
pub(crate) use self::permits::{Limit, PermitRequest};
pub(crate) use self::queued_flag::QueuedFlag;
pub(crate) use self::queues::Queues;
pub(crate) use self::request::Request;
