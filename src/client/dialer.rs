//! [`Dialer`]: opens sessions.

use std::io;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use tokio::net::lookup_host;
use tokio::time::timeout;
use zookeeper_client::{self as zk, Connector};

use super::client::Client;
use super::connect_string::{ConnectString, Server, invalid};
use super::failure::ClientError;
use super::reconnecting::Reconnecting;
use crate::error::Error;
use crate::lock_path::LockPath;
#[cfg(feature = "simulation")]
use crate::simulation;

/// Opens sessions, each a new one.
pub(crate) struct Dialer {
    target: Target,
    /// The user's text, for people.
    pub(crate) connect_string: String,
    chroot: LockPath,
    namespace: LockPath,
    /// Possible reasons why no server opens a session: the client reports only that the time is over.
    hint: String,
}

/// The servers, and how to connect to them. There is one target for each `Curator`.
#[cfg_attr(feature = "simulation", allow(clippy::large_enum_variant))]
enum Target {
    /// The second is the connect string that the client takes, with copies of each server.
    Real(Connector, String),
    #[cfg(feature = "simulation")]
    Simulated(simulation::Target),
}

/// The longest time to resolve the servers' names for the text of an error.
const LONGEST_LOOKUP: Duration = Duration::from_secs(1);

impl Dialer {
    /// `connector` has all options except those of the session.
    pub(crate) fn new(
        connector: Connector,
        session_timeout: Duration,
        connect_string: &str,
        namespace: LockPath,
    ) -> Result<Self, Error> {
        let options = ConnectorOptions::of(&connector)?;
        #[cfg(feature = "simulation")]
        if connect_string.starts_with("sim:") {
            return Self::simulated(session_timeout, connect_string, namespace);
        }
        // The client reads its connect string only when it connects.
        let parsed = ConnectString::parse(connect_string)?;
        let asks_for_tls = parsed.servers.iter().any(Server::has_tls);
        let tls_hint = match (asks_for_tls, options.has_tls) {
            (true, true) => {
                "the TLS handshake fails: for the certificate authority, the host name, the client's \
                 certificate, or a port without TLS"
            }
            (true, false) => {
                let reason = "the connect string asks for TLS; give it by `Connector::with_tls` (feature `tls`)";
                return Err(Error::invalid("connector", "without TLS", reason));
            }
            (false, true) => {
                "expect TLS: it is configured, but the connect string asks for it nowhere by `tcp+tls://`"
            }
            (false, false) => "expect TLS (`tcp+tls://`)",
        };
        let hint = format!(
            "they are out of reach, without a quorum or read-only, have all the connections that they allow \
             from one address (`maxClientCnxns`, 60 by default), or {tls_hint}"
        );
        #[cfg(feature = "tls")]
        if options.has_tls {
            refuse_names_that_no_certificate_has(connect_string, &parsed)?;
            choose_crypto_provider();
        }
        let has_own_silence = options.has_connection_timeout;
        let servers = parsed.servers.len();
        let plan = Reconnecting::plan(servers, session_timeout, has_own_silence);
        let connector = match has_own_silence {
            true => connector,
            false => connector.with_connection_timeout(plan.silence),
        };
        let connector = connector.with_session_timeout(session_timeout).with_readonly(false);
        let parsed = parsed.with_copies(plan.copies);
        Ok(Self {
            target: Target::Real(connector, parsed.to_string()),
            connect_string: connect_string.to_owned(),
            chroot: parsed.chroot,
            namespace,
            hint,
        })
    }

    /// Gives the credentials to simulated servers, which cannot read them from the connector.
    #[cfg(feature = "simulation")]
    pub(crate) fn with_auths(mut self, auths: Vec<(String, Vec<u8>)>) -> Self {
        if let Target::Simulated(target) = &mut self.target {
            target.show(auths);
        }
        self
    }

    /// Opens sessions with simulated servers: `sim:W.L`, and perhaps a chroot.
    #[cfg(feature = "simulation")]
    fn simulated(
        session_timeout: Duration,
        connect_string: &str,
        namespace: LockPath,
    ) -> Result<Self, Error> {
        let invalid = |reason: String| invalid(connect_string, reason);
        let place = connect_string.find('/').unwrap_or(connect_string.len());
        let (servers, path) = connect_string.split_at(place);
        let chroot = match path {
            "" => LockPath::root(),
            path => LockPath::parse("chroot", path).map_err(|error| invalid(error.to_string()))?,
        };
        let target = simulation::Target::parse(servers, session_timeout)
            .map_err(|reason| invalid(reason.to_owned()))?;
        Ok(Self {
            target: Target::Simulated(target),
            connect_string: connect_string.to_owned(),
            chroot,
            namespace,
            hint: "they are out of reach, or without a quorum".to_owned(),
        })
    }

