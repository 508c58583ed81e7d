//! The lock of these tests, and the credentials of its holder.

use std::future::Future;
use std::time::Duration;

use zookeeper_recipes::session::{ConnectionState, RetryPolicy};
use zookeeper_recipes::zookeeper_client::{
    Client, Connector, TlsCa, TlsCerts, TlsIdentity, TlsOptions,
};
use zookeeper_recipes::{Curator, CuratorBuilder, Guard, InterProcessMutex, Loss};
use zookeeper_recipes_dev::within;
use zookeeper_testkit::{self as testkit, ClientTls, TestServer};

/// What servers are given to refuse us. A session would take longer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) fn options() -> CuratorBuilder {
    Curator::builder()
        .session_timeout(Duration::from_secs(30))
        .retry(RetryPolicy::n_times(100, Duration::from_millis(100)))
}

/// With the server's authority, and with the client's certificate if it is `mutual`.
pub(crate) fn connector(tls: &ClientTls, mutual: bool) -> Connector {
    let mut certificates = TlsCerts::builder().with_ca(TlsCa::from_pem(&tls.ca).unwrap());
    if mutual {
        let identity = TlsIdentity::from_pem(&tls.certificate, &tls.key).unwrap();
        certificates = certificates.with_identity(identity);
    }
    let options = TlsOptions::new().with_certs(certificates.build().unwrap());
    Client::connector().with_tls(options)
}

/// The lock of these tests, held in a session of these options.
pub(crate) struct Holder {
    pub(crate) curator: Curator,
    pub(crate) mutex: InterProcessMutex,
    pub(crate) guard: Guard,
}

impl Holder {
    pub(crate) async fn of(builder: CuratorBuilder, servers: &str) -> Self {
        let curator = within("a session", builder.connect(servers)).await.unwrap();
        let mutex = curator.mutex("/lock").unwrap();
        let guard = within("the lock", mutex.acquire()).await.unwrap();
        Self { curator, mutex, guard }
    }

    /// Its session is killed, and the next one has the same credentials.
    pub(crate) async fn holds_in_the_next_session(&mut self, server: &TestServer) {
        let session = self.curator.client().unwrap().session().clone();
        testkit::kill_session(server.plain_connect_string(), &session).await.unwrap();
        assert_eq!(within("the loss", self.guard.lost()).await, Loss::SessionExpired);
        self.guard = within("the next lock", self.mutex.acquire()).await.unwrap();
    }

    /// The link breaks, and is made again in the same session.
    pub(crate) async fn holds_on_over(&self, breaking: impl Future<Output = ()>) {
        let mut state = self.curator.watch_state();
        breaking.await;
        let reconnected = state.wait_for(|state| *state == ConnectionState::Reconnected);
        drop(within("reconnected", reconnected).await.unwrap());
        assert!(self.guard.is_held());
    }
}
