//! What lies between the members of an ensemble: for each ordered pair a proxy of the quorum protocol and one of the
//! election protocol, so that two members can be parted while clients still reach both.

use tokio::net::TcpListener;

use super::TestkitError;
use super::port::listen_anew;
use super::proxy::{Cut, Direction, Fault, FaultProxy, Protocol};

/// How two members are parted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Partition {
    /// What is sent does not arrive, new connections neither, and nobody is told: a black hole. What was sent arrives when
    /// it heals.
    Silent,
    /// Connections are reset, new ones at once: the other machine's system answers, its server does not.
    Refused,
}

/// All proxies. They end with this value.
#[derive(Debug)]
pub(super) struct Links(Vec<Vec<Option<Link>>>);

/// The way by which one member dials another.
#[derive(Debug)]
struct Link {
    quorum: FaultProxy,
    election: FaultProxy,
}

impl Links {
    /// `members` are the ports of the quorum and of the election, on which the members themselves listen.
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

    /// The ports of the quorum and of the election of `to`, for `from`; `None` if these are the same.
    pub(super) fn ports(&self, from: usize, to: usize) -> Option<[u16; 2]> {
        self.0[from][to].as_ref().map(|link| [link.quorum.port(), link.election.port()])
    }

    /// Both protocols, both directions, whoever dials.
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
