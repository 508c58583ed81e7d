//! Diagnoses servers that give no session: the client itself reports only a timeout.

use std::fmt;
use std::io;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{sleep, timeout};

use crate::settings::{Settings, Tls};
use crate::tls;

pub(crate) const TLS_SCHEME: &str = "tcp+tls://";
const TCP_SCHEME: &str = "tcp://";

/// The pause between two diagnoses.
const PAUSE: Duration = Duration::from_secs(1);

/// Time limit for each step of a diagnosis that nothing else waits for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// A server closes connections beyond its limit without giving a reason, and each waiter has a connection.
pub(crate) const LIMIT: &str =
    "has too many connections from this machine (maxClientCnxns, 60 by default)";

/// What a server does in place of opening a session.
#[derive(Debug)]
pub(crate) struct Reaction {
    does: String,
    /// True if it refuses a TLS handshake, which will be refused again.
    is_refusal: bool,
}

impl Reaction {
    pub(crate) fn refusal(does: impl Into<String>) -> Self {
        Self { does: does.into(), is_refusal: true }
    }
}

impl<T: Into<String>> From<T> for Reaction {
    fn from(does: T) -> Self {
        Self { does: does.into(), is_refusal: false }
    }
}

impl fmt::Display for Reaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.does)
    }
}

/// Describes how each server reacts to a connection; each step may take `limit`. The client itself reports only a
/// timeout.
pub(crate) async fn diagnose(settings: &Settings, limit: Duration) -> String {
    reactions(settings, limit).await.0
}

/// Returns the description when all servers refuse a TLS handshake, which the client repeats until its time is up.
pub(crate) async fn all_refuse_tls(settings: &Settings) -> String {
    loop {
        sleep(PAUSE).await; // a session is opened sooner than that
        // A server that is down, or slow, may refuse later.
        if let (said, true) = reactions(settings, PATIENCE).await {
            return said;
        }
    }
}

/// Returns how each server reacts, and whether each one refuses a TLS handshake.
async fn reactions(settings: &Settings, limit: Duration) -> (String, bool) {
    let ask = async |server: &str| {
        let server = address_of(server);
        let reaction = reaction(server, settings.tls.as_ref(), limit).await;
        (format!("{server} {reaction}"), reaction.is_refusal)
    };
    let (said, refuse): (Vec<_>, Vec<_>) =
        join_all(each(&settings.server).map(ask)).await.into_iter().unzip();
    (said.join("; "), refuse.into_iter().all(|refuses| refuses))
}

async fn reaction(server: &str, tls: Option<&Tls>, limit: Duration) -> Reaction {
    if let Err(reaction) = accepts(server, tls, limit).await {
        return reaction;
    }
    let reasons = match tls {
        Some(_) => format!("it has no quorum, or {LIMIT}"),
        None => format!("it has no quorum, {LIMIT}, expects TLS (--tls-ca), or is no ZooKeeper"),
    };
    format!("accepts connections, but gives no session: it hangs, or {reasons}").into()
}

/// Checks that a server of the connect string accepts a connection, and with `tls` a TLS handshake. The error describes
/// what it does instead. Each step may take `limit`.
pub(crate) async fn accepts(
    server: &str,
    tls: Option<&Tls>,
    limit: Duration,
) -> Result<(), Reaction> {
    let server = address_of(server);
    let address = if has_port(server) { server.to_owned() } else { format!("{server}:2181") };
    let found = match timeout(limit, lookup_host(address)).await {
        Ok(Ok(addresses)) => addresses.collect::<Vec<_>>(),
        Ok(Err(_)) => return Err("is not known by that name".into()),
        Err(_) => return Err("has a name that is not resolved in time".into()),
    };
    let stream = match timeout(limit, TcpStream::connect(&found[..])).await {
        Err(_) => return Err("does not answer".into()),
        Ok(Err(error)) if was_closed(&error) => return Ok(()),
        Ok(Err(error)) => return Err(format!("cannot be connected to: {error}").into()),
        Ok(Ok(stream)) => stream,
    };
    match tls {
        Some(tls) => tls::handshake(stream, host_of(server), tls, limit).await,
        None => Ok(()),
    }
}

/// Returns true if the server accepted the connection, and closed it before we noticed.
fn was_closed(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// Returns the host without its port and without brackets.
fn host_of(server: &str) -> &str {
    let host = if has_port(server) {
        server.rsplit_once(':').map_or(server, |(host, _)| host)
    } else {
        server
    };
    host.trim_start_matches('[').trim_end_matches(']')
}

fn has_port(server: &str) -> bool {
    let after_address = server.rsplit_once(']').map_or(server, |(_, rest)| rest);
    after_address.contains(':')
}

/// Returns the servers without blanks and empty elements, as the library reads them.
pub(crate) fn each(servers: &str) -> impl Iterator<Item = &str> {
    servers.split(',').map(str::trim).filter(|server| !server.is_empty())
}

/// Returns the servers without their common chroot, and that chroot.
pub(crate) fn separately(servers: &str) -> (Vec<&str>, &str) {
    let start = without_scheme(each(servers).last().unwrap_or_default());
    let chroot = start.find('/').map_or("", |at| &start[at..]);
    (each(servers).map(|server| server.strip_suffix(chroot).unwrap_or(server)).collect(), chroot)
}

/// Returns the host of an element of the connect string, with its port.
pub(crate) fn address_of(server: &str) -> &str {
    without_scheme(server).split('/').next().unwrap_or_default()
}

pub(crate) fn without_scheme(server: &str) -> &str {
    [TLS_SCHEME, TCP_SCHEME].iter().find_map(|scheme| server.strip_prefix(scheme)).unwrap_or(server)
}

#[cfg(test)]
mod tests {
    use nix::errno::Errno;

    use super::*;

    #[test]
    fn a_refused_connection_is_told_from_a_closed_one() {
        for (errno, was) in
            [(Errno::EPIPE, true), (Errno::ECONNRESET, true), (Errno::ECONNREFUSED, false)]
        {
            assert_eq!(was_closed(&errno.into()), was, "{errno}");
        }
    }

    #[test]
    fn ports_are_told_from_addresses() {
        for (server, has, host) in [
            ("a", false, "a"),
            ("a:1", true, "a"),
            ("[::1]", false, "::1"),
            ("[::1]:1", true, "::1"),
        ] {
            assert_eq!((has_port(server), host_of(server)), (has, host), "{server}");
        }
    }
}
