//! The network: connections over links, messages on their way, and partitions.

use std::collections::{BTreeMap, VecDeque};

use super::event_queue::Event;
use super::fault::{Fate, SimLink};
use super::op::Operation;

/// The route of a message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Route {
    /// Over this connection, to the server.
    ToServer(u64),
    /// Over this connection, to the client.
    ToClient(u64),
    /// Out of the first server, into the second.
    BetweenServers(usize, usize),
}

impl Route {
    /// The route over a connection.
    pub(super) fn over(connection: u64, is_to_server: bool) -> Self {
        if is_to_server { Self::ToServer(connection) } else { Self::ToClient(connection) }
    }
}

/// A separation, as part of a [partition](super::Partition).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PartitionScope {
    /// No message passes between this client and the servers.
    Client(usize),
    /// No message passes from the first server to the second.
    Servers(usize, usize),
}

/// The messages on one route: first in, first out.
#[derive(Default)]
struct Channel {
    messages: VecDeque<Queued>,
    /// When the last message is due.
    last_due: u64,
    /// True if no more messages are sent.
    is_ended: bool,
    /// Additional time that each message takes.
    delay: u64,
}

struct Queued {
    due: u64,
    message: Event,
    /// The fault that holds the message back.
    held_by: Option<u64>,
}

struct Connection {
    client: usize,
    server: usize,
    link: usize,
    is_open_at_client: bool,
    is_open_at_server: bool,
}

#[derive(Default)]
pub(super) struct Network {
    links: Vec<SimLink>,
    connections: BTreeMap<u64, Connection>,
    opened: u64,
    channels: BTreeMap<Route, Channel>,
    /// The number of partitions by scope. Partitions may overlap.
    partitions: BTreeMap<PartitionScope, usize>,
}

impl Network {
    pub(super) fn add_link(&mut self, server: Option<usize>) -> usize {
        self.links.push(SimLink::new(server));
        self.links.len() - 1
    }

    pub(super) fn link(&self, number: usize) -> &SimLink {
        &self.links[number]
    }

    pub(super) fn link_mut(&mut self, number: usize) -> &mut SimLink {
        &mut self.links[number]
    }

    /// The only server behind a link; `None` if all are.
    pub(super) fn server_behind(&self, link: usize) -> Option<usize> {
        self.links.get(link).and_then(SimLink::server)
    }

    /// The connections over a link that are open at the client.
    pub(super) fn connections_over(&self, link: usize) -> Vec<u64> {
        let is_meant =
            |connection: &Connection| connection.link == link && connection.is_open_at_client;
        let meant = self.connections.iter().filter(|(_, connection)| is_meant(connection));
        meant.map(|(number, _)| *number).collect()
    }

    /// Opens a connection, unless the link refuses it.
    pub(super) fn open(&mut self, client: usize, link: usize, server: usize) -> Option<u64> {
        if !self.links[link].accept() {
            return None;
        }
        self.opened += 1;
        let connection =
            Connection { client, server, link, is_open_at_client: true, is_open_at_server: true };
        self.connections.insert(self.opened, connection);
        Some(self.opened)
    }

    pub(super) fn client_of(&self, connection: u64) -> Option<usize> {
        self.connections.get(&connection).map(|connection| connection.client)
    }

    pub(super) fn server_of(&self, connection: u64) -> Option<usize> {
        self.connections.get(&connection).map(|connection| connection.server)
    }

