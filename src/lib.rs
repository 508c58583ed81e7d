//! ZooKeeper lock and leader-election recipes for async Rust, on the same znodes as Apache Curator.

mod admission;
mod client;
mod contender;
mod contender_name;
mod curator;
mod error;
mod fencing;
mod guard;
mod lock_path;
mod mutex;
mod owner;
mod participants;
mod retry;
mod session;
#[cfg(feature = "testkit")]
pub mod testkit;

pub use zookeeper_client;

pub use crate::client::ClientError;
pub use crate::curator::{Curator, CuratorBuilder};
pub use crate::error::{AcquireError, ConfigError, Loss, ReleaseError, SessionError, WithError};
pub use crate::fencing::FencingToken;
pub use crate::guard::{MutexGuard, Released};
pub use crate::mutex::InterProcessMutex;
pub use crate::owner::Owner;
pub use crate::participants::Participant;
pub use crate::retry::RetryPolicy;
pub use crate::session::state::ConnectionState;
