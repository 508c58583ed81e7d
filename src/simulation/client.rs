//! The handles on a simulated client: where it connects, requests, watches, the state of the link.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::op::{Happened, Ids, Op, Refused};
use super::peer::{Outcome, Peer, Phase, Watch};
use super::state::millis;
use super::tasks::Life;
use super::world::World;
use crate::client::{LinkState, ServerError};

/// A handle on a client; the session is closed with the last.
#[derive(Debug)]
pub(crate) struct Client {
    world: Arc<World>,
    number: usize,
}

impl Clone for Client {
    fn clone(&self) -> Self {
        self.world.change(|state| state.peers[self.number].handles += 1);
        Self { world: self.world.clone(), number: self.number }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.world.change(|state| {
            let peer = &mut state.peers[self.number];
            peer.handles -= 1;
            match (peer.handles, peer.phase) {
                // It never had a session.
                (0, _) if peer.dialed.is_some() => state.died(&[self.number]),
                (0, Phase::Serving) => state.make(self.number, Op::Close, None),
                _ => {}
            }
        });
    }
}

impl Client {
    /// Opens a session with the servers behind links of this thread's world.
    pub(crate) async fn dial(
        world: Arc<World>,
        links: &[usize],
        timeout: Duration,
        patience: Duration,
        ids: Ids,
    ) -> Result<Self, ServerError> {
        let (dialed, outcome) = oneshot::channel();
        let number = world.change(|state| {
            let behind = |link: &usize| {
                let one = state.links.get(*link).and_then(|link| link.server);
                let servers = one.map_or(0..state.servers.len(), |one| one..one + 1);
                servers.map(|server| (*link, server)).collect::<Vec<_>>()
            };
            let ways = links.iter().flat_map(behind).collect();
            state.new_peer(Peer {
                ways,
                tried: 0,
                asked: millis(timeout),
                patience: millis(patience),
                ids,
                session: 0,
                timeout: millis(timeout),
                seen: 0,
                received: state.now,
                sent_at: state.now,
                is_pinging: false,
                conn: None,
                phase: Phase::Dialing,
                turn: 0,
                state: watch::Sender::new(LinkState::Disconnected),
                xid: 0,
                unsent: VecDeque::new(),
                sent: VecDeque::new(),
                watches: BTreeMap::new(),
                handles: 1,
                process: Life::current(),
                dialed: Some(dialed),
                parted: false,
            })
        });
        // Dropping it before that closes what was opened.
        let client = Self { world, number };
        outcome.await.unwrap_or(Err(ServerError::ClientClosed))?;
        Ok(client)
    }

    pub(crate) fn session_id(&self) -> i64 {
        self.world.change(|state| state.peers[self.number].session)
    }

    pub(crate) fn session_timeout(&self) -> Duration {
        Duration::from_millis(self.world.change(|state| state.peers[self.number].timeout))
    }

    pub(crate) fn watch_link(&self) -> watch::Receiver<LinkState> {
        self.world.change(|state| state.peers[self.number].state.subscribe())
    }

    /// Sends a request.
    pub(crate) fn ask(&self, op: Op) -> impl Future<Output = Outcome> + Send + use<> {
        let (reply, outcome) = oneshot::channel();
        self.world.change(|state| state.make(self.number, op, Some(reply)));
        async move {
            let lost = Refused { step: None, error: ServerError::ConnectionLoss };
            outcome.await.unwrap_or(Err(lost))
        }
    }
}

impl Future for Watch {
    type Output = Option<Happened>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let happened = Pin::new(&mut self.happened).poll(context);
        happened.map(|happened| {
            self.has_fired = true;
            happened.ok()
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let is_its_own = |world: &Arc<World>| !self.has_fired && world.number == self.world;
        if let Some(world) = World::here().filter(is_its_own) {
            let path = std::mem::take(&mut self.path);
            world.change(|state| state.unwatch(self.peer, path, self.id));
        }
    }
}

/// What a connect string `sim:W.L,sim:W.L` names: links of a world.
pub(crate) struct Target {
    world: Arc<World>,
    links: Vec<usize>,
    timeout: Duration,
    patience: Duration,
    ids: Ids,
}

impl Target {
    /// `servers` is what follows the first `sim:`.
    pub(crate) fn parse(
        servers: &str,
        timeout: Duration,
        patience: Duration,
    ) -> Result<Self, &'static str> {
        let numbers = |server: &str| {
            let (world, link) = server.trim_start_matches("sim:").split_once('.')?;
            Some((world.parse().ok()?, link.parse().ok()?))
        };
        let numbers: Option<Vec<(u64, usize)>> = servers.split(',').map(numbers).collect();
        let numbers =
            numbers.ok_or("a simulation's is one that `Ensemble::connect_string` gave")?;
        let is_here = |world: &Arc<World>| numbers.iter().all(|(one, _)| *one == world.number);
        let world = World::here().filter(is_here);
        let world = world.ok_or("that simulation is over, or runs on another thread")?;
        let links = numbers.into_iter().map(|(_, link)| link).collect();
        Ok(Self { world, links, timeout, patience, ids: Ids::default() })
    }

    /// Credentials that each session shows. They are taken as they are: no password is hashed.
    pub(crate) fn show(&mut self, auths: Vec<(String, Vec<u8>)>) {
        let id = |(scheme, shown): (String, Vec<u8>)| {
            (scheme, String::from_utf8_lossy(&shown).into_owned())
        };
        self.ids = Ids::new(auths.into_iter().map(id).collect());
    }

    /// Opens a session.
    pub(crate) async fn dial(&self) -> Result<Client, ServerError> {
        let Self { world, links, timeout, patience, ids } = self;
        Client::dial(world.clone(), links, *timeout, *patience, ids.clone()).await
    }
}
