//! Needs a real ZooKeeper, and a process of its own: rustls has one crypto provider in a process, and both of them are
//! compiled into this one.
#![cfg(feature = "tls")]
#![allow(clippy::unwrap_used)] // a test fails by it

#[path = "../security/harness.rs"]
#[allow(dead_code)] // it serves more tests than this
mod harness;

use rustls::crypto::CryptoProvider;
use zookeeper_recipes::InterProcessMutex;
use zookeeper_testkit::TestServer;

use crate::harness::{connector, options, within};

/// `tests/security` shows the other half: what a program chose is left alone.
#[tokio::test(flavor = "multi_thread")]
async fn with_two_crypto_providers_and_none_chosen_one_is_chosen() {
    assert!(CryptoProvider::get_default().is_none());
    // What would happen otherwise, to each connection.
    let unchosen = std::panic::catch_unwind(rustls::ClientConfig::builder);
    assert!(unchosen.is_err(), "rustls chose one: there is only one, so this test shows nothing");
    let server = TestServer::builder().tls().start().await.unwrap();
    let builder = options().connector(connector(server.client_tls().unwrap(), false));
    let curator = within("a session", builder.connect(server.connect_string())).await.unwrap();
    let mutex = InterProcessMutex::new(&curator, "/lock").unwrap();
    within("the lock", mutex.acquire()).await.unwrap().release().await.unwrap();
    assert!(CryptoProvider::get_default().is_some());
    curator.close().await.unwrap();
}
