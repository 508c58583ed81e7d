//! What lies between the members of an ensemble: for each ordered pair a relay of the quorum protocol and one of the
//! election protocol, so that two members can be parted while clients still reach both.
//!
//! A relay does what the network would do. While it stalls, nothing arrives, not even a new connection: the relay takes
//! it, as it cannot do otherwise, and reaches out for the other member only afterwards. An open but silent connection
//! would block the election's listener for everybody.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::TestkitError;

/// A leader listens a moment after its election. Who dials it directly is refused and dials again this often; who dials
/// it through us was not refused, and would go back to the election.
const DIALS: u32 = 5;
const BETWEEN_DIALS: Duration = Duration::from_millis(100);
const BUFFER: usize = 16 * 1024;
/// An address takes a few dozen bytes, its length four.
const ADDRESS_LIMIT: u32 = 512;

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

/// Something is broken until this is dropped.
#[derive(Debug)]
#[must_use = "dropping the fault heals it"]
pub struct Fault {
    _parted: Vec<Parted>,
}

impl Fault {
    pub(super) fn of(parted: Vec<Parted>) -> Self {
        Self { _parted: parted }
    }

    /// Ends the fault, as dropping it does.
    pub fn heal(self) {}
}

/// All relays. They end with this value.
#[derive(Debug)]
pub(super) struct Links {
    /// The relays' ports by the members `from` and `to`; nothing where the two are the same.
    ports: Vec<Vec<Option<[u16; 2]>>>,
    /// By the pair's lower member, then by its higher one.
    faults: Vec<Vec<watch::Sender<Faults>>>,
    _relays: JoinSet<()>,
}

/// How many faults of each kind there are at the moment.
#[derive(Debug, Clone, Copy, Default)]
struct Faults {
    silent: usize,
    refused: usize,
}

impl Faults {
    fn of(&mut self, how: Partition) -> &mut usize {
        match how {
            Partition::Silent => &mut self.silent,
            Partition::Refused => &mut self.refused,
        }
    }
}

/// Two members are parted until this is dropped.
#[derive(Debug)]
pub(super) struct Parted {
    faults: watch::Sender<Faults>,
    how: Partition,
}

impl Drop for Parted {
    fn drop(&mut self) {
        self.faults.send_modify(|faults| *faults.of(self.how) -= 1);
    }
}

impl Links {
    /// `members` are the ports of the quorum and of the election, on which the members themselves listen.
    pub(super) async fn start(members: &[[u16; 2]]) -> Result<Self, TestkitError> {
        let bound = bind(members.len()).await;
        let listeners = bound.map_err(TestkitError::io("listen for the members of an ensemble"))?;
        let ports: Vec<Vec<_>> = listeners
            .iter()
            .map(|row| {
                row.iter().map(|pair| pair.as_ref().map(|pair| pair.each_ref().map(port))).collect()
            })
            .collect();
        let faults: Vec<Vec<_>> = (0..members.len())
            .map(|_| members.iter().map(|_| watch::Sender::new(Faults::default())).collect())
            .collect();
        let mut relays = JoinSet::new();
        for (from, row) in listeners.into_iter().enumerate() {
            for (to, pair) in row.into_iter().enumerate() {
                let (Some([quorum, election]), Some([_, back])) = (pair, ports[to][from]) else {
                    continue;
                };
                let faults = faults[from.min(to)][from.max(to)].subscribe();
                let [quorum_port, election_port] = members[to];
                let relay = Relay { upstream: quorum_port, protocol: Protocol::Quorum, faults };
                let election_relay = Relay {
                    upstream: election_port,
                    protocol: Protocol::Election { back },
                    faults: relay.faults.clone(),
                };
                relays.spawn(relay.run(quorum));
                relays.spawn(election_relay.run(election));
            }
        }
        Ok(Self { ports, faults, _relays: relays })
    }

    /// Of the relays to the quorum and to the election of `to`, for `from`.
    pub(super) fn ports(&self, from: usize, to: usize) -> Option<[u16; 2]> {
        self.ports[from][to]
    }

    /// Both protocols, both directions, whoever dials.
    pub(super) fn part(&self, one: usize, other: usize, how: Partition) -> Parted {
        let faults = self.faults[one.min(other)][one.max(other)].clone();
        faults.send_modify(|faults| *faults.of(how) += 1);
        Parted { faults, how }
    }
}

type Pair = Option<[TcpListener; 2]>;

async fn bind(size: usize) -> io::Result<Vec<Vec<Pair>>> {
    let mut rows = Vec::with_capacity(size);
    for from in 0..size {
        let mut row = Vec::with_capacity(size);
        for to in 0..size {
            let any = (Ipv4Addr::LOCALHOST, 0);
            let pair = [TcpListener::bind(any).await?, TcpListener::bind(any).await?];
            row.push((from != to).then_some(pair));
        }
        rows.push(row);
    }
    Ok(rows)
}

fn port(listener: &TcpListener) -> u16 {
    listener.local_addr().map_or(0, |address| address.port())
}

