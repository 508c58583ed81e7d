//! No password is ever told: not by the log at any level, the client's included, nor by `Debug`, nor by an error and its
//! causes. The one subscriber of the process hears the other tests, too, which have other passwords.

use std::error::Error;
use std::fmt::Debug;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::FmtSpan;
use zookeeper_recipes::session::RetryPolicy;
use zookeeper_recipes::zookeeper_client::{Acls, Client, Connector, SaslOptions};
use zookeeper_recipes::{Curator, CuratorBuilder};
use zookeeper_recipes_dev::within;
use zookeeper_testkit::{self as testkit, TestServer};

use crate::support::holder::{Holder, connector, options};
use crate::tls::choose_ring;

const DIGEST: &str = "Q7dIgEsTq7";
const SASL: &str = "Z9sAsLz9z9";
const WRONG_SASL: &str = "W4wRoNgw4w";

/// All that is told, whoever tells it.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<u8>>>);

impl Write for Told {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Told {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Told {
    fn add(&self, thing: &impl Debug) {
        writeln!(self.0.lock().unwrap(), "{thing:?} {thing:#?}").unwrap();
    }

    fn add_error(&self, error: &(impl Error + 'static)) {
        self.add(error);
        let mut cause: Option<&dyn Error> = Some(error);
        while let Some(error) = cause {
            writeln!(self.0.lock().unwrap(), "{error} {error:?}").unwrap();
            cause = error.source();
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

/// As text, and as the list of numbers by which `Debug` shows bytes, on one line or on many.
fn tells(text: &str, secret: &[u8]) -> bool {
    let secret_text = String::from_utf8_lossy(secret);
    let numbers = secret.iter().map(u8::to_string).collect::<Vec<_>>().join(",");
    let closed_up: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    text.contains(&*secret_text) || closed_up.contains(&numbers)
}

fn sasl(password: &'static str) -> Connector {
    Client::connector().with_sasl(SaslOptions::digest_md5("ours", password))
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_told() {
    choose_ring();
    let told = Told::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_span_events(FmtSpan::FULL)
        .with_ansi(false)
        .with_writer(told.clone());
    subscriber.init();
    let server = TestServer::builder().mutual_tls().sasl_user("ours", SASL).start().await.unwrap();
    let tls = server.client_tls().unwrap().clone();
    told.add(&server);
    let secure = || connector(&tls, true).with_sasl(SaslOptions::digest_md5("ours", SASL));
    let with_digest = |builder: CuratorBuilder| {
        builder.auth("digest", format!("ours:{DIGEST}").as_bytes()).acls(Acls::creator_all())
    };

    // All credentials at once, by all ways to use a lock, over a session that is killed and one that is closed.
    let builder = with_digest(options()).connector(secure());
    told.add(&builder);
    let Holder { curator, mutex, guard } = Holder::of(builder, server.connect_string()).await;
    told.add(&curator);
    told.add(&(&mutex, &guard, mutex.participants().await.unwrap()));
    told.add_error(&curator.with_acls(Acls::new(&[])).mutex("/lock").unwrap_err());
    let session = curator.client().unwrap().session().clone();
    told.add(&session);
    testkit::kill_session(server.plain_connect_string(), &session).await.unwrap();
    within("the loss", guard.lost()).await;
    told.add_error(&guard.release().await.unwrap_err());
    drop(within("the next lock", mutex.acquire()).await.unwrap());

    // Refusals.
    let hasty = || options().connection_timeout(Duration::from_secs(2));
    let port = server.plain_connect_string();
    let refusals: Vec<(CuratorBuilder, &str)> = vec![
        // It ends with the server's answer, however late that comes.
        (options().connector(sasl(WRONG_SASL)), port),
        (with_digest(hasty()).connector(sasl(SASL)), "127.0.0.1:1"),
        (with_digest(hasty()).auth("nosuchscheme", DIGEST.as_bytes()), port),
        (with_digest(hasty()).auth("", DIGEST.as_bytes()), port),
        (with_digest(hasty()).connector(connector(&tls, false)), server.connect_string()),
        (with_digest(hasty()).connector(sasl(SASL).with_readonly(true)), port),
        (with_digest(hasty()).connector(sasl(SASL).with_detached()), port),
        (with_digest(hasty()).connector(sasl(SASL)), "tcp+tls://127.0.0.1:1"),
        (with_digest(hasty()).connector(sasl(SASL)).namespace("bad"), port),
    ];
    for (builder, connect_string) in refusals {
        told.add(&builder);
        let error = within("a refusal", builder.connect(connect_string)).await.unwrap_err();
        told.add_error(&error);
    }
    let stranger = Curator::builder().retry(RetryPolicy::never()).connect(port).await.unwrap();
    let theirs = stranger.mutex("/lock").unwrap();
    told.add_error(&within("a refusal", theirs.acquire()).await.unwrap_err());
    within("the end", curator.close()).await;
    told.add_error(&mutex.acquire().await.unwrap_err());

    let text = told.text();
    for heard in
        ["zookeeper_client::session", "TRACE", "zookeeper_recipes::session", "AuthenticationFailed"]
    {
        assert!(text.contains(heard), "the test heard nothing of {heard}");
    }
    let key = tls.key.lines().nth(1).unwrap();
    for secret in [DIGEST, SASL, WRONG_SASL, key] {
        if tells(&text, secret.as_bytes()) {
            let line = text.lines().find(|line| line.contains(secret)).unwrap_or("(as numbers)");
            panic!("{secret} is told: {}", line.chars().take(2_000).collect::<String>());
        }
    }
    // The test can fail; and this is what programs must not do themselves: the client's own `Debug` tells.
    assert!(tells(&format!("{:?}", sasl(SASL)), SASL.as_bytes()));
    assert!(tells(&format!("{:#?}", DIGEST.as_bytes()), DIGEST.as_bytes()));
}
