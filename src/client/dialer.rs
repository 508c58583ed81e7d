//! Opening sessions.

use std::io;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use zookeeper_client::{self as zk, Connector};

use super::connect_string::{ConnectString, Server, invalid};
use super::failure::ClientError;
use super::rooted::Client;
use crate::error::Error;
use crate::lock_path::LockPath;
#[cfg(feature = "simulation")]
use crate::simulation;

/// Opens sessions, each a new one.
pub(crate) struct Dialer {
    to: Target,
    /// As it was given, for people.
    pub(crate) connect_string: String,
    chroot: LockPath,
    namespace: LockPath,
    /// Why no server may give a session, as far as can be told from here: the client reports only that the
    /// time is over.
    pub(crate) hint: String,
}

/// The servers, and how to connect to them. One for each `Curator`.
#[cfg_attr(feature = "simulation", allow(clippy::large_enum_variant))]
enum Target {
    /// With the connect string as the client takes it.
    Real(Connector, String),
    #[cfg(feature = "simulation")]
    Simulated(simulation::Target),
}

/// The bounds of what a server may be silent. Below the first a pause of its garbage collector would count as silence. The
/// second is right for the longest session that servers grant by default, 40 s; the default asks for more.
const SHORTEST_SILENCE: Duration = Duration::from_secs(1);
const LONGEST_SILENCE: Duration = Duration::from_secs(8);

impl Dialer {
    /// `connector` carries everything but the session.
    pub(crate) fn new(
        connector: Connector,
        session_timeout: Duration,
        connect_string: &str,
        namespace: LockPath,
    ) -> Result<Self, Error> {
        refuse_what_cannot_be_supervised(&connector)?;
        #[cfg(feature = "simulation")]
        if connect_string.starts_with("sim:") {
            return Self::simulated(session_timeout, connect_string, namespace);
        }
        // The client reads its connect string only when it connects.
        let parsed = ConnectString::parse(connect_string)?;
        let asks_for_tls = parsed.servers.iter().any(Server::has_tls);
        let tls_hint = match (asks_for_tls, has_tls(&connector)) {
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
        if has_tls(&connector) {
            refuse_names_that_no_certificate_has(connect_string, &parsed)?;
            choose_crypto_provider();
        }
        let connector = match options_of(&connector).contains(" connection_timeout: 0ns") {
            true => connector.with_connection_timeout(longest_silence(session_timeout)),
            false => connector,
        };
        let connector = connector.with_session_timeout(session_timeout).with_readonly(false);
        let servers = parsed.to_string();
        let connect_string = connect_string.to_owned();
        let to = Target::Real(connector, servers);
        Ok(Self { to, connect_string, chroot: parsed.chroot, namespace, hint })
    }

    /// A simulated server cannot read them from the connector.
    #[cfg(feature = "simulation")]
    pub(crate) fn with_auths(mut self, auths: Vec<(String, Vec<u8>)>) -> Self {
        if let Target::Simulated(target) = &mut self.to {
            target.show(auths);
        }
        self
    }

    /// For simulated servers: `sim:W.L`, and perhaps a chroot.
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
        let patience = longest_silence(session_timeout);
        let target = simulation::Target::parse(servers, session_timeout, patience)
            .map_err(|reason| invalid(reason.to_owned()))?;
        let (to, connect_string) = (Target::Simulated(target), connect_string.to_owned());
        Ok(Self {
            to,
            connect_string,
            chroot,
            namespace,
            hint: "they are out of reach, or without a quorum".to_owned(),
        })
    }

    /// Chroot and namespace in one, as the client will tell it.
    pub(crate) fn root(&self) -> LockPath {
        self.chroot.join(&self.namespace)
    }