#[derive(Debug, Clone, Copy)]
enum Protocol {
    Quorum,
    /// The port by which the other member reaches the one that dials here.
    Election {
        back: u16,
    },
}

/// The way from one member to another, in one protocol.
#[derive(Debug, Clone)]
struct Relay {
    upstream: u16,
    protocol: Protocol,
    faults: watch::Receiver<Faults>,
}

impl Relay {
    async fn run(self, listener: TcpListener) {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                // An error concerns one connection, or is the lack of file handles, which others may give back.
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => { connections.spawn(self.clone().connection(stream)); }
                    Err(_) => sleep(BETWEEN_DIALS).await,
                },
                Some(_) = connections.join_next() => {}
            }
        }
    }

    async fn connection(self, near: TcpStream) {
        let mut faults = self.faults.clone();
        tokio::select! {
            biased;
            _ = faults.wait_for(|faults| faults.refused > 0) => {}
            ended = self.relay(near) => {
                if let Err(error) = ended {
                    tracing::trace!("a connection to a member's port {} ended: {error}", self.upstream);
                }
            }
        }
    }

    async fn relay(&self, mut near: TcpStream) -> io::Result<()> {
        let mut first = Vec::new();
        let mut faults = self.faults.clone();
        loop {
            tokio::select! {
                biased;
                () = until_audible(&mut faults) => break,
                // Who gives up in the meantime was never here.
                read = near.read_buf(&mut first) => if read? == 0 {
                    return Ok(());
                },
            }
        }
        let mut far = self.dial().await?;
        near.set_nodelay(true)?;
        far.set_nodelay(true)?;
        if let Protocol::Election { back } = self.protocol {
            let rest = std::mem::take(&mut first);
            let mut input = io::Cursor::new(rest);
            let greeting = greeting(&mut (&mut input).chain(&mut near), back).await?;
            far.write_all(&greeting).await?;
            let read = usize::try_from(input.position()).unwrap_or(usize::MAX);
            first = input.into_inner().split_off(read);
        }
        far.write_all(&first).await?;
        let (near_read, near_write) = near.into_split();
        let (far_read, far_write) = far.into_split();
        tokio::try_join!(
            pump(near_read, far_write, self.faults.clone()),
            pump(far_read, near_write, self.faults.clone()),
        )?;
        Ok(())
    }

    async fn dial(&self) -> io::Result<TcpStream> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.upstream));
        let dials = if matches!(self.protocol, Protocol::Quorum) { DIALS } else { 1 };
        for _ in 1..dials {
            if let Ok(stream) = TcpStream::connect(address).await {
                return Ok(stream);
            }
            sleep(BETWEEN_DIALS).await;
        }
        TcpStream::connect(address).await
    }
}

async fn until_audible(faults: &mut watch::Receiver<Faults>) {
    // An error means that the ensemble is gone, and this task with it.
    let _ = faults.wait_for(|faults| faults.silent == 0).await;
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut faults: watch::Receiver<Faults>,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let length = from.read(&mut buffer).await?;
        until_audible(&mut faults).await;
        if length == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..length]).await?;
    }
}

/// The first message of the election protocol, with `127.0.0.1:BACK` for the sender's address.
///
/// A member that is dialed by a lower one hangs up and dials the address that it was told, not the one in its own
/// configuration: it would go past us.
async fn greeting(from: &mut (impl AsyncReadExt + Unpin), back: u16) -> io::Result<Vec<u8>> {
    let version = from.read_i64().await?;
    let mut message = version.to_be_bytes().to_vec();
    // Before there were versions, this was the sender's number, and nothing followed.
    if version >= 0 {
        return Ok(message);
    }
    message.extend(from.read_i64().await?.to_be_bytes());
    let length = from.read_u32().await?;
    if length > ADDRESS_LIMIT {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut theirs = vec![0; length as usize];
    from.read_exact(&mut theirs).await?;
    let ours = format!("127.0.0.1:{back}");
    message.extend(u32::try_from(ours.len()).unwrap_or_default().to_be_bytes());
    message.extend(ours.as_bytes());
    Ok(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_greeting_tells_the_way_back_through_us() {
        let mut sent = (-65_536_i64).to_be_bytes().to_vec();
        sent.extend(3_i64.to_be_bytes());
        sent.extend(15_u32.to_be_bytes());
        sent.extend(b"127.0.0.1:20001rest");
        let mut input = sent.as_slice();
        let told = greeting(&mut input, 4_000).await.expect("a greeting");
        assert_eq!(input, b"rest");
        assert_eq!(told[..16], sent[..16]);
        assert_eq!(told[16..], *b"\0\0\0\x0e127.0.0.1:4000");

        let old = 3_i64.to_be_bytes();
        assert_eq!(greeting(&mut old.as_slice(), 4_000).await.expect("a greeting"), old);

        for bad in [&sent[..10], &[0xff; 64][..]] {
            let mut input = bad;
            greeting(&mut input, 4_000).await.expect_err("not a greeting");
        }
    }
}
