//! Connect strings, read as ZooKeeper's own client reads them: blanks around a server and empty elements are skipped, but not
//! behind a chroot. Pure: no I/O, no clock.

use std::fmt;
use std::net::Ipv6Addr;

use crate::error::Error;
use crate::lock_path::LockPath;

/// The prefix of a server with TLS.
const TLS_SCHEME: &str = "tcp+tls://";
/// The prefix of a server without TLS.
const TCP_SCHEME: &str = "tcp://";

/// A parsed connect string. Its `Display` is what the client takes.
#[derive(Debug)]
pub(super) struct ConnectString<'a> {
    pub(super) servers: Vec<Server<'a>>,
    pub(super) chroot: LockPath,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Server<'a> {
    /// [`TLS_SCHEME`], [`TCP_SCHEME`] or empty.
    scheme: &'static str,
    /// The host with its port, if one is given.
    address: &'a str,
    /// The host without brackets.
    pub(super) host: &'a str,
}

impl<'a> ConnectString<'a> {
    /// Names each server so many times.
    pub(super) fn with_copies(self, copies: usize) -> Self {
        Self { servers: self.servers.repeat(copies), ..self }
    }

    pub(super) fn parse(text: &'a str) -> Result<Self, Error> {
        let invalid = |reason| invalid(text, reason);
        let mut servers = Vec::new();
        let mut chroot = None;
        for element in text.split(',').map(str::trim_start) {
            if chroot.is_some() {
                // In Java all that follows the first slash is the chroot, so two clients would use different locks.
                let reason = "a comma follows the chroot: only the last server can have one";
                return Err(invalid(reason.to_owned()));
            }
            let (scheme, rest) = [TLS_SCHEME, TCP_SCHEME]
                .iter()
                .find_map(|scheme| Some((*scheme, element.strip_prefix(scheme)?)))
                .unwrap_or(("", element));
            if let Some((other, _)) = rest.split_once("://") {
                let known = format!("HOST:PORT, {TCP_SCHEME}HOST:PORT or {TLS_SCHEME}HOST:PORT");
                return Err(invalid(format!("{other:?} is no scheme of a server: write {known}")));
            }
            let (address, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let address = address.trim_end();
            if !path.is_empty() {
                let path = LockPath::parse("chroot", path);
                chroot = Some(path.map_err(|error| invalid(error.to_string()))?);
            }
            if !(scheme.is_empty() && address.is_empty()) {
                let host = host_of(address).map_err(invalid)?;
                servers.push(Server { scheme, address, host });
            }
        }
        if servers.is_empty() {
            return Err(invalid("it names no server".to_owned()));
        }
        Ok(Self { servers, chroot: chroot.unwrap_or_else(LockPath::root) })
    }
}

impl fmt::Display for ConnectString<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, server) in self.servers.iter().enumerate() {
            let separator = if number == 0 { "" } else { "," };
            write!(f, "{separator}{}{}", server.scheme, server.address)?;
        }
        if self.chroot.is_root() { Ok(()) } else { write!(f, "{}", self.chroot) }
    }
}

impl Server<'_> {
    pub(super) fn has_tls(&self) -> bool {
        self.scheme == TLS_SCHEME
    }
}

pub(super) fn invalid(connect_string: &str, reason: String) -> Error {
    Error::invalid("connect string", format_args!("{connect_string:?}"), &reason)
}

/// Returns the host of `HOST`, `HOST:PORT` or `HOST:`, where `HOST` may be an IPv6 address in brackets.
fn host_of(address: &str) -> Result<&str, String> {
    if address.contains(';') {
        return Err("separate servers by commas, not by semicolons".to_owned());
    }
    if address.contains(char::is_whitespace) {
        return Err(format!("{address:?} has a blank in it: separate servers by commas"));
    }
    let (host, port) = match address.strip_prefix('[').map(|rest| rest.split_once(']')) {
        None => match address.rsplit_once(':') {
            // In Java the port stands behind the last colon.
            Some((host, _)) if host.contains(':') && !is_ipv6(host) => {
                return Err(format!("the IPv6 address in {address:?} needs brackets"));
            }
            Some((host, port)) => (host, Some(port)),
            None => (address, None),
        },
        Some(Some((host, ""))) => (host, None),
        Some(Some((host, rest))) if rest.starts_with(':') => (host, Some(&rest[1..])),
        Some(_) => return Err(format!("the brackets in {address:?} are not those of a host")),
    };
    if host.is_empty() {
        return Err(format!("{address:?} names no host"));
    }
    match port {
        None | Some("") => Ok(host),
        Some(port) if port.parse::<u16>().is_ok_and(|port| port > 0) => Ok(host),
        Some(port) => Err(format!("{port:?} is no port from 1 to 65535")),
    }
}