    /// Returns the possible reasons why no server opens a session, after a look whether the servers' names can be resolved.
    pub(crate) async fn reasons(&self) -> String {
        if let Target::Real(..) = &self.target
            && let Ok(parsed) = ConnectString::parse(&self.connect_string)
            // A lookup panics if it finds no thread.
            && start_threads().is_ok()
            && let Ok(Some(error)) = timeout(LONGEST_LOOKUP, unresolved(&parsed.servers)).await
        {
            return format!("no server's name can be resolved: {error}");
        }
        self.hint.clone()
    }

    /// Returns chroot and namespace, joined, as the client will have them.
    pub(crate) fn root(&self) -> LockPath {
        self.chroot.join(&self.namespace)
    }

    /// Opens a session.
    pub(crate) async fn dial(&self) -> Result<Client, DialError> {
        let (connector, servers) = match &self.target {
            Target::Real(connector, servers) => (connector, servers),
            #[cfg(feature = "simulation")]
            Target::Simulated(target) => {
                let client = target.dial().await;
                let client = client.map_err(|error| DialError::Transient(ClientError(error)))?;
                return Ok(Client::simulated(client, self.root()));
            }
        };
        if let Err(error) = start_threads() {
            let error = zk::Error::UnexpectedError(format!("no thread can be started: {error}"));
            return Err(DialError::Transient(ClientError(error)));
        }
        let dialed = connector.clone().connect(servers).await;
        match dialed {
            Ok(client) => Client::new(client, &self.namespace).map_err(DialError::Final),
            Err(zk::Error::BadArguments(reason)) => {
                Err(DialError::Final(invalid(&self.connect_string, (*reason).to_owned())))
            }
            Err(zk::Error::AuthFailed) => {
                Err(DialError::Final(Error::authentication(&self.connect_string)))
            }
            Err(error) => Err(DialError::Transient(ClientError(error))),
        }
    }
}

/// The options of a user's `Connector` that matter for a supervised session. The client has no accessors for them, but its `Debug`
/// shows them. If that changes, the tests below fail.
struct ConnectorOptions {
    has_connection_timeout: bool,
    has_tls: bool,
}

impl ConnectorOptions {
    /// Fails for options with which the session cannot be supervised.
    fn of(connector: &Connector) -> Result<Self, Error> {
        let shown = format!("{connector:?}");
        // A password may stand before the session.
        let options = shown.rfind("session: ").map_or("", |at| &shown[at..]);
        let refused = |value, reason| Err(Error::invalid("connector", value, reason));
        if options.contains("readonly: true") {
            let reason = "a read-only server cannot say whether a lock is held";
            return refused("with_readonly(true)", reason);
        }
        if options.contains("detached: true") {
            let reason = "a detached session would keep its locks when it is closed";
            return refused("with_detached()", reason);
        }
        if !options.contains("session: None") {
            return refused("with_session(..)", "each epoch is a session of its own");
        }
        Ok(Self {
            has_connection_timeout: !options.contains(" connection_timeout: 0ns"),
            has_tls: shown.starts_with("Connector { tls: Some("),
        })
    }
}

