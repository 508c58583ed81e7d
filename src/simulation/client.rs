//! The handles on a simulated client: requests, watches, the state of the link.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::millis;
use super::op::{Happened, Ids, Op, Refused};
use super::peer::{Outcome, Peer, Phase};
use super::process::Process;
use super::world::World;
use crate::client::{LinkState, ServerError};

/// A handle on a client; the session is closed with the last.
#[derive(Debug)]
pub(crate) struct Client {
    world: Arc<World>,
    number: usize,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("number", &self.number).finish_non_exhaustive()
    }
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
                process: Process::current(),
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

/// A one-shot watch. Resolves with nothing when the session is over.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(super) world: Option<Arc<World>>,
    pub(super) peer: usize,
    pub(super) path: String,
    pub(super) id: u64,
    pub(super) happened: oneshot::Receiver<Happened>,
    pub(super) has_fired: bool,
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
        if let (false, Some(world)) = (self.has_fired, &self.world) {
            let path = std::mem::take(&mut self.path);
            world.change(|state| state.unwatch(self.peer, path, self.id));
        }
    }
}
