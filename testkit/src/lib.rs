//! A real ZooKeeper for tests: a server, an ensemble, and a proxy that breaks links on demand.
//!
//! The guide has whole tests, CI and pitfalls: [testing your code](https://github.com/zookeeper-recipes/zookeeper-recipes/blob/main/docs/guide/testing-your-code.md).
//!
//! [`TestServer::start`] starts a server on the first of these backends that works:
//!
//! 1. an existing server or ensemble, named by `ZOOKEEPER_CONNECT`;
//! 2. a Docker container of the image `ZOOKEEPER_IMAGE` (default: the official one), with the feature `testcontainers`;
//! 3. a local process, from `ZOOKEEPER_HOME` or from the distribution's package, with `java` from `JAVA_HOME` or `PATH`.
//!
//! `ZOOKEEPER_BACKEND=external|docker|process` forces one of them, and [`TestServerBuilder::backend`] does so in
//! code.
//!
//! # An ensemble
//!
//! [`TestEnsemble::start`] starts a quorum of containers or of local processes. A test can end its members, freeze
//! them, cut them off from each other while clients still reach them, or the other way round. The proxies in between
//! run on the runtime that started the ensemble, so a test that blocks the runtime's only thread blocks the proxies.
//! Containers of an ensemble share the host's network, which requires Linux and a daemon that is not rootless.
//!
//! # What a server leaves behind
//!
//! A server leaves nothing behind. [`TestServer::close`] and [`TestEnsemble::close`] remove everything and report
//! errors. Dropping does the same, also while unwinding and outside a runtime, but only logs a failure.
//! If the process ends in any other way (Ctrl-C, `SIGKILL`, `process::exit`), its running servers end with it: a
//! shell that waits at the other end of a pipe kills a local server and removes its data, or removes a container with
//! the command `docker`. The crate handles no signals. The data of a stopped server, and a container without that
//! command, carry their owner's identity. The next process that starts a server removes them.
//!
//! # What is different from production
//!
//! Servers listen on 127.0.0.1 only, do not wait for the disk (`forceSync=no`), and grant session timeouts from 400 ms
//! to one minute. A crash of the *machine* may lose data, but a crash of the server does not.

#[cfg(not(unix))]
compile_error!("zookeeper-testkit needs a Unix: it kills and pauses servers by signals");

mod backend;
#[cfg(feature = "testcontainers")]
mod container;
mod distribution;
#[cfg(feature = "testcontainers")]
mod docker;
mod ensemble;
mod error;
mod four_letter;
#[cfg(feature = "testcontainers")]
mod image;
mod links;
mod machine;
mod member;
mod options;
mod owner;
mod port;
mod process;
mod proxy;
mod scratch;
mod seat;
mod security;
mod server;
mod session;
mod wrapper;

pub use backend::Backend;
pub use ensemble::{TestEnsemble, TestEnsembleBuilder};
pub use error::TestkitError;
#[cfg(feature = "testcontainers")]
pub use image::ZooKeeper;
pub use links::Partition;
pub use member::{Member, Role};
pub use proxy::{Cut, Direction, Fault, FaultProxy, Message, Operation};
pub use security::ClientTls;
pub use server::{TestServer, TestServerBuilder};
pub use session::kill_session;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Returns a path directly below the root that no other test uses: `/PREFIX-UUID`.
///
/// ```
/// let path = zookeeper_testkit::random_path("mutex");
/// assert!(path.starts_with("/mutex-"));
/// assert_ne!(path, zookeeper_testkit::random_path("mutex"));
/// ```
#[must_use]
pub fn random_path(prefix: &str) -> String {
    format!("/{prefix}-{}", uuid::Uuid::new_v4().simple())
}