/// Returns the last error if none of the servers' names can be resolved.
async fn unresolved(servers: &[Server<'_>]) -> Option<io::Error> {
    let mut last = None;
    for server in servers {
        match lookup_host((server.host, 2181)).await {
            Ok(_) => return None,
            Err(error) => last = Some(error),
        }
    }
    last
}

/// The reason why no session was opened.
#[derive(Debug)]
pub(crate) enum DialError {
    /// No further try can succeed.
    Final(Error),
    Transient(ClientError),
}

/// The client needs one thread that resolves names, and one that waits for sockets and timers.
const THREADS_OF_THE_CLIENT: usize = 2;

/// Starts as many threads at once as the client needs, and ends them. If its first resolving thread cannot be started, the
/// client retries without a pause and blocks the runtime's thread for good. Without the other thread it panics.
fn start_threads() -> io::Result<()> {
    let gate = Mutex::new(());
    thread::scope(|scope| {
        let closed = gate.lock();
        let started: Vec<_> = (0..THREADS_OF_THE_CLIENT)
            .map(|_| thread::Builder::new().spawn_scoped(scope, || drop(gate.lock())))
            .collect();
        drop(closed);
        // Joined one by one: the end of the scope waits only for the closures, and a thread ends later than its closure.
        started.into_iter().try_for_each(|thread| thread.map(|thread| drop(thread.join())))
    })
}

/// Chooses a provider if the program has not: with two of them compiled in, the first connection would panic.
#[cfg(feature = "tls")]
fn choose_crypto_provider() {
    use rustls::crypto::{CryptoProvider, aws_lc_rs};
    if CryptoProvider::get_default().is_none() {
        // This fails if another task has just chosen, which is fine.
        let _ = aws_lc_rs::default_provider().install_default();
    }
}

/// Fails for a server whose name no certificate can have: the client would panic.
#[cfg(feature = "tls")]
fn refuse_names_that_no_certificate_has(
    connect_string: &str,
    parsed: &ConnectString<'_>,
) -> Result<(), Error> {
    use rustls::pki_types::ServerName;
    for server in parsed.servers.iter().filter(|server| server.has_tls()) {
        if ServerName::try_from(server.host).is_err() {
            let reason = format!("{:?} is no host name that a certificate can have", server.host);
            return Err(invalid(connect_string, reason));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use tokio::net::TcpListener;
    use tokio::time::Instant;

    use super::super::reconnecting::pauses;
    use super::*;

    const T: Duration = Duration::from_secs(60);

    #[test]
    fn a_connection_timeout_of_ones_own_is_kept() {
        for (connector, expected) in [
            (zk::Client::connector(), "8s"),
            (zk::Client::connector().with_connection_timeout(Duration::from_secs(3)), "3s"),
        ] {
            let dialer = dialer(connector, "127.0.0.1", "/").unwrap();
            let Target::Real(connector, _) = dialer.target else { unreachable!() };
            let shown = format!("{connector:?}");
            assert!(shown.contains(&format!("connection_timeout: {expected}")), "{shown}");
        }
    }

    /// Fails if a newer client pauses otherwise than [`pauses`] says.
    #[tokio::test]
    async fn the_client_pauses_between_its_tries_as_the_plan_expects() {
        const SESSION_TIMEOUT: Duration = Duration::from_secs(4);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let began = Instant::now();
        let connector = zk::Client::connector().with_session_timeout(SESSION_TIMEOUT);
        let servers = [address.as_str(); 2].join(",");
        let mut connecting = pin!(connector.connect(&servers));
        let mut tries = Vec::new();
        loop {
            tokio::select! {
                ended = &mut connecting => break drop(ended.unwrap_err()),
                // The connection is closed at once.
                _ = listener.accept() => tries.push(began.elapsed()),
            }
        }
        let mut at = Duration::ZERO;
        for (tried, pause) in tries[2..].iter().zip(pauses(2)) {
            at += pause.shortest;
            assert!(*tried >= at, "{tries:?}");
        }
        // The last of ten comes after 3.8 s at the latest, by the plan.
        assert!((8..=10).contains(&tries.len()), "{tries:?}");
    }

    #[test]
    fn connectors_that_cannot_be_supervised_are_refused() {
        let plain = || zk::Client::connector().with_auth("digest", b"user:secret");
        let refused = |connector| refusal(connector, "127.0.0.1");
        assert_eq!(refused(plain()), None);
        assert!(refused(plain().with_readonly(true)).unwrap().contains("with_readonly"));
        assert!(refused(plain().with_detached()).unwrap().contains("with_detached"));
    }

    #[cfg(feature = "sasl")]
    #[test]
    fn a_password_is_not_taken_for_an_option() {
        for password in ["readonly: true", ", session: 1, readonly: true, detached: true"] {
            let sasl = zk::SaslOptions::digest_md5("user", password);
            assert_eq!(refusal(zk::Client::connector().with_sasl(sasl), "127.0.0.1"), None);
        }
    }

    #[test]
    fn tls_that_is_not_configured_is_refused_and_not_waited_for() {
        let refused = refusal(zk::Client::connector(), "127.0.0.1,tcp+tls://127.0.0.1:2281");
        assert!(refused.unwrap().contains("with_tls"));
    }

    #[cfg(feature = "tls")]
    #[test]
    fn a_name_that_no_certificate_has_is_refused() {
        let refused = |server: &str| {
            let connector = zk::Client::connector().with_tls(zk::TlsOptions::new());
            refusal(connector, &format!("tcp+tls://good:2281,tcp+tls://{server}/chroot"))
        };
        for server in ["zk1.example.org:2281", "127.0.0.1:2281", "127.0.0.1", "[::1]:2281"] {
            assert_eq!(refused(server), None);
        }
        for server in ["fe80::1%eth0:2281", "[fe80::1%eth0]:2281", "a..b:2281"] {
            assert!(refused(server).unwrap().contains("certificate"), "{server}");
        }
    }

    #[test]
    fn the_root_is_what_the_client_takes_for_it() {
        let root = |connect_string: &str| {
            let dialer = dialer(zk::Client::connector(), connect_string, "/ns");
            dialer.unwrap().root().to_string()
        };
        assert_eq!(root("a:2181,b:2181/"), "/ns");
        assert_eq!(root("a:2181,tcp://b:2181/app/x"), "/app/x/ns");
    }

    fn refusal(connector: Connector, connect_string: &str) -> Option<String> {
        dialer(connector, connect_string, "/").err().map(|e| e.to_string())
    }

    fn dialer(
        connector: Connector,
        connect_string: &str,
        namespace: &str,
    ) -> Result<Dialer, Error> {
        let namespace = LockPath::parse("namespace", namespace).unwrap();
        Dialer::new(connector, T, connect_string, namespace)
    }
}