    /// Opens a session.
    pub(crate) async fn dial(&self) -> Result<Client, DialError> {
        let (connector, servers) = match &self.to {
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

/// Why there is no session.
#[derive(Debug)]
pub(crate) enum DialError {
    /// Trying again cannot help.
    Final(Error),
    Transient(ClientError),
}

/// After how long a silent server, or one that does not complete a handshake, is left for another; zero leaves it to the
/// client, which takes two fifths of the timeout `T` that was granted. It may come to the same server again before it comes to
/// another, and notices late, by an eighth: after `9T/10`, when the lease is over. With a fifth it is after `9T/20`, and of a
/// lease at least `2T/3 - T/7` is left when a server falls silent. So it is from 5 s on.
fn longest_silence(session_timeout: Duration) -> Duration {
    if session_timeout * 2 / 5 <= SHORTEST_SILENCE {
        return Duration::ZERO;
    }
    (session_timeout / 5).clamp(SHORTEST_SILENCE, LONGEST_SILENCE)
}

/// The client starts one thread that resolves names and one that waits for sockets and timers.
const THREADS_OF_THE_CLIENT: usize = 2;

/// Starts as many threads at once as the client needs, and ends them. Where its first resolving thread cannot be started, the
/// client tries again without a pause and never gives the runtime's thread back; without the other one it panics.
fn start_threads() -> io::Result<()> {
    let gate = Mutex::new(());
    thread::scope(|scope| {
        let closed = gate.lock();
        let started: Vec<_> = (0..THREADS_OF_THE_CLIENT)
            .map(|_| thread::Builder::new().spawn_scoped(scope, || drop(gate.lock())))
            .collect();
        drop(closed);
        // The end of the scope waits for the closures alone, and a thread counts for longer.
        started.into_iter().try_for_each(|thread| thread.map(|thread| drop(thread.join())))
    })
}

/// The client has no accessors for these; its `Debug` shows them. Were that to change, a test fails.
fn options_of(connector: &Connector) -> String {
    let shown = format!("{connector:?}");
    // What stands before may be a password.
    shown.rfind("session: ").map_or_else(String::new, |at| shown[at..].to_owned())
}

fn refuse_what_cannot_be_supervised(connector: &Connector) -> Result<(), Error> {
    let shown = options_of(connector);
    let (value, reason) = if shown.contains("readonly: true") {
        ("with_readonly(true)", "a read-only server cannot say whether a lock is held")
    } else if shown.contains("detached: true") {
        ("with_detached()", "a detached session would keep its locks when it is closed")
    } else if !shown.contains("session: None") {
        ("with_session(..)", "each epoch is a session of its own")
    } else {
        return Ok(());
    };
    Err(Error::invalid("connector", value, reason))
}

fn has_tls(connector: &Connector) -> bool {
    format!("{connector:?}").starts_with("Connector { tls: Some(")
}

/// Where a program has two of them compiled in and none chosen, the first connection would panic.
#[cfg(feature = "tls")]
fn choose_crypto_provider() {
    use rustls::crypto::{CryptoProvider, aws_lc_rs};
    if CryptoProvider::get_default().is_none() {
        // It fails if another task has just chosen, which is as good.
        let _ = aws_lc_rs::default_provider().install_default();
    }
}

/// The client would panic at them.
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
    use super::*;

    const T: Duration = Duration::from_secs(60);

    #[test]
    fn a_lease_outlasts_a_server_that_is_silent_twice() {
        let seconds = Duration::from_secs;
        for (asked, granted) in [(5, 5), (12, 12), (40, 40), (60, 40), (60, 60)] {
            let left_of_the_lease = seconds(granted) * 2 / 3 - seconds(granted) / 7;
            let noticed = longest_silence(seconds(asked)) * 9 / 8;
            assert!(noticed * 2 < left_of_the_lease, "{asked}, {granted}");
        }
        assert_eq!(longest_silence(seconds(2)), Duration::ZERO);
        assert_eq!(longest_silence(seconds(4)), seconds(1));
    }

    #[test]
    fn a_connection_timeout_of_ones_own_is_kept() {
        for (connector, expected) in [
            (zk::Client::connector(), "8s"),
            (zk::Client::connector().with_connection_timeout(Duration::from_secs(3)), "3s"),
        ] {
            let dialer = dialer(connector, "127.0.0.1", "/").unwrap();
            let Target::Real(connector, _) = dialer.to else { unreachable!() };
            let shown = format!("{connector:?}");
            assert!(shown.contains(&format!("connection_timeout: {expected}")), "{shown}");
        }
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
