//! The ports of a server, and the other members if it is a member of an ensemble.

use std::time::Duration;

use tokio::time::timeout;

use super::port::Port;
use super::security::SecureSeat;
use super::{Backend, TestkitError, four_letter};

const LOG_LINES: usize = 40;

/// A server's ports. The claims on them last as long as the server that has this value.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) client: Port,
    pub(super) voter: Option<Voter>,
    pub(super) secure: Option<SecureSeat>,
}

/// A member with a vote.
#[derive(Debug)]
pub(super) struct Voter {
    /// The member's number, from 1 on.
    pub(super) id: usize,
    /// The lines `server.ID=…` of `zoo.cfg`, as this member sees the ensemble.
    pub(super) servers: Vec<String>,
    /// The ports of the quorum and of the election, as in the member's own line.
    pub(super) _ports: [Port; 2],
}

impl Seat {
    /// Waits until the server serves. The error describes what happened instead.
    pub(super) async fn until_serving(
        &self,
        limit: Duration,
        ended: impl Future<Output = ()>,
    ) -> Result<(), String> {
        let address = self.client.address();
        tokio::select! {
            biased;
            served = timeout(limit, four_letter::until_serving(&address)) => {
                served.map_err(|_| format!("did not serve within {limit:?}"))
            }
            () = ended => Err("ended while it was starting".to_owned()),
        }
    }

    pub(super) fn not_serving(&self, backend: Backend, fate: String, log: &[u8]) -> TestkitError {
        let log = String::from_utf8_lossy(log);
        if log.contains("Address already in use") {
            return TestkitError::PortTaken { port: self.client.number() };
        }
        let lines: Vec<&str> = log.lines().collect();
        let log = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n");
        TestkitError::NotServing { backend, address: self.client.address(), fate, log }
    }
}
