//! The service of a server to its clients: handshakes, requests and watches.

use super::connections::ServerConnection;
use super::op::{Answer, Happened, Ids, Op, Operation, Refused, Reply, WatchKind, allow};
use super::state::State;
use super::tree::{Fired, Origin};
use crate::client::{Permission, ServerError};

/// The first message of a connection.
pub(super) struct Handshake {
    /// Zero for a new client.
    pub(super) session: i64,
    pub(super) timeout: u64,
    /// The last zxid that the client has seen.
    pub(super) last_zxid: i64,
    pub(super) ids: Ids,
}

impl State {
    /// The server's end of a connection, if it is open.
    pub(super) fn server_connection(&mut self, connection: u64) -> Option<&mut ServerConnection> {
        let server = self.network.server_of(connection)?;
        self.servers[server].connections.get_mut(connection)
    }

    /// A client has connected.
    pub(super) fn begin_handshake(&mut self, connection: u64, server: usize, client: Handshake) {
        let here = &mut self.servers[server];
        if !here.serves() || client.last_zxid > here.replica.tree().zxid() {
            return self.close_at_server(connection);
        }
        let Handshake { session, timeout, ids, .. } = client;
        if let Some(own) = here.connections.get_mut(connection) {
            own.begin_handshake(ids.clone());
        }
        if session == 0 || self.settings.replaces_sessions {
            let (shortest, longest) = self.settings.session_timeouts.clone().into_inner();
            let op = Op::OpenSession { timeout: timeout.clamp(shortest, longest) };
            let origin = Origin { server, connection, xid: 0 };
            let session = self.new_session();
            return self.ask_to_write(origin, session, ids, op);
        }
        // The session's old connection ends, and the messages that the server has not read there are lost.
        for old in here.connections.of_session(session) {
            self.close_at_server(old);
        }
        self.ask_to_revalidate(server, session, connection);
    }

    /// Reports the result of the handshake to the client. Without a timeout the session has ended.
    pub(super) fn end_handshake(&mut self, connection: u64, session: i64, timeout: Option<u64>) {
        let Some(own) = self.server_connection(connection) else { return };
        own.end_handshake(session);
        self.send_to_client(connection, Some(Operation::Connect), move |state, client| {
            state.handshake_ended(client, session, timeout);
        });
        match timeout {
            Some(_) => self.deliver_waiting(),
            None => self.close_at_server(connection),
        }
    }

    /// A request arrives.
    pub(super) fn request_arrived(&mut self, origin: Origin, op: Op) {
        let Origin { server, connection, xid } = origin;
        let Some(own) = self.server_connection(connection) else { return };
        let session = own.session();
        if session == 0 {
            return self.close_at_server(connection);
        }
        let ids = own.ids().clone();
        own.add_request(xid, op.clone());
        if op != Op::Ping {
            self.note(format_args!("{session:#x} to {server}: {op:?}"));
        }
        let now = self.events.now();
        self.servers[server].touch(session, now);
        if op == Op::Sync {
            self.ask_to_sync(origin);
        } else if op.needs_leader() {
            self.ask_to_write(origin, session, ids, op);
        }
        self.answer_next(connection, server);
    }

    /// The leader's reply to a request arrives.
    pub(super) fn leader_replied(&mut self, origin: Origin, reply: Reply) {
        let Origin { server, connection, xid } = origin;
        if let Some(own) = self.server_connection(connection) {
            own.set_reply(xid, reply);
            self.answer_next(connection, server);
        }
    }

    /// Answers the requests of a connection in their order, until one of them waits for the leader.
    fn answer_next(&mut self, connection: u64, server: usize) {
        while let Some(own) = self.server_connection(connection) {
            let Some(request) = own.take_answerable() else { return };
            let op = request.op;
            let reply = match request.reply {
                Some(reply) => reply,
                None => self.read(connection, server, &op).map_err(Refused::from),
            };
            // The client must reconnect: the next handshake moves the session to that server.
            if matches!(reply, Err(Refused { error: ServerError::SessionMoved, .. })) {
                return self.close_at_server(connection);
            }
            self.send_reply(Origin { server, connection, xid: request.xid }, &op, reply);
            if op == Op::Close {
                return self.close_at_server(connection);
            }
        }
    }

    fn send_reply(&mut self, origin: Origin, op: &Op, reply: Reply) {
        let Origin { server, connection, xid } = origin;
        let zxid = self.servers[server].replica.tree().zxid();
        self.send_to_client(connection, Some(op.operation()), move |state, client| {
            state.reply_arrived(client, xid, zxid, reply);
        });
    }

    /// Answers a request that needs no leader.
    fn read(&mut self, connection: u64, server: usize, op: &Op) -> Result<Answer, ServerError> {
        let here = &mut self.servers[server];
        let own = here.connections.get_mut(connection).ok_or(ServerError::ConnectionLoss)?;
        match op {
            Op::Ping => {}
            Op::Auth { scheme, id } => own.add_id(scheme, id),
            Op::RemoveWatches { path, kind } => {
                if !here.connections.unwatch(connection, path, *kind) {
                    return Err(ServerError::NoWatcher);
                }
            }
            Op::SetWatches { since, watches } => {
                for (kind, path) in watches {
                    self.set_watch(connection, server, *since, *kind, path);
                }
            }
            op => {
                let answer = here.replica.tree().read(op, own.ids())?;
                if let Some((path, kind)) = op.watches(&answer) {
                    here.connections.watch(connection, path, kind);
                }
                return Ok(answer);
            }
        }
        Ok(Answer::Nothing)
    }

    /// Sets a watch again after a reconnect. If the node has changed since that zxid, the watch fires at once.
    fn set_watch(
        &mut self,
        connection: u64,
        server: usize,
        since: i64,
        kind: WatchKind,
        path: &str,
    ) {
        let here = &mut self.servers[server];
        let stat = here.replica.tree().node(path).map(|(stat, _)| stat);
        let missed = match (kind, stat) {
            (WatchKind::Exist, Some(_)) => Happened::Created,
            (WatchKind::Data | WatchKind::Child, None) => Happened::Deleted,
            (WatchKind::Data, Some(stat)) if stat.mzxid > since => Happened::Changed,
            (WatchKind::Child, Some(stat)) if stat.pzxid > since => Happened::Children,
            _ => return here.connections.watch(connection, path, kind),
        };
        self.send_event(connection, path.to_owned(), missed);
    }

    fn send_event(&mut self, connection: u64, path: String, happened: Happened) {
        self.send_to_client(connection, Some(Operation::Event), move |state, client| {
            state.event_arrived(client, &path, happened);
        });
    }

    /// Sends events to the watchers, before any later answer of the same connection. Newer servers leave out those that may not
    /// read the node.
    pub(super) fn fire(&mut self, server: usize, fired: Vec<Fired>) {
        let needs_read = self.settings.version.events_need_read();
        for Fired { path, happened, acls } in fired {
            for connection in self.servers[server].connections.take_fired(&path, happened) {
                let own = self.servers[server].connections.get(connection);
                let may_read = |own: &ServerConnection| allow(&acls, Permission::READ, own.ids());
                if own.is_some_and(|own| !needs_read || may_read(own)) {
                    self.send_event(connection, path.clone(), happened);
                }
            }
        }
    }

    /// The server closes a connection, and sends no further message over it.
    pub(super) fn close_at_server(&mut self, connection: u64) {
        self.send_to_client(connection, None, Self::connection_lost);
        if let Some(server) = self.network.server_of(connection) {
            self.servers[server].connections.close(connection);
        }
        self.network.close_at_server(connection);
    }
}
