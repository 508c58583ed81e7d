//! TLS and SASL of a test server: the files that it reads, the lines and flags that name them, and the client's
//! certificates.

use std::fmt;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

use super::TestkitError;
use super::options::{Hidden, ServerOptions, Tls};
use super::port::Port;

const SERVER_STORE: &str = "server.pem";
const TRUST_STORE: &str = "ca.pem";
const LOGINS: &str = "jaas.conf";

/// The certificates and the key that a client needs for the TLS of a [`TestServer`](super::TestServer), as PEM text.
/// Every server has its own.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use zookeeper_testkit::TestServer;
/// use zookeeper_client::{Client, TlsCa, TlsCerts, TlsIdentity, TlsOptions};
///
/// let server = TestServer::builder().mutual_tls().start().await?;
/// let tls = server.client_tls().ok_or("started with TLS")?;
/// let certificates = TlsCerts::builder()
///     .with_ca(TlsCa::from_pem(&tls.ca)?)
///     .with_identity(TlsIdentity::from_pem(&tls.certificate, &tls.key)?)
///     .build()?;
/// let connector = Client::connector().with_tls(TlsOptions::new().with_certs(certificates));
/// let client = connector.connect(server.connect_string()).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct ClientTls {
    /// The certificate authority that signed the server's certificate.
    pub ca: String,
    /// The client's certificate, for a server that asks for one. The certificate's name is `CN=client`.
    pub certificate: String,
    /// The private key of the client's certificate.
    pub key: String,
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTls").finish_non_exhaustive()
    }
}

/// The TLS port of a server, and the server's certificate.
#[derive(Debug)]
pub(super) struct SecureSeat {
    pub(super) port: Port,
    /// The server's certificate and private key.
    store: Hidden,
    tls: Tls,
    ca: String,
}

impl SecureSeat {
    pub(super) fn reserve(tls: Tls) -> Result<(Self, ClientTls), TestkitError> {
        let port = Port::reserve()?;
        let made = certificates().map_err(TestkitError::cannot("make certificates"));
        let (server, client) = made?;
        let seat = Self { port, store: Hidden(server), tls, ca: client.ca.clone() };
        Ok((seat, client))
    }

    pub(super) fn connect_string(&self) -> String {
        format!("tcp+tls://{}", self.port.address())
    }
}

/// Creates the server's certificate with its key, and the client's.
fn certificates() -> Result<(String, ClientTls), rcgen::Error> {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    authority.distinguished_name.push(DnType::CommonName, "zookeeper-recipes testkit");
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
    let signed = |name: &str, hosts: &[&str], usage| {
        let hosts: Vec<_> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let mut params = CertificateParams::new(hosts)?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &authority)?;
        Ok::<_, rcgen::Error>((certificate.pem(), key.serialize_pem()))
    };
    let hosts = ["localhost", "127.0.0.1"];
    let (server, server_key) = signed("server", &hosts, ExtendedKeyUsagePurpose::ServerAuth)?;
    let (certificate, key) = signed("client", &[], ExtendedKeyUsagePurpose::ClientAuth)?;
    Ok((server + &server_key, ClientTls { ca: authority.pem(), certificate, key }))
}

/// Returns the names and texts of the files that the server reads.
pub(super) fn files(
    options: &ServerOptions,
    seat: Option<&SecureSeat>,
) -> Vec<(&'static str, String)> {
    let mut files = Vec::new();
    if let Some(seat) = seat {
        files.push((SERVER_STORE, seat.store.0.clone()));
        files.push((TRUST_STORE, seat.ca.clone()));
    }
    if !options.sasl_users.is_empty() {
        let user =
            |(name, password): &(String, Hidden)| format!("\n  user_{name}=\"{}\"", password.0);
        let users: String = options.sasl_users.iter().map(user).collect();
        let module = "org.apache.zookeeper.server.auth.DigestLoginModule";
        files.push((LOGINS, format!("Server {{\n  {module} required{users};\n}};\n")));
    }
    files
}

/// Returns the lines of `zoo.cfg` for a server that finds its files in `folder` and has its TLS at `address` and
/// `port`.
pub(super) fn lines(
    options: &ServerOptions,
    seat: Option<&SecureSeat>,
    folder: &str,
    address: &str,
    port: u16,
) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(seat) = seat {
        let client_auth = if seat.tls == Tls::Mutual { "need" } else { "none" };
        lines.extend([
            "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory".to_owned(),
            format!("secureClientPortAddress={address}"),
            format!("secureClientPort={port}"),
            format!("ssl.keyStore.location={folder}/{SERVER_STORE}"),
            "ssl.keyStore.type=PEM".to_owned(),
            format!("ssl.trustStore.location={folder}/{TRUST_STORE}"),
            "ssl.trustStore.type=PEM".to_owned(),
            format!("ssl.clientAuth={client_auth}"),
        ]);
    }
    if !options.sasl_users.is_empty() {
        let provider = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider";
        lines.push(format!("authProvider.1={provider}"));
    }
    lines
}

/// Returns the flag for Java if there are SASL users, for a server that finds its files in `folder`.
pub(super) fn jvm_flag(options: &ServerOptions, folder: &str) -> Option<String> {
    let has_users = !options.sasl_users.is_empty();
    has_users.then(|| format!("-Djava.security.auth.login.config={folder}/{LOGINS}"))
}
