//! Distributed locks and leader election on ZooKeeper for tokio, on the znodes of Apache Curator: JVM and Rust processes can
//! share one lock.
//!
//! # Which one do I want
//!
//! | you need | use |
//! | --- | --- |
//! | one process at a time | [`Curator::mutex`] |
//! | many readers or one writer | [`Curator::read_write_lock`] |
//! | at most N at a time | [`Curator::semaphore`] |
//! | a number from 0 to N - 1 that no other live process has | [`Curator::slots`] |
//! | several locks, all or none | [`Curator::multi_lock`] |
//! | a job that runs once, although several machines start it | [`Curator::once`] |
//! | a leader for a long-lived role | [`Curator::leader_latch`] |
//! | a function that only the leader runs | [`Curator::leader_selector`] |
//! | to know the leader without being a candidate | [`Curator::observe_leader`] |
//! | a znode that exists while the process is alive | [`Curator::persistent_node`] |
//! | to know which processes are alive | [`Curator::group_member`], [`Curator::observe_group`] |
//! | to ask a holder to give its lock back | [`interop::Revoker`] |
//! | a number that processes share, such as a limit | [`interop::SharedCount`] |
//! | to reject the writes of a late holder | [`Hold::fenced`], [`Hold::fencing_token`] |
//! | to accept any lock | [`Lock`] |
//! | a lock around a script or a cron job | the program `zklock` |
//! | a ZooKeeper in your own tests | the module `simulation`, the crate `zookeeper-testkit` |
//!
//! Each recipe needs a [`Curator`]: a supervised connection that opens a new ZooKeeper session when one has expired. Use a
//! mutex for occasional work, and a latch for a long-lived role. The [guide] describes each recipe, what is [guaranteed],
//! and how to migrate [from Curator].
//!
//! # A first lock
//!
//! ```no_run
//! use zookeeper_recipes::{Curator, Error};
//!
//! # async fn bill(token: i64) -> Result<u64, Error> { Ok(1) }
//! # async fn example() -> Result<(), Error> {
//! let curator = Curator::connect("zk1:2181,zk2:2181,zk3:2181/app").await?;
//! let orders = curator.mutex("/locks/orders")?;
//! let billed = orders.run(async |hold| bill(hold.fencing_token().value()).await).await?; // alone among all processes
//! curator.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! [`run`](InterProcessMutex::run) drops the closure at its next `await` if the lock is lost, and releases before `?` can
//! leave the function. [`try_run`](InterProcessMutex::try_run) runs the closure only if the lock is free, and
//! [`run_timeout`](InterProcessMutex::run_timeout) waits for a while. Otherwise they return a [busy](Error::is_busy) error. To
//! hold a lock across functions, keep the guard of [`acquire`](InterProcessMutex::acquire), and stop when [`lost`](Hold::lost)
//! resolves.
//!
//! # A first leader
//!
//! ```no_run
//! use zookeeper_recipes::{Curator, Error};
//!
//! # async fn lead() {}
//! # async fn example() -> Result<(), Error> {
//! let curator = Curator::builder().connect_lazy("zk1:2181,zk2:2181,zk3:2181/app")?; // does not wait for a server
//! let run = curator.leader_selector("/leader")?.auto_requeue().run(async |term| {
//!     // Cancelled before another process can become leader.
//!     term.cancellation_token().run_until_cancelled(lead()).await;
//! });
//! // … until the service stops …
//! run.close().await?;
//! curator.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! # What is guaranteed
//!
//! * In the order in which the servers process requests, at most one process at a time holds an exclusive lock.
//! * A holder learns of a loss *before* the servers can expire its session and give the lock to the next waiter: its session
//!   lease lasts at most two thirds of the session timeout. If another client deletes the holder's node, the next
//!   waiter may get the lock before the holder is notified.
//! * A disconnection that ends within the lease costs neither the lock nor the place in the queue.
//! * A future that is dropped at any point leaves no node behind. Each operation describes under `Cancel safety` what else
//!   dropping it does.
//! * Fencing tokens never decrease, and grow whenever a lock passes between processes.
//!
//! A leader is a holder, so all of this applies to leaders as well. The page [guaranteed] lists the assumptions, the
//! tests that show each promise, and what is not guaranteed.
//!
//! # When not to use this
//!
//! No lock alone can guarantee that work never runs twice, because a process can be paused between its check and its
//! act. Let the resource compare [fencing tokens](Hold::fencing_token). If you have no ZooKeeper, and one database would do,
//! use the database.
//!
//! # Features
//!
//! | feature | gives |
//! | --- | --- |
//! | `tls` | TLS to the servers |
//! | `sasl` | SASL DIGEST-MD5 to the servers |
//! | `metrics` | metrics of waiters, holds and losses, through the `metrics` facade |
//! | `simulation` | a ZooKeeper in memory and in virtual time, for tests (module `simulation`) |
//!
//! No feature is on by default.
//!
//! [guide]: crate::guide
//! [guaranteed]: crate::guide::guarantees
//! [from Curator]: crate::guide::coming_from_curator