fn is_ipv6(host: &str) -> bool {
    host.split('%').next().is_some_and(|address| address.parse::<Ipv6Addr>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_ones_are_handed_over_without_blanks_and_empty_elements() {
        for (text, expected, chroot) in [
            ("a", "a", "/"),
            ("a:2181,b:2181", "a:2181,b:2181", "/"),
            ("a:2181,b:2181/", "a:2181,b:2181", "/"),
            (" a:2181 ,\tb:2181\n", "a:2181,b:2181", "/"),
            ("a:2181,,b:2181,", "a:2181,b:2181", "/"),
            (",a:,", "a:", "/"),
            ("a:2181, b:2181/app/x", "a:2181,b:2181/app/x", "/app/x"),
            ("a:2181,/app", "a:2181/app", "/app"),
            // A blank is part of a chroot, as in Java.
            ("a:2181/app ", "a:2181/app ", "/app "),
            ("tcp://a:1, tcp+tls://b:2/app", "tcp://a:1,tcp+tls://b:2/app", "/app"),
            ("[::1]:2181,[fe80::1%eth0]", "[::1]:2181,[fe80::1%eth0]", "/"),
            ("::1:2181,fe80::1%eth0:2181", "::1:2181,fe80::1%eth0:2181", "/"),
        ] {
            let read = ConnectString::parse(text).unwrap();
            assert_eq!((&*read.to_string(), read.chroot.as_str()), (expected, chroot), "{text:?}");
        }
        let read = ConnectString::parse("a:1,tcp://b,tcp+tls://c:,[::1]:2").unwrap();
        let hosts: Vec<_> = read.servers.iter().map(|s| (s.host, s.has_tls())).collect();
        assert_eq!(hosts, [("a", false), ("b", false), ("c", true), ("::1", false)]);
    }

    #[test]
    fn bad_ones_are_refused_with_what_is_wrong_in_them() {
        for (text, reason) in [
            ("", "names no server"),
            (" , ,", "names no server"),
            ("/app", "names no server"),
            ("tcp://", "names no host"),
            ("a, :2181", "\":2181\" names no host"),
            ("a b:2181", "\"a b:2181\" has a blank in it: separate servers by commas"),
            ("a:2181 b:2181", "\"a:2181 b:2181\" has a blank in it: separate servers by commas"),
            ("a:b", "\"b\" is no port"),
            ("a:0", "\"0\" is no port"),
            ("a:65536", "is no port"),
            ("a: 2181", "\"a: 2181\" has a blank in it"),
            ("::1", "needs brackets"),
            ("2001:db8::5", "needs brackets"),
            ("[::1", "brackets"),
            ("[::1]2181", "brackets"),
            ("[]:2181", "names no host"),
            ("a/app,b", "only the last server"),
            ("a:2181/app,", "a comma follows the chroot"),
            ("a:2181/app, ,", "a comma follows the chroot"),
            ("a:2181/,", "a comma follows the chroot"),
            ("tcp://a:2181/app,", "a comma follows the chroot"),
            ("a:2181/app/", "ends with '/'"),
            ("http://a:2181", "\"http\" is no scheme of a server"),
            ("zk://a:2181,b:2181/app", "\"zk\" is no scheme of a server: write HOST:PORT"),
            ("a:2181,tcp://zk://b", "\"zk\" is no scheme of a server"),
            ("a:2181;b:2181", "separate servers by commas, not by semicolons"),
        ] {
            let error = ConnectString::parse(text).unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains(&format!("{text:?}")), "{error}");
        }
    }
}
