//! A port of the loopback.

use std::net::{Ipv4Addr, TcpListener};

use crate::Failure;

/// Below the range from which the system serves outgoing connections: from inside it, a client's connection could get
/// the port of a server that is being restarted.
pub(crate) fn free_port() -> Result<u16, Failure> {
    for _ in 0..200 {
        let port = fastrand::u16(20_000..32_000);
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err("no free port between 20000 and 32000".into())
}
