//! TLS and mutual TLS.

use std::sync::Once;

use rustls::crypto::{CryptoProvider, ring};
use zookeeper_recipes::zookeeper_client::{Acls, Client, Connector, Error};
use zookeeper_recipes::{ErrorKind, Released};
use zookeeper_recipes_dev::{fails, within};
use zookeeper_testkit::{ClientTls, Cut, FaultProxy, TestServer};

use crate::support::holder::{Holder, PATIENCE, connector, options};

/// As a program does it that wants another one than ours. All tests of this binary are such a program.
pub(crate) fn choose_ring() {
    static CHOSEN: Once = Once::new();
    CHOSEN.call_once(|| ring::default_provider().install_default().unwrap());
}

async fn start(mutual: bool) -> (TestServer, ClientTls) {
    choose_ring();
    let builder = TestServer::builder();
    let builder = if mutual { builder.mutual_tls() } else { builder.tls() };
    let server = builder.start().await.unwrap();
    let tls = server.client_tls().unwrap().clone();
    (server, tls)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_over_tls_and_over_mutual_tls_by_the_provider_that_the_program_chose() {
    for mutual in [false, true] {
        let (server, tls) = start(mutual).await;
        assert!(server.connect_string().starts_with("tcp+tls://"));
        let builder = options().connector(connector(&tls, mutual));
        let mut holder = Holder::of(builder, server.connect_string()).await;
        assert!(server.four_letter_word("srvr").await.unwrap().contains("Mode: standalone"));
        holder.holds_in_the_next_session(&server).await;
        holder.guard.release().await.unwrap();
        within("the end", holder.curator.close()).await;
    }
    let chosen = format!("{:?}", CryptoProvider::get_default().unwrap().key_provider);
    assert_eq!(chosen, format!("{:?}", ring::default_provider().key_provider));
}

/// The server knows who has the certificate, also through a proxy, and ACLs can say so. A link that breaks is made again.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_opens_what_only_its_owner_may_use() {
    let (server, tls) = start(true).await;
    let proxy = FaultProxy::start(server.connect_string()).await.unwrap();
    let builder = options().connector(connector(&tls, true)).acls(Acls::creator_all());
    let holder = Holder::of(builder, proxy.connect_string()).await;
    let (acls, _) = holder.curator.client().unwrap().get_acl("/lock").await.unwrap();
    assert_eq!((acls[0].scheme(), acls[0].id()), ("x509", "CN=client"), "{acls:?}");
    let stranger = Client::connect(server.plain_connect_string()).await.unwrap();
    assert_eq!(stranger.list_children("/lock").await.unwrap_err(), Error::NoAuth);
    holder.holds_on_over(async { assert_eq!(proxy.cut(Cut::Reset), 1) }).await;
    assert_eq!(holder.guard.release().await.unwrap(), Released::Confirmed);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-all"] // six time-outs
async fn a_refused_handshake_is_an_error_that_names_tls() {
    let ((mutual, ours), (_other, others)) = (start(true).await, start(false).await);
    let secure = mutual.connect_string();
    let plain_as_tls = format!("tcp+tls://{}", mutual.plain_connect_string());
    let tls_as_plain = secure.trim_start_matches("tcp+tls://");
    let wrong_host = secure.replace("127.0.0.1", "127.0.0.2");
    let refused: [(&str, Connector, &str, &str); 6] = [
        ("the authority of another server", connector(&others, true), secure, "authority"),
        ("no client certificate", connector(&ours, false), secure, "client's certificate"),
        ("a port without TLS", connector(&ours, true), &plain_as_tls, "port without TLS"),
        ("a port with TLS", Client::connector(), tls_as_plain, "expect TLS (`tcp+tls://`)"),
        ("TLS but no scheme", connector(&ours, true), tls_as_plain, "asks for it nowhere"),
        ("a host that the certificate lacks", connector(&ours, true), &wrong_host, "host name"),
    ];
    for (what, connector, connect_string, hint) in refused {
        let builder = options().connector(connector).connection_timeout(PATIENCE);
        let connected = within(what, builder.connect(connect_string)).await;
        let error = fails(connected, ErrorKind::Unavailable);
        assert!(error.to_string().contains(hint), "{what}: {error}");
    }
}
