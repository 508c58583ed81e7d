//! A port on 127.0.0.1 that stays ours while its server restarts.
//!
//! The port is below the range from which the system takes ports for outgoing connections. Inside that range, a
//! client's connection could get the port of a stopped server, even that of a client that reconnects to this very
//! server.
//!
//! A closed proxy does not need its port again, so [`listen_anew`] takes one of the system's.

use std::collections::BTreeSet;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::TestkitError;
use super::scratch::PortClaim;

const LOWEST: u16 = 20_000;
/// The smallest number of ports below that range that makes it worth using.
const ENOUGH: u16 = 1_000;
const CANDIDATES: usize = 200;
/// Attempts to start. All fail only if another process takes a port in the half second between our check and the
/// server's start each time.
const STARTS: usize = 5;

/// All ports that [`listen_anew`] has returned.
static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// Listens on a free port that this process has not used before, as long as there is one: a client retries a closed
/// proxy at its port until its session ends, and would connect to the next proxy on that port.
pub(super) async fn listen_anew() -> Result<tokio::net::TcpListener, TestkitError> {
    // These stay open until the end, so that the system gives another port each time.
    let mut had = Vec::new();
    loop {
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let bound = listener.and_then(|listener| Ok((listener.local_addr()?.port(), listener)));
        let (port, listener) =
            bound.map_err(TestkitError::cannot("listen on a port of 127.0.0.1"))?;
        let is_new = GIVEN.lock().unwrap_or_else(PoisonError::into_inner).insert(port);
        if is_new || had.len() == CANDIDATES {
            return Ok(listener);
        }
        had.push(listener);
    }
}

/// Repeats a start while another process takes one of its ports.
pub(super) async fn on_free_ports<T, F>(start: impl Fn() -> F) -> Result<T, TestkitError>
where
    F: Future<Output = Result<T, TestkitError>>,
{
    for _ in 1..STARTS {
        match start().await {
            Err(TestkitError::PortTaken { .. }) => {}
            result => return result,
        }
    }
    start().await
}

/// A port, with the claim that keeps other test servers off it.
#[derive(Debug)]
pub(super) struct Port {
    number: u16,
    _claim: PortClaim,
}

impl Port {
    pub(super) fn reserve() -> Result<Self, TestkitError> {
        let range =
            range(fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok().as_deref());
        let mut number = range.start;
        for _ in 0..CANDIDATES {
            number = random(&range);
            let Some(claim) = PortClaim::take(number)? else {
                continue;
            };
            if TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok() {
                return Ok(Self { number, _claim: claim });
            }
        }
        Err(TestkitError::PortTaken { port: number })
    }

    pub(super) fn number(&self) -> u16 {
        self.number
    }

    pub(super) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.number)
    }
}

/// Returns the range to use, given the system's own range (`LOW HIGH`).
fn range(ephemeral: Option<&str>) -> Range<u16> {
    let low = ephemeral
        .and_then(|text| text.split_whitespace().next()?.parse().ok())
        .unwrap_or(32_768_u16);
    if low >= LOWEST + ENOUGH { LOWEST..low } else { LOWEST..u16::MAX }
}

fn random(range: &Range<u16>) -> u16 {
    let [high, low, ..] = uuid::Uuid::new_v4().into_bytes();
    range.start + u16::from_be_bytes([high, low]) % (range.end - range.start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_lies_below_the_ephemeral_one_where_there_is_room() {
        assert_eq!(range(Some("32768\t60999\n")), 20_000..32_768);
        assert_eq!(range(Some("1024 65535")), 20_000..65_535);
        assert_eq!(range(Some("nonsense")), 20_000..32_768);
        assert_eq!(range(None), 20_000..32_768);
    }

    /// The system chooses from 28,000 ports, so among 1,000 of its choices two would be the same.
    #[tokio::test]
    async fn no_port_is_given_twice() {
        let mut ports = BTreeSet::new();
        for _ in 0..1_000 {
            let listener = listen_anew().await.unwrap();
            assert!(ports.insert(listener.local_addr().unwrap().port()));
        }
    }

    #[test]
    fn random_stays_in_range() {
        let range = 20_000..20_003;
        assert!((0..1_000).all(|_| range.contains(&random(&range))));
    }

    #[test]
    fn a_claimed_port_is_not_given_again() {
        let port = Port::reserve().expect("a free port");
        assert!(PortClaim::take(port.number()).expect("a writable folder").is_none());
        let number = port.number();
        drop(port);
        assert!(PortClaim::take(number).expect("a writable folder").is_some());
    }
}
