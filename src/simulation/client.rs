//! The handles on a simulated client: where it connects, requests, watches, the state of the link.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::op::{Happened, Ids, Op};
use super::state::{Outcome, Peer, Phase, Watch, millis};
use super::tasks::Life;
use super::world::World;
use crate::client::{LinkState, ServerError};

/// A handle on a client; the session is closed with the last.
#[derive(Clone, Debug)]
pub(crate) struct Client(Arc<Handle>);

#[derive(Debug)]
struct Handle {
    world: Arc<World>,
    number: usize,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.world.change(|state| {
            let peer = &mut state.peers[self.number];
            peer.is_dropped = true;
            if peer.dialed.is_some() {
                // It never had a session.
                state.vanishes(self.number);
            } else if peer.phase == Phase::Serving {
                state.make(self.number, Op::Close, None);
            }
        });
    }
}

impl Client {
    fn inspect<T>(&self, inspect: impl FnOnce(&Peer) -> T) -> T {
        self.0.world.change(|state| inspect(&state.peers[self.0.number]))
    }

    pub(crate) fn session_id(&self) -> i64 {
        self.inspect(|peer| peer.session)
    }

    pub(crate) fn session_timeout(&self) -> Duration {
        Duration::from_millis(self.inspect(|peer| peer.timeout))
    }

    pub(crate) fn watch_link(&self) -> watch::Receiver<LinkState> {
        self.inspect(|peer| peer.state.subscribe())
    }

    /// Sends a request.
    pub(crate) fn ask(&self, op: Op) -> impl Future<Output = Outcome> + Send + use<> {
        let (reply, outcome) = oneshot::channel();
        self.0.world.change(|state| state.make(self.0.number, op, Some(reply)));
        async move { outcome.await.unwrap_or(Err(ServerError::ConnectionLoss.into())) }
    }
}

impl Future for Watch {
    type Output = Option<Happened>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let happened = Pin::new(&mut self.happened).poll(context);
        self.has_fired |= happened.is_ready();
        happened.map(Result::ok)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let is_its_own = |world: &Arc<World>| !self.has_fired && world.number == self.world;
        if let Some(world) = World::here().filter(is_its_own) {
            world.change(|state| state.unwatch(self.peer, self.id));
        }
    }
}

/// What a connect string `sim:W.L,sim:W.L` names: links of a world.
pub(crate) struct Target {
    pub(super) world: Arc<World>,
    pub(super) links: Vec<usize>,
    pub(super) timeout: Duration,
    pub(super) patience: Duration,
    pub(super) ids: Ids,
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
        let (dialed, outcome) = oneshot::channel();
        let number = self.world.change(|state| {
            let behind = |link: &usize| {
                let one = state.links.get(*link).and_then(|link| link.server);
                let servers = one.map_or(0..state.servers.len(), |one| one..one + 1);
                servers.map(|server| (*link, server)).collect::<Vec<_>>()
            };
            let number = state.peers.len();
            state.peers.push(Peer {
                ways: self.links.iter().flat_map(behind).collect(),
                tried: 0,
                patience: millis(self.patience),
                ids: self.ids.clone(),
                session: 0,
                timeout: millis(self.timeout),
                seen: 0,
                received: state.now,
                sent_at: state.now,
                conn: None,
                phase: Phase::Dialing,
                turn: 0,
                state: watch::Sender::new(LinkState::Disconnected),
                xid: 0,
                unsent: Vec::new(),
                sent: VecDeque::new(),
                watches: BTreeMap::new(),
                is_dropped: false,
                process: Life::current(),
                dialed: Some(dialed),
            });
            state.at(state.now, move |state| state.dial(number, 0));
            number
        });
        // Dropping it before that closes what was opened.
        let client = Client(Arc::new(Handle { world: self.world.clone(), number }));
        outcome.await.unwrap_or(Err(ServerError::ClientClosed))?;
        Ok(client)
    }
}
