//! The steps of simulated clients: the behaviour of `zookeeper-client`, without sockets.
//!
//! * A request is sent when it is made. Without a connection the request waits, and after a reconnect until the watches
//!   are set again.
//! * When a connection breaks, the link state changes first; then the requests that were sent fail.
//! * A watch fires before any later answer. Dropping a watch that has not fired removes it at the server.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::client_watches::Watch;
use super::network::PartitionScope;
use super::op::{Happened, Op, Operation, Refused, Reply};
use super::process_state::ProcessState;
use super::sim_client::{Address, Outcome, Phase, SimClient};
use super::state::State;
use super::tree::Origin;
use crate::client::{LinkState, ServerError};

impl State {
    /// Adds a client, which begins to dial.
    pub(super) fn add_client(&mut self, client: SimClient) -> usize {
        let number = self.clients.len();
        self.clients.push(client);
        self.events.after(0, move |state| state.dial(number, 0));
        number
    }

    /// Makes a request.
    pub(super) fn make_request(
        &mut self,
        number: usize,
        op: Op,
        reply: Option<oneshot::Sender<Outcome>>,
    ) {
        let client = &mut self.clients[number];
        if client.process().is_dead() {
            return;
        }
        // The real client does not send such a request.
        if op.lacks_acls() {
            return self.answer(reply, Err(ServerError::InvalidAcl.into()));
        }
        match client.phase() {
            Phase::Ended => {
                let error = error_after(*client.link_state().borrow());
                self.answer(reply, Err(error.into()));
            }
            Phase::Ready => self.send_request(number, op, reply),
            _ => client.defer(Box::new(move |state| state.make_request(number, op, reply))),
        }
    }

    fn answer(&mut self, reply: Option<oneshot::Sender<Outcome>>, outcome: Outcome) {
        if let Some(reply) = reply {
            self.effect(move || drop(reply.send(outcome)));
        }
    }

    fn send_request(&mut self, number: usize, op: Op, reply: Option<oneshot::Sender<Outcome>>) {
        let now = self.events.now();
        let sent = self.clients[number].record_sent(op.clone(), reply, now);
        let Some((connection, xid)) = sent else { return };
        let Some(server) = self.network.server_of(connection) else { return };
        let origin = Origin { server, connection, xid };
        self.send_to_server(connection, Some(op.operation()), move |state| {
            state.request_arrived(origin, op);
        });
    }

    /// Dials the next server.
    fn dial(&mut self, number: usize, timer: u64) {
        let now = self.events.now();
        let client = &mut self.clients[number];
        if !client.may_dial(timer) {
            return;
        }
        let Some(address) = client.next_address(now, &mut self.rng) else {
            return self.end_session(number, LinkState::Expired);
        };
        let Address { link, server } = address;
        let is_partitioned = self.network.is_partitioned(PartitionScope::Client(number));
        if is_partitioned || self.servers[server].is_paused() {
            // No server answers, and the attempt times out.
            let waited = client.silence_limit();
            return self.dial_again(number, waited);
        }
        if !self.servers[server].serves() {
            return self.dial_again(number, 1);
        }
        let Some(connection) = self.open(number, link, server) else {
            return self.dial_again(number, 1);
        };
        let client = &mut self.clients[number];
        let handshake = client.begin_handshake(connection, now);
        let watches = client.watches_to_set();
        self.send_to_server(connection, Some(Operation::Connect), move |state| {
            state.begin_handshake(connection, server, handshake);
        });
        if let Some(set_watches) = watches {
            self.send_request(number, set_watches, None);
        }
        self.check_later(number);
    }

    fn dial_again(&mut self, number: usize, waited: u64) {
        let now = self.events.now();
        let client = &mut self.clients[number];
        let at = client.dials_at(now, waited, &mut self.rng);
        let timer = client.start_timer();
        self.events.at(at, move |state| state.dial(number, timer));
    }

    fn check_later(&mut self, number: usize) {
        let client = &mut self.clients[number];
        let at = client.checks_at(self.events.now());
        let timer = client.start_timer();
        self.events.at(at, move |state| state.check(number, timer));
    }

    /// Pings the server when that is due, and leaves a server that is silent for too long.
    fn check(&mut self, number: usize, timer: u64) {
        let now = self.events.now();
        let client = &self.clients[number];
        if !client.may_check(timer) {
            return;
        }
        if client.is_silent(now) {
            return self.connection_lost(number);
        }
        if client.must_ping(now) {
            self.send_request(number, Op::Ping, None);
        }
        self.check_later(number);
    }

    /// The answer to the handshake arrives. Without a timeout the session has ended.
    pub(super) fn handshake_ended(&mut self, number: usize, session: i64, timeout: Option<u64>) {
        let Some(timeout) = timeout else { return self.end_session(number, LinkState::Expired) };
        self.clients[number].end_handshake(session, timeout);
        let process = self.clients[number].process().number();
        self.recorded(|recording, _| recording.session_of(session, process));
        self.set_link_state(number, LinkState::Connected);
        self.send_request(number, Op::Ping, None);
        self.check_later(number);
    }

    fn set_link_state(&mut self, number: usize, state: LinkState) {
        let client = &self.clients[number];
        let session = client.session();
        let sender = client.link_state().clone();
        self.note(format_args!("client {number} {session:#x} {state:?}"));
        self.effect(move || {
            sender.send_if_modified(|now| std::mem::replace(now, state) != state);
        });
    }

