//! A ZooKeeper in memory and in virtual time, for tests (feature `simulation`).
//!
//! An [`Ensemble`] consists of one or more servers, the links to them, and the processes that use them. The code under
//! test connects by [`connect_string`](Ensemble::connect_string) and needs no change. Time is tokio's paused clock: a
//! minute passes as soon as no task has work left. One seed decides how long messages take and which task runs next, so
//! a failed test fails again.
//!
//! One seed gives the same run as long as the code under test draws nothing at random by itself. A `tokio::select!` needs `biased;`,
//! because tokio draws the order of the branches, and not from the seed. The order of a `HashMap` must not matter either. A task that
//! the code starts must belong to a [`Process`], by [`Process::spawn`] or [`in_this_process`]: only such tasks run in the order of the
//! seed, and are paused and killed.
//!
//! An ensemble belongs to one thread: use `#[tokio::test(start_paused = true)]`. A multi-threaded runtime is refused.
//! Real sockets do not work in such a test, because the virtual clock runs ahead while a task waits for one.
//!
//! # A leader's failover, as a test
//!
//! ```
//! use std::time::Duration;
//!
//! use tokio::time::Instant;
//! use zookeeper_recipes::simulation::Ensemble;
//! use zookeeper_recipes::Curator;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
//! # runtime.block_on(async {
//! let ensemble = Ensemble::start(1);
//!
//! /// The code under test: leads until its process ends.
//! async fn serve(servers: String) {
//!     let curator = Curator::connect(&servers).await.expect("a session");
//!     let latch = curator.leader_latch("/leader").expect("a path");
//!     let term = latch.leadership().await.expect("a term");
//!     term.lost().await;
//! }
//!
//! let (first, second) = (ensemble.process(), ensemble.process());
//! first.spawn(serve(ensemble.connect_string().to_owned()));
//! ensemble.until(|ensemble| ensemble.children("/leader").len() == 1).await;
//! second.spawn(serve(ensemble.connect_string().to_owned()));
//! ensemble.until(|ensemble| ensemble.children("/leader").len() == 2).await;
//!
//! first.kill();
//! let killed = Instant::now();
//! ensemble.until(|ensemble| ensemble.children("/leader").len() == 1).await;
//! assert!(killed.elapsed() <= Duration::from_secs(20), "the session timeout, and a tick");
//! # });
//! # Ok(())
//! # }
//! ```

mod admin;
mod client;
mod client_steps;
mod client_watches;
mod connections;
mod delivery;
mod drawing;
mod election;
mod ensemble;
mod event_queue;
mod fault;
mod link;
mod log_observer;
mod network;
mod op;
mod picture;
mod process;
mod process_state;
mod quorum;
mod recording;
mod replica;
mod scheduler;
mod server;
mod serving;
mod session_tracker;
mod sim_client;
mod state;
mod trace;
mod tree;
mod version;
mod world;

pub use self::admin::Admin;
pub(crate) use self::client::{Client, Target};
pub(crate) use self::client_watches::Watch;
pub use self::ensemble::{Ensemble, EnsembleBuilder, Partition};
pub use self::fault::{Cut, Direction, Message};
pub use self::link::{Fault, Link};
#[doc(hidden)]
pub use self::log_observer::{Logged, LoggedEntry};
pub use self::op::Operation;
pub(crate) use self::op::{Answer, Happened, Op, Refused};
pub use self::picture::Picture;
pub(crate) use self::process::scheduled;
pub use self::process::{Process, in_this_process};
pub(crate) use self::recording::{RecordedHold, ReportedHold, ReportedTerm, ReportedWait};
pub use self::version::Version;
pub(crate) use self::world::{guid, now, seed};
