//! Messages: sending them, and delivering those that are due.

use super::event_queue::Event;
use super::fault::Cut;
use super::network::Route;
use super::op::Operation;
use super::recording::{Message, Place, Span};
use super::state::State;

impl State {
    /// Opens a connection of a client, unless the link refuses it.
    pub(super) fn open(&mut self, client: usize, link: usize, server: usize) -> Option<u64> {
        let connection = self.network.open(client, link, server)?;
        let process = self.clients[client].process().number();
        self.recorded(|recording, _| recording.link_used(link, process));
        self.servers[server].connections.open(connection);
        Some(connection)
    }

    /// Sends a message to the server of a connection. Without an operation the message is the end of the connection.
    pub(super) fn send_to_server(
        &mut self,
        connection: u64,
        operation: Option<Operation>,
        message: impl FnOnce(&mut Self) + Send + 'static,
    ) {
        let arrives = move |state: &mut Self| {
            // A message that arrives after the server has closed the connection is lost.
            if state.server_connection(connection).is_some() {
                message(state);
            }
        };
        self.send(connection, true, operation, Box::new(arrives));
    }

    /// Sends a message to the client of a connection.
    pub(super) fn send_to_client(
        &mut self,
        connection: u64,
        operation: Option<Operation>,
        message: impl FnOnce(&mut Self, usize) + Send + 'static,
    ) {
        let arrives = move |state: &mut Self| {
            let Some(client) = state.network.client_of(connection) else { return };
            if state.clients[client].receives(connection, state.events.now()) {
                message(state, client);
            } else {
                state.close_at_client(connection);
            }
        };
        self.send(connection, false, operation, Box::new(arrives));
    }

    fn send(
        &mut self,
        connection: u64,
        is_to_server: bool,
        operation: Option<Operation>,
        message: Event,
    ) {
        let Some(fate) = self.network.pass(connection, is_to_server, operation) else { return };
        let route = Route::over(connection, is_to_server);
        if fate.is_lost {
            self.recorded_message(route, operation, true)(self);
        } else {
            self.dispatch(route, operation, fate.delay, fate.held_by, message);
        }
        if let Some(cut) = fate.cut {
            self.cut_connection(connection, cut);
        }
    }

    /// Puts a message on its route.
    pub(super) fn dispatch(
        &mut self,
        route: Route,
        operation: Option<Operation>,
        delay: u64,
        held_by: Option<u64>,
        message: Event,
    ) {
        let recorded = self.recorded_message(route, operation, false);
        let message = move |state: &mut Self| {
            recorded(state);
            message(state);
        };
        let latency = self.rng.u64(self.settings.latency.clone());
        let soonest = self.events.now() + latency + delay;
        let due = self.network.queue(route, soonest, held_by, Box::new(message));
        self.events.at(due, move |state| state.arrive(route));
    }

    /// Returns a function that records a message that is sent now, when it arrives or is lost.
    fn recorded_message(
        &self,
        route: Route,
        operation: Option<Operation>,
        is_lost: bool,
    ) -> impl FnOnce(&mut Self) + Send + use<> {
        let ends = self.recording.is_on().then(|| self.ends_of(route)).flatten();
        let sent = self.events.now();
        move |state| {
            if let Some((from, to)) = ends {
                state.recorded(|recording, now| {
                    let span = Span { from: sent, to: now };
                    recording.messages.push(Message { from, to, span, operation, is_lost });
                });
            }
        }
    }

    fn ends_of(&self, route: Route) -> Option<(Place, Place)> {
        let ends = |connection: u64| {
            let client = &self.clients[self.network.client_of(connection)?];
            let client = match client.process().number() {
                0 => Place::Session(client.session()),
                process => Place::Process(process),
            };
            Some((client, Place::Server(self.network.server_of(connection)?)))
        };
        match route {
            Route::ToServer(connection) => ends(connection),
            Route::ToClient(connection) => {
                ends(connection).map(|(client, server)| (server, client))
            }
            Route::BetweenServers(from, to) => Some((Place::Server(from), Place::Server(to))),
        }
    }

    /// Delivers the next message of a route, if there is one that may arrive.
    fn arrive(&mut self, route: Route) {
        if !self.receiver_reads(route) {
            return;
        }
        if let Some(message) = self.network.take_due(route, self.events.now()) {
            message(self);
        }
    }

    fn receiver_reads(&mut self, route: Route) -> bool {
        match route {
            Route::BetweenServers(_, to) => !self.servers[to].is_paused(),
            Route::ToClient(connection) => self
                .network
                .client_of(connection)
                .is_some_and(|client| !self.clients[client].process().is_paused()),
            Route::ToServer(connection) => {
                let Some(server) = self.network.server_of(connection) else { return false };
                let server = &mut self.servers[server];
                let shakes_hands = server
                    .connections
                    .get_mut(connection)
                    .is_some_and(|connection| connection.shakes_hands());
                !server.is_paused() && !shakes_hands
            }
        }
    }

    /// Tries to deliver all waiting messages, after an obstacle may have disappeared.
    pub(super) fn deliver_waiting(&mut self) {
        let now = self.events.now();
        for (route, count) in self.network.waiting() {
            for _ in 0..count {
                self.events.at(now, move |state| state.arrive(route));
            }
        }
    }

    /// Cuts a connection. Both ends learn of it, after the messages that still arrive.
    pub(super) fn cut_connection(&mut self, connection: u64, cut: Cut) {
        if cut == Cut::Reset {
            self.network.lose_some(connection, &mut self.rng);
        }
        self.send_to_server(connection, None, move |state| state.close_at_server(connection));
        self.send_to_client(connection, None, Self::connection_lost);
    }

    /// The client closes a connection.
    pub(super) fn close_at_client(&mut self, connection: u64) {
        self.send_to_server(connection, None, move |state| state.close_at_server(connection));
        self.network.close_at_client(connection);
    }
}
