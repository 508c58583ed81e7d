//! The files of a TLS connection, and the reason why a handshake fails: the client itself reports only a timeout.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{
    CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName,
};
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::rustls::{
    AlertDescription, CertificateError, ClientConfig, Error, InconsistentKeys, RootCertStore,
};
use zookeeper_recipes::zookeeper_client::{TlsCa, TlsCerts, TlsIdentity};

use crate::diagnosis::{LIMIT, Reaction};
use crate::exit::Failure;
use crate::settings::Tls;

/// Returns the certificates for the client.
///
/// # Errors
///
/// Code 64 for a file that cannot be used, and for a key that does not fit the certificate.
pub(crate) fn certificates(tls: &Tls) -> Result<TlsCerts, Failure> {
    let Tls { authority, identity } = tls;
    let text = read(authority)?;
    if roots(&text).is_empty() {
        return Err(unusable(authority, &"there is no certificate of an authority in it (PEM)"));
    }
    let ca = TlsCa::from_pem(&text).map_err(|error| unusable(authority, &error))?;
    let mut builder = TlsCerts::builder().with_ca(ca);
    if let Some((certificate, key)) = identity {
        certified_key(certificate, key)?;
        let identity = TlsIdentity::from_pem(&read(certificate)?, &read(key)?);
        builder = builder.with_identity(identity.map_err(|error| unusable(certificate, &error))?);
    }
    builder.build().map_err(|error| unusable(authority, &error))
}

fn read(file: &Path) -> Result<String, Failure> {
    fs::read_to_string(file).map_err(|error| unusable(file, &error))
}

fn unusable(file: &Path, reason: &dyn fmt::Display) -> Failure {
    Failure::usage(format!("{} cannot be used for TLS: {reason}", file.display()))
}

/// Reads the client's certificate and its key. The client itself finds out that they do not fit only when it connects.
fn certified_key(certificate: &Path, key: &Path) -> Result<CertifiedKey, Failure> {
    let text = read(certificate)?;
    let chain = CertificateDer::pem_slice_iter(text.as_bytes()).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|error| unusable(certificate, &error))?;
    if chain.is_empty() {
        return Err(unusable(certificate, &"there is no certificate in it (PEM)"));
    }
    let secret = PrivateKeyDer::from_pem_slice(read(key)?.as_bytes());
    let secret = secret.map_err(|_| unusable(key, &"there is no private key in it (PEM)"))?;
    CertifiedKey::from_der(chain, secret, &default_provider()).map_err(|error| match error {
        Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => Failure::usage(format!(
            "the key in {} (--tls-key) does not fit the certificate in {} (--tls-cert)",
            key.display(),
            certificate.display()
        )),
        error => unusable(key, &format!("with {}: {error}", certificate.display())),
    })
}

/// Tries a TLS handshake as the client does it. The error describes what the server does instead; each step may take
/// `limit`.
pub(crate) async fn handshake(
    stream: TcpStream,
    host: &str,
    tls: &Tls,
    limit: Duration,
) -> Result<(), Reaction> {
    let name = ServerName::try_from(host.to_owned());
    let name = name.map_err(|_| Reaction::refusal("has a name that no certificate can have"))?;
    let config = config(tls).map_err(|failure| format!("is not asked: {failure}"))?;
    let connector = TlsConnector::from(Arc::new(config));
    let mut stream = match timeout(limit, connector.connect(name, stream)).await {
        Err(_) => return Err("accepts connections, but is silent in a TLS handshake".into()),
        Ok(connected) => connected.map_err(|error| cause(&error, tls))?,
    };
    // With TLS 1.3 the server checks the client's certificate only now. Any answer shows that it is done with that.
    let asked = async {
        stream.write_all(b"srvr").await?;
        stream.read(&mut [0; 64]).await
    };
    match timeout(limit, asked).await {
        Ok(Err(error)) => Err(cause(&error, tls)),
        Ok(Ok(_)) | Err(_) => Ok(()),
    }
}

/// Returns a configuration that decides as the client's.
fn config(tls: &Tls) -> Result<ClientConfig, Failure> {
    let Tls { authority, identity } = tls;
    let provider = Arc::new(default_provider());
    let unusable = |error: &dyn fmt::Display| unusable(authority, error);
    let text = read(authority)?;
    let revoked = CertificateRevocationListDer::pem_slice_iter(text.as_bytes());
    let roots = Arc::new(roots(&text));
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider));
    let verifier = verifier.with_crls(revoked.flatten()).build();
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| unusable(&error))?;
    let builder = builder.with_webpki_verifier(verifier.map_err(|error| unusable(&error))?);
    Ok(match identity {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let key = certified_key(certificate, key)?;
            builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(key)))
        }
    })
}

fn roots(text: &str) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_slice_iter(text.as_bytes()).flatten();
    roots.add_parsable_certificates(certificates);
    roots
}

/// Describes why the handshake failed.
fn cause(error: &io::Error, tls: &Tls) -> Reaction {
    let ca = tls.authority.display();
    let does = match error.get_ref().and_then(|error| error.downcast_ref::<Error>()) {
        Some(Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            format!("has a certificate of an unknown issuer: {ca} (--tls-ca) does not have it")
        }
        Some(Error::InvalidCertificate(error)) => {
            format!("has a certificate that cannot be trusted: {error}")
        }
        Some(Error::AlertReceived(alert)) => refusal(*alert, tls),
        Some(Error::InvalidMessage(_)) => "is not a TLS port: it answers without TLS".to_owned(),
        Some(error) => format!("fails the TLS handshake: {error}"),
        None if error.kind() == io::ErrorKind::UnexpectedEof => {
            return format!("is not a TLS port, or {LIMIT}: it closes the connection").into();
        }
        None => return format!("ends the TLS handshake: {error}").into(),
    };
    Reaction::refusal(does)
}

/// Describes why the server refuses the client.
fn refusal(alert: AlertDescription, tls: &Tls) -> String {
    use AlertDescription::{BadCertificate, CertificateRequired, HandshakeFailure};
    let Some((certificate, _)) = &tls.identity else {
        return match alert {
            BadCertificate | CertificateRequired | HandshakeFailure => {
                "asks for a client certificate: give one by --tls-cert and --tls-key".to_owned()
            }
            alert => format!("refuses the TLS handshake: alert {alert:?}"),
        };
    };
    let certificate = certificate.display();
    format!("refuses the certificate in {certificate} (--tls-cert): alert {alert:?}")
}
