//! ZooKeeper lock and leader-election recipes for async Rust, on the same znodes as Apache Curator: old JVM
//! processes and new Rust processes contend on one path.
//!
//! | type | what it is |
//! | --- | --- |
//! | [`Curator`], [`CuratorBuilder`] | a supervised connection: a new ZooKeeper session after every expiry |
//! | [`ConnectionState`] | what a `Curator` knows of its connection |
//! | [`InterProcessMutex`] | one holder among all processes, first come, first served |
//! | [`MutexGuard`] | a lock that is held: is it still, when was it lost, its fencing token |
//! | [`InterProcessReadWriteLock`] | one writer, or any number of readers; who writes can go on reading |
//! | [`ReadLock`], [`WriteLock`], [`ReadGuard`], [`WriteGuard`] | its halves, and what they give |
//! | [`InterProcessMultiLock`], [`MultiGuard`] | several locks as one, and all of them held |
//! | [`MemberLoss`] | which member of a multi-lock was lost |
//! | [`InterProcessLock`], [`LockGuard`] | any lock and any guard, behind a pointer; for locks of your own, too |
//! | [`InterProcessSemaphore`], [`Lease`], [`Leases`] | so many holders among all processes; several leases at once, all or none |
//! | [`InterProcessSemaphoreMutex`] | one holder, on the nodes of a semaphore |
//! | [`LeaderLatch`], [`CloseMode`] | takes part in an election, and leads until it is closed |
//! | [`LeaderWatch`], [`LeaderState`] | whether a latch leads, as it changes |
//! | [`LeaderSelector`], [`LeaderRun`], [`TermError`] | runs a function while it leads, and lets the next one lead |
//! | [`Leadership`] | one term of a leader: does it last, when was it lost, its fencing token |
//! | [`LeaderObserver`] | who leads, in whatever process |
//! | [`Revoker`], [`RevokeError`] | asks a holder to give its lock back |
//! | [`FencingToken`] | by what a resource tells a newer hold from an older one |
//! | [`Fenced`] | writes that ZooKeeper refuses once the hold is over |
//! | [`Loss`], [`LossPolicy`], [`Released`] | how a hold ended, when one counts as lost, what a release did |
//! | [`Participant`] | one that holds a lock or waits for it |
//! | [`Owner`] | who re-enters a lock |
//! | [`SharedCount`], [`VersionedCount`] | a number that processes share |
//! | [`CountWatch`] | its values, as they come |
//! | [`RetryPolicy`] | how often what may succeed later is tried again |
//! | [`AcquireError`], [`ReleaseError`], [`WithError`], [`FencedError`], [`SharedCountError`], [`LeaderError`], [`SessionError`], [`ConfigError`] | what can go wrong, one enum for each family of operations |
//! | [`MultiReleaseError`], [`MemberFailure`] | what must be known of the release of several locks |
//! | [`SharedError`] | an error of a lock of your own |
//! | `testkit` | a real ZooKeeper for tests (feature `testkit`) |
//!
//! The client crate is re-exported as [`zookeeper_client`], for its `Connector`, `Acls` and `Client`.
//!
//! # In brief
//!
//! * As the servers order things, one contender of a path holds at a time, over all processes.
//! * A holder is told *before* the servers can expire its session and give the lock to the next: by a lease
//!   of two thirds of the session timeout, which only answers by way of the ensemble's leader renew. Who
//!   deletes a holder's node is faster.
//! * A disconnection that ends within the lease loses nothing.
//! * A future that is dropped anywhere leaves no node behind; every operation says under `Cancel safety`
//!   what else dropping it does.
//! * Fencing tokens grow from hold to hold.
//!
//! A leader is a holder: all of this goes for leaders, too.
//!
//! On what that rests, and what is not guaranteed: [guarantees]. How it works: [session], [mutex],
//! [semaphore], [shared count], [revocation], [leader latch], [leader selector], [leader observer], [architecture]. Servers for your own tests: [testing].
//!
//! [guarantees]: https://github.com/zookeeper-recipes/zookeeper-recipes/blob/main/docs/guarantees.md
//! [session]: https://github.com/zookeeper-recipes/zookeeper-recipes/blob/main/docs/session.md
//! [mutex]: https://github.com/zookeeper-recipes/zookeeper-recipes/blob/main/docs/recipes/mutex.md
//! [semaphore]: https://github.com/zookeeper-recipes/zookeeper-recipes/blob/main/docs/recipes/semaphore.md
//! [revocation]: https://github.com/zookeeper-recipes/zookeeper-recipes/blob/main/docs/recipes/revocation.md
//! [shared count]: https://github.com/zookeeper-recipes/zookeeper-recipes/blob/main/docs/recipes/shared_count.md
//! [leader latch]: https://github.com/zookeeper-recipes/zookeeper-recipes/blob/main/docs/recipes/leader_latch.md
//! [leader selector]: https://github.com/zookeeper-recipes/zookeeper-recipes/blob/main/docs/recipes/leader_selector.md
//! [leader observer]: https://github.com/zookeeper-recipes/zookeeper-recipes/blob/main/docs/recipes/leader_observer.md
//! [architecture]: https://github.com/zookeeper-recipes/zookeeper-recipes/blob/main/docs/architecture.md
//! [testing]: https://github.com/zookeeper-recipes/zookeeper-recipes/blob/main/docs/testing.md
//!
//! # When not to use this
//!
//! A lock alone cannot make sure that something is never done twice: a process can be stopped between its
//! check and its act. Let the resource compare [fencing tokens](MutexGuard::fencing_token). For locks taken
//! thousands of times a second, a quorum is the wrong place. Where there is no ZooKeeper yet, and one database
//! would do, use that.
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

