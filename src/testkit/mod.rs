//! A real ZooKeeper for tests.
