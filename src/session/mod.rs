//! When requests are retried, and the state of the connection.
//!
//! A [`Curator`](crate::Curator) opens one ZooKeeper session after another. When a session expires, its holds are lost, and
//! its waiters enter again in the next session.

// The folder has connections and sessions, the session lease, retrying, and the clean-up tasks.

pub(crate) mod cleanup;
pub(crate) mod connection;
pub(crate) mod follower;
pub(crate) mod lease;
pub(crate) mod observed;
pub(crate) mod retry;
#[allow(clippy::module_inception)] // the folder has the name of its main type
pub(crate) mod session;
pub(crate) mod state;
pub(crate) mod supervisor;
pub(crate) mod tasks;

pub use self::retry::RetryPolicy;
pub use self::state::ConnectionState;

pub(crate) use self::connection::{Connection, NoSession, Settings};
pub(crate) use self::session::Session;
