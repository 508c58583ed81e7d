//! Two crypto providers and none chosen: rustls has one in a process, so the test runs in a process of its own.

use std::process::Command;

use rustls::crypto::CryptoProvider;
use zookeeper_testkit::TestServer;

use crate::support::holder::{Holder, connector, options};

/// Set in the process of its own.
const ALONE: &str = "SECURITY_ALONE";

/// The other half is in `tls::a_lock_over_tls_and_over_mutual_tls_by_the_provider_that_the_program_chose`.
#[tokio::test(flavor = "multi_thread")]
async fn with_two_crypto_providers_and_none_chosen_one_is_chosen() {
    if std::env::var_os(ALONE).is_none() {
        let test = "providers::with_two_crypto_providers_and_none_chosen_one_is_chosen";
        let mut alone = Command::new(std::env::current_exe().unwrap());
        let output = alone.args(["--exact", test]).env(ALONE, "1").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    assert!(CryptoProvider::get_default().is_none());
    // What would happen otherwise, to each connection.
    let unchosen = std::panic::catch_unwind(rustls::ClientConfig::builder);
    assert!(unchosen.is_err(), "rustls chose one: there is only one, so this test shows nothing");
    let server = TestServer::builder().tls().start().await.unwrap();
    let builder = options().connector(connector(server.client_tls().unwrap(), false));
    let holder = Holder::of(builder, server.connect_string()).await;
    assert!(CryptoProvider::get_default().is_some());
    holder.guard.release().await.unwrap();
    holder.curator.close().await;
}
