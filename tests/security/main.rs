//! Needs a real ZooKeeper: the testkit starts ones with TLS and SASL.
#![cfg(all(feature = "tls", feature = "sasl", feature = "simulation"))]
#![allow(clippy::disallowed_methods)] // a test owns the tasks that it starts
#![allow(clippy::unwrap_used, clippy::future_not_send)] // a test fails by it, and need not be sent

mod digest;
mod providers;
mod sasl;
mod secrets;
mod support;
mod tls;
