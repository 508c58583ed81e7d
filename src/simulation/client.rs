//! The handle on a simulated client, and the connect string that it is opened by.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};

use super::op::{Ids, Op};
use super::sim_client::{Address, Outcome, SimClient};
use super::state::{State, millis};
use super::world::World;
use crate::client::{LinkState, Reconnecting, ServerError};

/// A handle on a client. Dropping the last handle closes the session.
#[derive(Clone, Debug)]
pub(crate) struct Client(Arc<Handle>);

#[derive(Debug)]
struct Handle {
    world: Arc<World>,
    number: usize,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.world.change(|state| state.handle_dropped(self.number));
    }
}

impl Client {
    fn inspect<T>(&self, inspect: impl FnOnce(&SimClient) -> T) -> T {
        self.0.world.change(|state| inspect(&state.clients[self.0.number]))
    }

    pub(crate) fn session_id(&self) -> i64 {
        self.inspect(SimClient::shown_session)
    }

    pub(crate) fn session_timeout(&self) -> Duration {
        Duration::from_millis(self.inspect(SimClient::timeout))
    }

    pub(crate) fn watch_link(&self) -> watch::Receiver<LinkState> {
        self.inspect(|client| client.link_state().subscribe())
    }

    /// Sends a request.
    pub(crate) fn ask(&self, op: Op) -> impl Future<Output = Outcome> + Send + use<> {
        let (reply, outcome) = oneshot::channel();
        self.0.world.change(|state| state.make_request(self.0.number, op, Some(reply)));
        async move { outcome.await.unwrap_or(Err(ServerError::ConnectionLoss.into())) }
    }
}

/// The links of a world that a connect string `sim:W.L,sim:W.L` names.
pub(crate) struct Target {
    pub(super) world: Arc<World>,
    pub(super) links: Vec<usize>,
    pub(super) timeout: Duration,
    pub(super) ids: Ids,
}

impl Target {
    /// Parses a connect string, without the first `sim:`.
    pub(crate) fn parse(servers: &str, timeout: Duration) -> Result<Self, &'static str> {
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
        Ok(Self { world, links, timeout, ids: Ids::default() })
    }

    /// Sets the credentials that each session shows. Passwords are not hashed.
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
            let addresses = self.addresses(state);
            let plan = Reconnecting::plan(addresses.len(), self.timeout, false);
            let client = SimClient::new(
                addresses.repeat(plan.copies),
                self.ids.clone(),
                millis(self.timeout),
                millis(plan.silence),
                state.events.now(),
                dialed,
            );
            state.add_client(client)
        });
        // If this future is dropped, the handle closes the session.
        let client = Client(Arc::new(Handle { world: self.world.clone(), number }));
        outcome.await.unwrap_or(Err(ServerError::ClientClosed))?;
        Ok(client)
    }

    /// The addresses behind the links: one server, or all servers.
    fn addresses(&self, state: &State) -> Vec<Address> {
        let mut addresses = Vec::new();
        for link in self.links.iter().copied() {
            let servers = match state.network.server_behind(link) {
                Some(server) => server..server + 1,
                None => 0..state.servers.len(),
            };
            addresses.extend(servers.map(|server| Address { link, server }));
        }
        addresses
    }
}
