//! What the tests share.

use std::future::Future;
use std::time::Duration;

use zookeeper_recipes::zookeeper_client::{
    Client, Connector, TlsCa, TlsCerts, TlsIdentity, TlsOptions,
};
use zookeeper_recipes::{Curator, CuratorBuilder, RetryPolicy};
use zookeeper_testkit::ClientTls;

/// Longer than anything takes on a busy machine; a test that waits so long has failed.
const LONG: Duration = Duration::from_secs(60);

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

/// Awaits `future`, which must not take for ever.
pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, future).await.unwrap_or_else(|_| panic!("hung: {what}"))
}
