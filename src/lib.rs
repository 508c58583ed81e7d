//! Distributed locks and leader election on ZooKeeper for tokio, on the znodes of Apache Curator: JVM and Rust processes can
//! share one lock.
//!
//! # Which one do I want
//!
//! | you need | use | page |
//! | --- | --- | --- |
//! | one process at a time | [`InterProcessMutex`] | [mutex] |
//! | many readers or one writer | [`InterProcessReadWriteLock`] | [read-write lock] |
//! | at most N at a time | [`InterProcessSemaphore`] | [semaphore] |
//! | several locks, all or none | [`InterProcessMultiLock`] | [multi-lock] |
//! | a leader for a long-lived role | [`LeaderLatch`] | [leader latch] |
//! | a function that only the leader runs | [`LeaderSelector`] | [leader selector] |
//! | to know the leader without being a candidate | [`LeaderObserver`] | [leader observer] |
//! | to ask a holder to give its lock back | [`Revoker`] | [revocation] |
//! | a number that processes share, such as a limit | [`SharedCount`] | [shared count] |
//! | to reject the writes of a late holder | [`Fenced`], [`FencingToken`] | [guarantees] |
//! | to accept any lock, or to implement one | [`InterProcessLock`], [`LockGuard`] | [multi-lock] |
//! | Curator's `InterProcessSemaphoreMutex` | [`InterProcessSemaphoreMutex`] | [semaphore mutex] |
//! | a lock around a script or a cron job | the program `zklock` | [zklock] |
//! | to move a service from Curator to Rust | | [migrating] |
//! | a real ZooKeeper in your own tests | the crate `zookeeper-testkit` | [testing your code] |
//!
//! Each recipe needs a [`Curator`]: a supervised connection that opens a new ZooKeeper session when one has expired
//! ([session]). Use a mutex for occasional pieces of work, and a latch for a long-lived role.
//!
//! # A first lock
//!
//! ```no_run
//! use zookeeper_recipes::{Curator, InterProcessMutex};
//!
//! # async fn work() {}
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let curator = Curator::connect("zk1:2181,zk2:2181,zk3:2181/app").await?;
//! let mutex = InterProcessMutex::new(&curator, "/locks/orders")?;
//! mutex.with(async |_guard| work().await).await?; // alone among all processes
//! curator.close().await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`with`](InterProcessMutex::with) drops the closure at its next `await` if the lock is lost. To hold a lock across
//! functions, keep the guard of [`acquire`](InterProcessMutex::acquire), and stop when [`lost`](MutexGuard::lost) resolves.
//!
//! # A first leader
//!
//! ```no_run
//! use zookeeper_recipes::{Curator, LeaderSelector};
//!
//! # async fn lead() {}
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let curator = Curator::builder().start("zk1:2181,zk2:2181,zk3:2181/app")?; // does not wait for a server
//! let selector = LeaderSelector::new(&curator, "/leader")?;
//! let run = selector.auto_requeue().run(|leadership| async move {
//!     // Cancelled before another process can become leader.
//!     leadership.cancellation_token().run_until_cancelled(lead()).await;
//! });
//! // … until the service stops …
//! run.close().await?;
//! curator.close().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What is guaranteed
//!
//! * By the order of the servers, at most one process at a time holds an exclusive lock.
//! * A holder learns of a loss *before* the servers can expire its session and give the lock to the next waiter: its session
//!   lease lasts at most two thirds of the session timeout. If someone else deletes the holder's node, the next
//!   waiter may get the lock before the holder is notified.
//! * A disconnection that ends within the lease costs neither the lock nor the place in the queue.
//! * A future that is dropped at any point leaves no node behind. Each operation describes under `Cancel safety` what else
//!   dropping it does.
//! * Fencing tokens grow from hold to hold.
//!
//! A leader is a holder, so the same is true of leaders. [guarantees] has the assumptions, the tests that show each
//! promise, and what is not guaranteed.
//!
//! # When not to use this
//!
//! No lock alone can guarantee that work never runs twice, because a process can be paused between its check and its
//! act. Let the resource compare [fencing tokens](MutexGuard::fencing_token). Do not use it for locks that are taken
//! thousands of times a second. If you have no ZooKeeper, and one database would do, use the database.
//!
//! # Features
//!
//! | feature | gives |
//! | --- | --- |
//! | `tls` | TLS to the servers ([security]) |
//! | `sasl` | SASL DIGEST-MD5 to the servers ([security]) |
//! | `metrics` | metrics of waiters, holds and losses, by the `metrics` facade ([observability]) |
//! | `simulation` | a ZooKeeper in memory and in virtual time, for tests (module `simulation`, [testing your code]) |
//! | `test-util` | `LocalLock`, a lock for tests without a server ([testing your code]) |
//!
//! No feature is on by default, and `test-util` is outside the promise of semantic versioning. The client crate is re-exported
//! as [`zookeeper_client`], for its `Connector`, `Acls` and `Client`.
//!
//! # What else there is
//!
//! | type | what it is |
//! | --- | --- |
//! | [`CuratorBuilder`], [`RetryPolicy`], [`ConnectionState`] | timeouts, credentials, ACLs, namespace; retries; the state of the connection |
//! | [`MutexGuard`], [`ReadGuard`], [`WriteGuard`], [`Lease`], [`Leadership`] | a hold: whether it lasts, how it was lost, its fencing token |
//! | [`Leases`], [`MultiGuard`] | several holds: a slice of leases; a guard with one token for each member |
//! | [`Loss`], [`MemberLoss`], [`LossPolicy`], [`Released`] | how a hold ended, when it counts as lost, what a release did |
//! | [`Owner`] | tasks that may re-enter a lock |
//! | [`Participant`], [`ContenderKind`], [`ContenderFilter`], [`CustomFilter`] | a holder or waiter, its kind, and which children count as such |
//! | [`LeaderWatch`], [`LeaderState`], [`LeaderRun`], [`CloseMode`] | the state of a latch, the run of a selector, and how a latch closes |
//! | [`VersionedCount`], [`CountWatch`] | a shared count with its version, and its changes |
//! | [`AcquireError`], [`ReleaseError`], [`WithError`], [`FencedError`], [`RevokeError`], [`SharedCountError`], [`LeaderError`], [`TermError`], [`SessionError`], [`ConfigError`] | the errors, one enum for each family of operations |
//! | [`MultiReleaseError`], [`MemberFailure`], [`SharedError`] | releases of several locks that were not clean; an error of your own lock |
//!
//! How it works: [architecture], [session], [round trips]; on one path with Curator and kazoo: [mixed fleets].
//!
//! [guarantees]: https://github.com/zookeeper-recipes/zookeeper-recipes/blob/main/docs/guarantees.md
//! [session]: https://github.com/zookeeper-recipes/zookeeper-recipes/blob/main/docs/session.md
//! [security]: https://github.com/zookeeper-recipes/zookeeper-recipes/blob/main/docs/security.md
//! [mutex]: https://github.com/zookeeper-recipes/zookeeper-recipes/blob/main/docs/recipes/mutex.md
//! [read-write lock]: https://github.com/zookeeper-recipes/zookeeper-recipes/blob/main/docs/recipes/read_write_lock.md
//! [semaphore]: https://github.com/zookeeper-recipes/zookeeper-recipes/blob/main/docs/recipes/semaphore.md
//! [semaphore mutex]: https://github.com/zookeeper-recipes/zookeeper-recipes/blob/main/docs/recipes/semaphore_mutex.md
//! [multi-lock]: https://github.com/zookeeper-recipes/zookeeper-recipes/blob/main/docs/recipes/multi_lock.md
//! [revocation]: https://github.com/zookeeper-recipes/zookeeper-recipes/blob/main/docs/recipes/revocation.md
//! [shared count]: https://github.com/zookeeper-recipes/zookeeper-recipes/blob/main/docs/recipes/shared_count.md
//! [leader latch]: https://github.com/zookeeper-recipes/zookeeper-recipes/blob/main/docs/recipes/leader_latch.md
//! [leader selector]: https://github.com/zookeeper-recipes/zookeeper-recipes/blob/main/docs/recipes/leader_selector.md
//! [leader observer]: https://github.com/zookeeper-recipes/zookeeper-recipes/blob/main/docs/recipes/leader_observer.md
//! [migrating]: https://github.com/zookeeper-recipes/zookeeper-recipes/blob/main/docs/migrating-from-curator.md
//! [mixed fleets]: https://github.com/zookeeper-recipes/zookeeper-recipes/blob/main/docs/mixed-fleets.md
//! [testing your code]: https://github.com/zookeeper-recipes/zookeeper-recipes/blob/main/docs/testing-your-code.md
//! [observability]: https://github.com/zookeeper-recipes/zookeeper-recipes/blob/main/docs/observability.md
//! [zklock]: https://github.com/zookeeper-recipes/zookeeper-recipes/blob/main/docs/zklock.md
//! [round trips]: https://github.com/zookeeper-recipes/zookeeper-recipes/blob/main/docs/round-trips.md
//! [architecture]: https://github.com/zookeeper-recipes/zookeeper-recipes/blob/main/docs/architecture.md

// docs.rs builds with this, on a nightly compiler: it shows which feature an item needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod acquire;
mod admission;
mod client;
mod clock;
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
#[cfg(feature = "test-util")]
mod local_lock;
mod lock_path;
mod locks;
mod metrics;
mod multi_guard;
mod multi_lock;
mod mutex;
mod owner;
mod participants;
mod queue;
mod random;
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
#[cfg(feature = "simulation")]
pub mod simulation;
mod surface;
mod waiting;

pub use zookeeper_client;

pub use crate::client::ClientError;
pub use crate::contender_filter::{ContenderFilter, CustomFilter};
pub use crate::contender_name::Kind as ContenderKind;
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
#[cfg(feature = "test-util")]
pub use crate::local_lock::{LocalGuard, LocalLock};
pub use crate::multi_guard::{MemberLoss, MultiGuard};
pub use crate::multi_lock::InterProcessMultiLock;
pub use crate::mutex::InterProcessMutex;
pub use crate::owner::Owner;
pub use crate::participants::Participant;
#[cfg(feature = "test-util")]
pub use crate::queue::Shortcuts;
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