    /// Sends the requests that have waited, once the client is ready.
    fn become_ready(&mut self, number: usize) {
        let now = self.events.now();
        let client = &mut self.clients[number];
        let Some(unsent) = client.become_ready(now) else { return };
        if let Some(dialed) = client.take_dialed() {
            self.effect(move || drop(dialed.send(Ok(()))));
        }
        unsent.into_iter().for_each(|request| request(self));
        if self.clients[number].is_dropped() {
            self.make_request(number, Op::Close, None);
        }
        self.check_later(number);
    }

    /// The reply to a request arrives.
    pub(super) fn reply_arrived(&mut self, number: usize, xid: i32, zxid: i64, reply: Reply) {
        let client = &mut self.clients[number];
        let Some(op) = client.saw_reply(xid, zxid) else { return };
        if matches!(reply, Err(Refused { error: ServerError::SessionExpired, .. })) {
            return self.end_session(number, LinkState::Expired);
        }
        if *op == Op::Close {
            return self.end_session(number, LinkState::Closed);
        }
        let Some(request) = client.take_answered(xid, &reply) else { return };
        let outcome = reply.map(|answer| {
            let watch = request.op.watches(&answer).map(|(path, kind)| {
                let (id, happened) = client.watches_mut().add(path, kind);
                Watch::new(self.world, number, id, happened)
            });
            (answer, watch)
        });
        self.answer(request.reply, outcome);
        self.become_ready(number);
    }

    /// An event arrives.
    pub(super) fn event_arrived(&mut self, number: usize, path: &str, happened: Happened) {
        self.note(format_args!("client {number} told {path} {happened:?}"));
        for watcher in self.clients[number].watches_mut().take_fired(path, happened) {
            self.effect(move || _ = watcher.send(happened));
        }
    }

    /// Removes a watch, in its turn among the requests.
    pub(super) fn unwatch(&mut self, number: usize, id: u64) {
        let client = &mut self.clients[number];
        match client.phase() {
            Phase::Ready => {
                if let Some(remove) = client.unwatch(id) {
                    self.make_request(number, remove, None);
                }
            }
            Phase::Ended => {}
            _ => client.defer(Box::new(move |state| state.unwatch(number, id))),
        }
    }

    /// The connection has ended: first the link state changes, then the requests that were sent fail.
    pub(super) fn connection_lost(&mut self, number: usize) {
        let lost = self.clients[number].lose_connection();
        if lost.was_connected {
            self.set_link_state(number, LinkState::Disconnected);
        }
        let mut sent = lost.sent;
        self.rng.shuffle(&mut sent);
        for request in sent {
            self.answer(request.reply, Err(ServerError::ConnectionLoss.into()));
        }
        if let Some(connection) = lost.number {
            self.close_at_client(connection);
        }
        self.dial_again(number, 0);
    }

    /// Ends the session at the client, for good.
    fn end_session(&mut self, number: usize, state: LinkState) {
        let client = &mut self.clients[number];
        let remains = client.end();
        let dialed = client.take_dialed();
        let had_session = client.session() != 0;
        let watches = remains.watches;
        // The tasks that wait for watches notice the end before the link state changes.
        self.effect(move || drop(watches));
        self.set_link_state(number, state);
        for request in remains.sent {
            self.answer(request.reply, Err(error_after(state).into()));
        }
        remains.unsent.into_iter().for_each(|request| request(self));
        if let Some(dialed) = dialed {
            let error = if had_session { error_after(state) } else { ServerError::Timeout };
            self.effect(move || drop(dialed.send(Err(error))));
        }
        if let Some(connection) = remains.connection {
            self.close_at_client(connection);
        }
    }

    /// The last handle on a client was dropped: the session is closed.
    pub(super) fn handle_dropped(&mut self, number: usize) {
        let client = &mut self.clients[number];
        client.set_dropped();
        if client.is_dialing_first() {
            // There is no session to close.
            self.vanish(number);
        } else if client.phase() == Phase::Ready {
            self.make_request(number, Op::Close, None);
        }
    }

    fn clients_of(&self, process: &Arc<ProcessState>) -> Vec<usize> {
        let is_its = |number: &usize| Arc::ptr_eq(self.clients[*number].process(), process);
        (0..self.clients.len()).filter(is_its).collect()
    }

    /// A process was resumed: its clients handle the waiting messages, or notice the silence first.
    pub(super) fn process_resumed(&mut self, process: &Arc<ProcessState>) {
        let now = self.events.now();
        for number in self.clients_of(process) {
            let client = &self.clients[number];
            let is_silent = client.is_connected() && client.is_silent(now);
            match client.phase() {
                _ if is_silent && self.rng.bool() => self.connection_lost(number),
                Phase::Dialing => self.dial_again(number, 0),
                Phase::Ended => {}
                _ => self.check_later(number),
            }
        }
        self.deliver_waiting();
    }

    /// A process was killed: the kernel closes its connections.
    pub(super) fn process_died(&mut self, process: &Arc<ProcessState>) {
        self.clients_of(process).into_iter().for_each(|number| self.vanish(number));
    }

    /// Ends a client without a word to its callers. The servers notice that the connection has ended.
    fn vanish(&mut self, number: usize) {
        self.note(format_args!("client {number} died"));
        let remains = self.clients[number].end();
        let connection = remains.connection;
        self.effect(move || drop(remains));
        if let Some(connection) = connection {
            self.close_at_client(connection);
        }
    }
}

/// The error of requests after the session has ended.
fn error_after(state: LinkState) -> ServerError {
    match state {
        LinkState::Closed => ServerError::ClientClosed,
        _ => ServerError::SessionExpired,
    }
}
