//! ZooKeeper lock and leader-election recipes for async Rust, on the same znodes as Apache Curator.

#[cfg(feature = "testkit")]
pub mod testkit;
pub use zookeeper_client;
