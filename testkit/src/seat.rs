//! What a server listens on, and for a member of an ensemble who the others are.

use super::port::Port;
use super::security::SecureSeat;

/// The claims on the ports last as long as the server that has this.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) client: Port,
    pub(super) voter: Option<Voter>,
    pub(super) secure: Option<SecureSeat>,
}

impl Seat {
    pub(super) fn standalone(client: Port, secure: Option<SecureSeat>) -> Self {
        Self { client, voter: None, secure }
    }
}

/// A member with a vote.
#[derive(Debug)]
pub(super) struct Voter {
    /// From 1 on.
    pub(super) id: usize,
    /// The lines `server.ID=…` of `zoo.cfg`, as this member sees the ensemble.
    pub(super) servers: Vec<String>,
    /// Of the quorum and of the election, in its own line.
    pub(super) _ports: [Port; 2],
}