// docs.rs builds with this, on a nightly compiler: it shows which feature an item needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod client;
mod clock;
mod curator;
mod error;
mod fencing_token;
#[cfg(any(doc, doctest))]
pub mod guide;
mod lock_path;
mod metrics;
mod queue;
mod random;
mod recipes;
pub mod session;
#[cfg(feature = "simulation")]
pub mod simulation;
mod sync;

pub use tokio_util::sync::CancellationToken;
pub use zookeeper_client;

// On a type of a private module rustdoc drops the alias, so the aliases of types stand here.
#[doc(alias = "CuratorFramework")]
pub use crate::curator::Curator;
#[doc(alias = "CuratorFrameworkFactory")]
pub use crate::curator::CuratorBuilder;
pub use crate::error::{Error, ErrorKind, Loss, Released};
pub use crate::fencing_token::FencingToken;
pub use crate::recipes::group;
pub use crate::recipes::leader;
pub use crate::recipes::multi_lock::InterProcessMultiLock;
pub use crate::recipes::mutex::InterProcessMutex;
pub use crate::recipes::once::{InterProcessOnce, OnceOutcome};
#[doc(alias = "PersistentEphemeralNode")]
#[doc(alias = "PersistentNodeListener")]
pub use crate::recipes::persistent_node::{PersistentNode, PersistentNodeState};
pub use crate::recipes::read_write_lock::{InterProcessReadWriteLock, WriteGuard};
#[doc(alias = "InterProcessSemaphoreMutex")]
pub use crate::recipes::semaphore::InterProcessSemaphoreV2;
pub use crate::recipes::shared::fenced::Fenced;
pub use crate::recipes::shared::guards::Guards;
#[doc(alias = "Lease")]
#[doc(alias = "Locker")]
pub use crate::recipes::shared::hold::{Guard, Hold};
#[doc(alias = "InterProcessLock")]
pub use crate::recipes::shared::lock::Lock;
pub use crate::recipes::shared::participants::Participant;
#[cfg(feature = "simulation")]
pub use crate::recipes::shared::simulated_guard::GuardControl;
pub use crate::recipes::slots::{SlotGuard, SlotHold, Slots};

/// Types for paths that Curator or kazoo use as well, and for code that is ported from them.
pub mod interop {
    #[doc(alias = "LockInternalsDriver")]
    pub use crate::queue::rules::filter::ContenderFilter;
    pub use crate::queue::rules::filter::CustomFilter;
    pub use crate::queue::rules::node_name::Kind as ContenderKind;
    pub use crate::recipes::revoker::Revoker;
    pub use crate::recipes::shared::owner::Owner;
    #[doc(alias = "SharedCountListener")]
    pub use crate::recipes::shared_count::CountWatch;
    #[doc(alias = "SharedCountReader")]
    #[doc(alias = "VersionedValue")]
    pub use crate::recipes::shared_count::{SharedCount, VersionedCount};
    #[doc(alias = "ConnectionStateErrorPolicy")]
    pub use crate::session::lease::LossPolicy;
}
