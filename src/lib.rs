//! ZooKeeper lock recipes for async Rust, on the same znodes as Apache Curator: old JVM processes and new
//! Rust processes contend on one path.
//!
//! | type | what it is |
//! | --- | --- |
//! | [`Curator`] | a supervised connection: a new ZooKeeper session after every expiry |
//! | [`InterProcessMutex`] | one holder among all processes, first come, first served |
//! | [`MutexGuard`] | a lock that is held: is it still, when was it lost, its fencing token |
//! | [`Owner`] | who re-enters a lock |
//! | [`RetryPolicy`] | how often what may succeed later is tried again |
//! | `testkit` | a real ZooKeeper for tests (feature `testkit`) |
//!
//! # In brief
//!
//! * At most one holder at any time, over Rust and Curator (5.4 and later) processes.
//! * A holder is told of a loss *before* the servers can give the lock to the next: by a lease of two
//!   thirds of the session timeout, renewed by answers of the ensemble's leader only.
//! * A future that is dropped anywhere leaves no node behind; every operation says under `Cancel safety`
//!   what else dropping it does.
//! * Fencing tokens grow from hold to hold.
//!
//! # When not to use this
//!
//! A lock alone cannot make sure that something is never done twice: a process can be stopped between its
//! check and its act. Let the resource compare [fencing tokens](MutexGuard::fencing_token). For locks taken
//! thousands of times a second, a quorum is the wrong place.
//!
//! # A first lock
//!
//! ```no_run
//! use zookeeper_recipes::{Curator, InterProcessMutex};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let curator = Curator::connect("zk1:2181,zk2:2181,zk3:2181/app").await?;
//! let mutex = InterProcessMutex::new(&curator, "/locks/orders")?;
//! let guard = mutex.acquire().await?;
//! // … alone among all processes, while `guard.is_held()` …
//! guard.release().await?;
//! # Ok(())
//! # }
//! ```

mod admission;
mod client;
mod contender;
mod contender_name;
mod curator;
#[cfg(doctest)]
mod docs;
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