    /// The client has closed the connection.
    pub(super) fn close_at_client(&mut self, number: u64) {
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.is_open_at_client = false;
        }
        self.forget(number);
    }

    /// The server has closed the connection.
    pub(super) fn close_at_server(&mut self, number: u64) {
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.is_open_at_server = false;
        }
        self.forget(number);
    }

    /// Drops the messages to an end that is closed, and a connection that is closed at both ends.
    fn forget(&mut self, number: u64) {
        let Some(connection) = self.connections.get(&number) else { return };
        let is_open_at_server = connection.is_open_at_server;
        if connection.is_open_at_client {
            return;
        }
        self.channels.remove(&Route::ToClient(number));
        if !is_open_at_server {
            self.channels.remove(&Route::ToServer(number));
            self.connections.remove(&number);
        }
    }

    /// Lets the faults of the link act on a message that is sent over a connection. Returns `None` if the sender has
    /// already ended its direction: such a message is lost, and neither counts nor faults see it.
    pub(super) fn pass(
        &mut self,
        number: u64,
        is_to_server: bool,
        operation: Option<Operation>,
    ) -> Option<Fate> {
        let connection = self.connections.get(&number)?;
        let channel = self.channels.entry(Route::over(number, is_to_server)).or_default();
        if channel.is_ended {
            return None;
        }
        channel.is_ended = operation.is_none();
        Some(self.links[connection.link].pass(number, is_to_server, operation))
    }

    /// Queues a message, and returns when it is due: not before `soonest`, nor before the message ahead of it.
    pub(super) fn queue(
        &mut self,
        route: Route,
        soonest: u64,
        held_by: Option<u64>,
        message: Event,
    ) -> u64 {
        let channel = self.channels.entry(route).or_default();
        let due = channel.last_due.max(soonest + channel.delay);
        channel.last_due = due;
        channel.messages.push_back(Queued { due, message, held_by });
        due
    }

    /// Takes the next message of a route, if it is due and not blocked.
    pub(super) fn take_due(&mut self, route: Route, now: u64) -> Option<Event> {
        let first = self.channels.get(&route)?.messages.front()?;
        if first.due > now || self.blocks(route, first.held_by) {
            return None;
        }
        let queued = self.channels.get_mut(&route)?.messages.pop_front()?;
        Some(queued.message)
    }

    fn blocks(&self, route: Route, held_by: Option<u64>) -> bool {
        let (number, is_to_server) = match route {
            Route::ToServer(number) => (number, true),
            Route::ToClient(number) => (number, false),
            Route::BetweenServers(from, to) => {
                return self.is_partitioned(PartitionScope::Servers(from, to));
            }
        };
        let Some(connection) = self.connections.get(&number) else { return true };
        self.is_partitioned(PartitionScope::Client(connection.client))
            || self.links[connection.link].blocks(is_to_server, held_by)
    }

    /// The number of messages on each route.
    pub(super) fn waiting(&self) -> Vec<(Route, usize)> {
        let channels = self.channels.iter();
        channels.map(|(route, channel)| (*route, channel.messages.len())).collect()
    }

    /// Loses a random part of the messages on a connection, the last ones first, unless one direction has ended.
    pub(super) fn lose_some(&mut self, connection: u64, rng: &mut fastrand::Rng) {
        let routes = [Route::ToServer(connection), Route::ToClient(connection)];
        let has_ended = |route| self.channels.get(route).is_some_and(|channel| channel.is_ended);
        if routes.iter().any(has_ended) {
            return;
        }
        for route in routes {
            let messages = &mut self.channels.entry(route).or_default().messages;
            messages.truncate(rng.usize(..=messages.len()));
        }
    }

    /// Loses all messages from one server to another.
    pub(super) fn lose_all(&mut self, from: usize, to: usize) {
        let channel = self.channels.entry(Route::BetweenServers(from, to)).or_default();
        channel.messages.clear();
    }

    /// Delays all later messages from one server to another.
    pub(super) fn set_delay(&mut self, from: usize, to: usize, delay: u64) {
        self.channels.entry(Route::BetweenServers(from, to)).or_default().delay = delay;
    }

    pub(super) fn partition(&mut self, scopes: &[PartitionScope]) {
        for scope in scopes {
            *self.partitions.entry(*scope).or_default() += 1;
        }
    }

    pub(super) fn heal(&mut self, scopes: &[PartitionScope]) {
        for scope in scopes {
            if let Some(number) = self.partitions.get_mut(scope) {
                *number -= 1;
            }
        }
        self.partitions.retain(|_, number| *number > 0);
    }

    pub(super) fn is_partitioned(&self, scope: PartitionScope) -> bool {
        self.partitions.contains_key(&scope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_partitions_that_overlap_one_is_left_when_the_other_is_healed() {
        let mut network = Network::default();
        let [both, one] = [0, 1].map(PartitionScope::Client);
        network.partition(&[both, one]);
        network.partition(&[both]);
        network.heal(&[both, one]);
        assert_eq!([both, one].map(|scope| network.is_partitioned(scope)), [true, false]);
        network.heal(&[both]);
        assert!(!network.is_partitioned(both));
    }
}
