//! SASL DIGEST-MD5.

use std::time::{Duration, Instant};

use zookeeper_recipes::zookeeper_client::{Acls, Client, Connector, SaslOptions};
use zookeeper_recipes::{ErrorKind, Released};
use zookeeper_recipes_dev::{fails, is_before, within};
use zookeeper_testkit::TestServer;

use crate::support::holder::{Holder, options};

/// Nobody may wait so long for a refusal.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(40);

fn connector(password: &'static str) -> Connector {
    Client::connector().with_sasl(SaslOptions::digest_md5("ours", password))
}

async fn start() -> TestServer {
    TestServer::builder().sasl_user("ours", "right").start().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_right_credential_opens_what_only_its_owner_may_use() {
    let server = start().await;
    // Longer than a container takes to stop and start.
    let builder = options().session_timeout(Duration::from_secs(60)).acls(Acls::creator_all());
    let builder = builder.connector(connector("right"));
    let mut holder = Holder::of(builder, server.connect_string()).await;
    for path in ["/lock", holder.guard.node()] {
        let (acls, _) = holder.curator.client().unwrap().get_acl(path).await.unwrap();
        assert_eq!((acls[0].scheme(), acls[0].id()), ("sasl", "ours"), "{path}: {acls:?}");
    }
    let stranger = options().connect(server.connect_string()).await.unwrap();
    let theirs = stranger.mutex("/lock").unwrap();
    let error = fails(within("the refusal", theirs.acquire()).await, ErrorKind::PermissionDenied);
    assert!(error.to_string().contains("create"), "{error}");
    // A reconnection is authenticated again, before anything else is asked over it.
    holder.holds_on_over(async { server.restart().await.unwrap() }).await;
    holder.holds_in_the_next_session(&server).await;
    assert_eq!(holder.guard.release().await.unwrap(), Released::Confirmed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_credential_is_refused_at_once() {
    let server = start().await;
    for (what, wrong) in [
        ("password", connector("wrong")),
        ("user", Client::connector().with_sasl(SaslOptions::digest_md5("nobody", "other"))),
    ] {
        let builder = options().connector(wrong).connection_timeout(CONNECTION_TIMEOUT);
        let began = Instant::now();
        let connected = within(what, builder.connect(server.connect_string())).await;
        let error = fails(connected, ErrorKind::AuthenticationFailed);
        assert!(error.to_string().contains(server.connect_string()), "wrong {what}: {error}");
        assert!(began.elapsed() < CONNECTION_TIMEOUT / 2, "after {:?}", began.elapsed());
    }
}

/// An older server keeps the name that it looked up last.
#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_user_with_the_password_of_the_last_one_is_accepted_before_3_9() {
    let server = start().await;
    let ours = options().connector(connector("right")).connect(server.connect_string());
    drop(within("a session", ours).await.unwrap());
    let unknown = Client::connector().with_sasl(SaslOptions::digest_md5("nobody", "right"));
    let builder = options().acls(Acls::creator_all()).connector(unknown);
    let connected = within("an answer", builder.connect(server.connect_string())).await;
    if !is_before(&server.four_letter_word("srvr").await.unwrap(), [3, 9]) {
        fails(connected, ErrorKind::AuthenticationFailed);
        return;
    }
    let curator = connected.unwrap();
    let guard = curator.mutex("/lock").unwrap().acquire().await.unwrap();
    let (acls, _) = curator.client().unwrap().get_acl(guard.node()).await.unwrap();
    assert_eq!((acls[0].scheme(), acls[0].id()), ("sasl", "nobody"), "{acls:?}");
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_requires_sasl_refuses_who_has_none() {
    let server = TestServer::builder()
        .sasl_user("ours", "right")
        .jvm_flag("-Dzookeeper.sessionRequireClientSASLAuth=true")
        .start()
        .await
        .unwrap();
    let builder = options().connection_timeout(CONNECTION_TIMEOUT);
    let connected = within("the refusal", builder.connect(server.connect_string())).await;
    fails(connected, ErrorKind::AuthenticationFailed);
    let builder = options().connector(connector("right"));
    drop(within("a session", builder.connect(server.connect_string())).await.unwrap());
}
