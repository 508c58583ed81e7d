//! The links between the members of an ensemble: for each ordered pair, a proxy of the quorum protocol and one of the
//! election protocol. So two members can be parted while clients still reach both.

use tokio::net::TcpListener;

use super::TestkitError;
use super::port::listen_anew;
use super::proxy::{Cut, Direction, Fault, FaultProxy, Protocol};

/// The way in which two members are parted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Partition {
    /// A black hole: no bytes arrive, no new connection is made, and no connection is closed. The bytes arrive when
    /// the fault is healed.
    Silent,
    /// Connections are reset, and so are new ones at once, as if the other machine were up and its server down.
    Refused,
}

/// All proxies of an ensemble. Dropping this value ends them.
#[derive(Debug)]
pub(super) struct Links(Vec<Vec<Option<Link>>>);

/// The proxies through which one member dials another.
#[derive(Debug)]
struct Link {
    quorum: FaultProxy,
    election: FaultProxy,
}

impl Links {
    /// Starts the proxies. `members` has each member's own ports for the quorum and the election.
    pub(super) async fn start(members: &[[u16; 2]]) -> Result<Self, TestkitError> {
        let size = members.len();
        let mut elections = Vec::with_capacity(size * size);
        for _ in 0..size * size {
            elections.push(listen_anew().await?);
        }
        let ports: Vec<_> = elections.iter().map(port).collect();
        let mut elections = elections.into_iter();
        let mut rows = Vec::with_capacity(size);
        for from in 0..size {
            let mut row = Vec::with_capacity(size);
            for (to, [quorum, election]) in members.iter().enumerate() {
                let Some(listener) = elections.next().filter(|_| from != to) else {
                    row.push(None);
                    continue;
                };
                let protocol = Protocol::Election { back: ports[to * size + from] };
                let quorum = proxy(listen_anew().await?, *quorum, Protocol::Quorum)?;
                row.push(Some(Link { quorum, election: proxy(listener, *election, protocol)? }));
            }
            rows.push(row);
        }
        Ok(Self(rows))
    }

    /// Returns the ports for the quorum and the election at which `from` reaches `to`; `None` if they are the same
    /// member.
    pub(super) fn ports(&self, from: usize, to: usize) -> Option<[u16; 2]> {
        self.0[from][to].as_ref().map(|link| [link.quorum.port(), link.election.port()])
    }

    /// Parts two members in both protocols and both directions, whichever of them dials.
    pub(super) fn part(&self, one: usize, other: usize, how: Partition) -> Fault {
        let links = [&self.0[one][other], &self.0[other][one]];
        let proxies = links.into_iter().flatten().flat_map(|link| [&link.quorum, &link.election]);
        Fault::all(proxies.map(|proxy| match how {
            Partition::Silent => proxy.stall(Direction::Both),
            Partition::Refused => {
                let fault = proxy.refuse();
                proxy.cut(Cut::Reset);
                fault
            }
        }))
    }
}

fn port(listener: &TcpListener) -> u16 {
    listener.local_addr().map_or(0, |address| address.port())
}

fn proxy(
    listener: TcpListener,
    upstream: u16,
    protocol: Protocol,
) -> Result<FaultProxy, TestkitError> {
    FaultProxy::start_as(listener, format!("127.0.0.1:{upstream}"), protocol)
}