mod acquire;
mod admission;
mod client;
mod clock;
mod contender;
mod contender_filter;
mod contender_name;
mod curator;
#[cfg(doctest)]
mod docs;
mod error;
mod fenced;
mod fencing;
mod guard;
mod inter_process_lock;
mod leader;
mod leasing;
mod lock_path;
mod locks;
mod metrics;
mod multi_guard;
mod multi_lock;
mod mutex;
mod owner;
mod participants;
mod read_write_lock;
mod reading;
mod recipe;
mod retry;
mod revoke;
mod semaphore;
mod semaphore_mutex;
mod session;
mod shared_count;
mod shared_error;
mod surface;
#[cfg(feature = "testkit")]
pub mod testkit;
mod waiting;

pub use zookeeper_client;

pub use crate::client::ClientError;
#[cfg(feature = "testkit")]
pub use crate::contender::Shortcuts;
pub use crate::contender_filter::{ContenderFilter, CustomFilter};
pub use crate::curator::{Curator, CuratorBuilder};
pub use crate::error::{
    AcquireError, ConfigError, FencedError, Loss, MemberFailure, MultiReleaseError, ReleaseError,
    RevokeError, SessionError, WithError,
};
pub use crate::fenced::Fenced;
pub use crate::fencing::FencingToken;
pub use crate::guard::{MutexGuard, Released};
pub use crate::inter_process_lock::{BoxFuture, InterProcessLock, LockGuard};
pub use crate::leader::{
    CloseMode, LeaderError, LeaderLatch, LeaderObserver, LeaderRun, LeaderSelector, LeaderState,
    LeaderWatch, Leadership, TermError,
};
pub use crate::multi_guard::{MemberLoss, MultiGuard};
pub use crate::multi_lock::InterProcessMultiLock;
pub use crate::mutex::InterProcessMutex;
pub use crate::owner::Owner;
pub use crate::participants::Participant;
pub use crate::read_write_lock::{
    InterProcessReadWriteLock, ReadGuard, ReadLock, WriteGuard, WriteLock,
};
pub use crate::retry::RetryPolicy;
pub use crate::revoke::Revoker;
pub use crate::semaphore::{InterProcessSemaphore, Lease, Leases};
pub use crate::semaphore_mutex::InterProcessSemaphoreMutex;
pub use crate::session::lease::LossPolicy;
pub use crate::session::state::ConnectionState;
pub use crate::shared_count::{CountWatch, SharedCount, SharedCountError, VersionedCount};
pub use crate::shared_error::SharedError;
