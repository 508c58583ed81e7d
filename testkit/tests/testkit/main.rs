//! Needs Java and ZooKeeper; the ignored tests of `container` need a Docker daemon with the image.
#![allow(clippy::disallowed_methods)] // a test owns the tasks and threads that it starts
#![allow(clippy::unwrap_used, clippy::future_not_send)] // a test fails by it, and need not be sent

mod cleanup;
#[cfg(feature = "testcontainers")]
mod container;
mod ensemble;
mod lifecycle;
mod proxy;
mod proxy_messages;
mod selection;
mod sessions;
mod support;
