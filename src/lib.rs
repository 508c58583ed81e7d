//! ZooKeeper lock and leader-election recipes for async Rust, on the same znodes as Apache Curator: old JVM
//! processes and new Rust processes contend on one path.
//!
//! # Which one do I want
//!
//! | what you need | take | page |
//! | --- | --- | --- |
//! | that of all processes one at a time does something | [`InterProcessMutex`] | [mutex] |
//! | that many read together, and one writes alone | [`InterProcessReadWriteLock`] | [read-write lock] |
//! | that so many at a time do something: workers, connections | [`InterProcessSemaphore`] | [semaphore] |
//! | several locks as one: all of them, or none | [`InterProcessMultiLock`] | [multi-lock] |
//! | one process that leads for as long as it can, beside all else that it does | [`LeaderLatch`] | [leader latch] |
//! | a function that runs while its process leads, and lets the next lead when it ends | [`LeaderSelector`] | [leader selector] |
//! | to know who leads, and not to take part | [`LeaderObserver`] | [leader observer] |
//! | to ask a holder to give its lock back | [`Revoker`] | [revocation] |
//! | a number that processes share, such as a limit that can change | [`SharedCount`] | [shared count] |
//! | to keep a late holder from writing: in ZooKeeper, or elsewhere | [`Fenced`], [`FencingToken`] | [guarantees] |
//! | to take any lock, or to write one of your own | [`InterProcessLock`], [`LockGuard`] | [multi-lock] |
//! | the same path as Curator's `InterProcessSemaphoreMutex` | [`InterProcessSemaphoreMutex`] | [semaphore mutex] |
//! | a lock or a leader around a script or a cron job, without Rust | `zklock run`, `zklock elect` (feature `cli`) | [zklock] |
//! | to come from Curator: which method is which, and how to change over | | [migrating] |
//! | a real ZooKeeper in your own tests, and a link that breaks | `testkit` | [testing your code] |
//! | to see from outside what locks do | the feature `metrics`, `tracing` | [observability] |
//!
//! All of them need a [`Curator`]: a supervised connection, which opens a new ZooKeeper session after every expiry
//! ([session]). Not sure between a mutex and a leader? Who has work now and then takes a mutex for each piece of it; who has a role
//! takes a latch.
//!
//! # What is guaranteed
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
//! A leader is a holder: all of this goes for leaders, too. On what it rests, what breaks it, which tests show it, and what is not
//! guaranteed: [guarantees].
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
//!
//! # A first leader
//!
//! ```no_run
//! use zookeeper_recipes::{Curator, LeaderLatch};
//!
//! # async fn lead() {}
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let curator = Curator::builder().start("zk1:2181,zk2:2181,zk3:2181/app")?; // waits for no connection
//! let latch = LeaderLatch::new(&curator, "/leader")?;
//! latch.start()?;
//! loop {
//!     let leadership = latch.await_leadership().await?;
//!     // … until it is lost, before any other can lead …
//!     leadership.cancellation_token().run_until_cancelled(lead()).await;
//! }
//! # }
//! ```
//!
//! # Features
//!
//! | feature | gives |
//! | --- | --- |
//! | `tls` | TLS to the servers ([security]) |
//! | `sasl` | SASL DIGEST-MD5 to the servers ([security]) |
//! | `metrics` | who waits, who holds, what was lost and why, by the `metrics` facade ([observability]) |
//! | `cli` | the program `zklock` (Linux): locks and leaders for scripts and cron jobs, without Rust ([zklock]) |
//! | `testkit` | servers, ensembles and faults for tests; outside the promise of semantic versioning ([testing your code]) |
//!
//! None is on by default. The client crate is re-exported as [`zookeeper_client`], for its `Connector`, `Acls` and `Client`.
//!
//! # What else there is
//!
//! | type | what it is |
//! | --- | --- |
//! | [`CuratorBuilder`], [`RetryPolicy`], [`ConnectionState`] | timeouts, credentials, ACLs, namespace; when to try again; what is known of the connection |
//! | [`MutexGuard`], [`ReadGuard`], [`WriteGuard`], [`Lease`], [`Leadership`] | what is held: is it still, how was it lost, its fencing token |
//! | [`Leases`], [`MultiGuard`] | several of them: a slice of leases; a guard whose members have the tokens |
//! | [`Loss`], [`MemberLoss`], [`LossPolicy`], [`Released`] | how a hold ended, when one counts as lost, what a release did |
//! | [`Owner`] | who re-enters a lock |
//! | [`Participant`], [`ContenderKind`], [`ContenderFilter`], [`CustomFilter`] | one that holds or waits, and what it is; who counts as one |
//! | [`LeaderWatch`], [`LeaderState`], [`LeaderRun`], [`CloseMode`] | what a latch and a selector give, and how they close |
//! | [`VersionedCount`], [`CountWatch`] | a shared count as it was, and as it changes |
//! | [`AcquireError`], [`ReleaseError`], [`WithError`], [`FencedError`], [`RevokeError`], [`SharedCountError`], [`LeaderError`], [`TermError`], [`SessionError`], [`ConfigError`] | what can go wrong, one enum for each family of operations |
//! | [`MultiReleaseError`], [`MemberFailure`], [`SharedError`] | what must be known of the release of several locks; an error of a lock of your own |
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
mod waiting;

pub use zookeeper_client;

pub use crate::client::ClientError;
#[cfg(feature = "test-util")]
pub use crate::contender::Shortcuts;
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
