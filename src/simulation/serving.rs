//! What a server does for its clients: handshakes, requests and watches.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::op::{Answer, Happened, Ids, Kind, Op, Operation, Refused, Reply, allow};
use super::state::{Conn, Session, State};
use super::tree::Fired;
use crate::client::{Permission, ServerError};

impl State {
    /// What the server of a connection has of it.
    pub(super) fn session_of(&mut self, number: u64) -> Option<&mut Session> {
        self.conns.get_mut(&number)?.session.as_mut()
    }

    /// The first message of a connection. A new client has session 0.
    pub(super) fn shake_hands(
        &mut self,
        number: u64,
        server: usize,
        (session, seen, timeout): (i64, i64, u64),
        ids: Ids,
    ) {
        let here = &self.servers[server];
        if !here.role.serves() || seen > here.tree.zxid {
            return self.close_conn(number);
        }
        if let Some(own) = self.session_of(number) {
            (own.shakes_hands, own.ids) = (true, ids.clone());
        }
        if session == 0 {
            let (shortest, longest) = self.setting.session_timeouts.clone().into_inner();
            let op = Op::OpenSession { timeout: timeout.clamp(shortest, longest) };
            self.sessions += 1;
            return self.ask_to_write(server, self.sessions, ids, op, (number, 0));
        }
        // What the old connection had not read is lost with it.
        self.close_conns(server, |_, own| own.id == session);
        self.ask_to_revalidate(server, session, number);
    }

    /// The handshake is done; without a timeout the session is over.
    pub(super) fn connected(&mut self, number: u64, session: i64, timeout: Option<u64>) {
        let Some(own) = self.session_of(number) else { return };
        (own.id, own.shakes_hands) = (session, false);
        self.send_down(number, Some(Operation::Connect), move |state, peer| {
            state.is_connected(peer, session, timeout);
        });
        match timeout {
            Some(_) => self.unblocked(),
            None => self.close_conn(number),
        }
    }

    /// A request arrives.
    pub(super) fn request(&mut self, number: u64, server: usize, xid: i32, op: Op) {
        let Some(own) = self.session_of(number) else { return };
        let (session, ids) = (own.id, own.ids.clone());
        if session == 0 {
            return self.close_conn(number);
        }
        own.pending.push_back((xid, op.clone(), None));
        if op != Op::Ping {
            self.note(format_args!("{session:#x} to {server}: {op:?}"));
        }
        self.touch(server, session);
        if op == Op::Sync {
            self.ask_to_sync(server, number, xid);
        } else if op.needs_leader() {
            self.ask_to_write(server, session, ids, op, (number, xid));
        }
        self.answer_what_can_be(number, server);
    }

    /// The answer of the leader.
    pub(super) fn answered(&mut self, number: u64, xid: i32, reply: Reply) {
        let Some(Conn { server, session: Some(own), .. }) = self.conns.get_mut(&number) else {
            return;
        };
        let server = *server;
        if let Some((.., answer)) = own.pending.iter_mut().find(|(one, ..)| *one == xid) {
            *answer = Some(reply);
        }
        self.answer_what_can_be(number, server);
    }

    /// Requests of a session are answered in their order.
    fn answer_what_can_be(&mut self, number: u64, server: usize) {
        while let Some(own) = self.session_of(number) {
            match own.pending.front() {
                Some((_, op, answer)) if answer.is_some() || !op.needs_leader() => {}
                _ => return,
            }
            let Some((xid, op, answer)) = own.pending.pop_front() else { return };
            let reply =
                answer.unwrap_or_else(|| self.read(number, server, &op).map_err(Refused::from));
            // An error of the connection: on its next one the session is moved to where it is.
            if matches!(reply, Err(Refused { error: ServerError::SessionMoved, .. })) {
                return self.close_conn(number);
            }
            let zxid = self.servers[server].tree.zxid;
            self.send_down(number, Some(op.operation()), move |state, peer| {
                state.replied(peer, xid, zxid, reply);
            });
            if op == Op::Close {
                return self.close_conn(number);
            }
        }
    }

    /// Answers what needs no leader.
    fn read(&mut self, number: u64, server: usize, op: &Op) -> Result<Answer, ServerError> {
        let own = self.session_of(number).ok_or(ServerError::ConnectionLoss)?;
        match op {
            Op::Ping => {}
            Op::Auth { scheme, id } => {
                Arc::make_mut(&mut own.ids).insert((scheme.clone(), id.clone()));
            }
            Op::RemoveWatches { path, kind } => {
                let watch = (path.clone(), *kind == Kind::Child, number);
                if !self.servers[server].watches.remove(&watch) {
                    return Err(ServerError::NoWatcher);
                }
            }
            Op::SetWatches { since, watches } => {
                for (kind, path) in watches {
                    self.set_watch(number, server, *since, *kind, path);
                }
            }
            op => {
                let ids = own.ids.clone();
                let here = &mut self.servers[server];
                let answer = here.tree.read(op, &ids)?;
                if let Some((path, kind)) = op.watches(&answer) {
                    here.watches.insert((path.to_owned(), kind == Kind::Child, number));
                }
                return Ok(answer);
            }
        }
        Ok(Answer::Nothing)
    }

    /// If the node has changed since then, the watch fires at once.
    fn set_watch(&mut self, number: u64, server: usize, since: i64, kind: Kind, path: &str) {
        let here = &mut self.servers[server];
        let stat = here.tree.node(path).map(|(stat, _)| stat);
        let missed = match (kind, stat) {
            (Kind::Exist, Some(_)) => Happened::Created,
            (Kind::Data | Kind::Child, None) => Happened::Deleted,
            (Kind::Data, Some(stat)) if stat.mzxid > since => Happened::Changed,
            (Kind::Child, Some(stat)) if stat.pzxid > since => Happened::Children,
            _ => {
                here.watches.insert((path.to_owned(), kind == Kind::Child, number));
                return;
            }
        };
        self.send_event(number, path.to_owned(), missed);
    }

    fn send_event(&mut self, number: u64, path: String, happened: Happened) {
        self.send_down(number, Some(Operation::Event), move |state, peer| {
            state.happened(peer, &path, happened);
        });
    }

    /// Sends the events to each watcher that may read the node, before any later answer of the same connection.
    pub(super) fn fire(&mut self, server: usize, fired: Vec<Fired>) {
        for (path, happened, acls) in fired {
            let (first, last) = match happened {
                Happened::Children => (true, true),
                Happened::Deleted => (false, true),
                Happened::Created | Happened::Changed => (false, false),
            };
            let watches = &mut self.servers[server].watches;
            let range = (path.clone(), first, 0)..=(path.clone(), last, u64::MAX);
            let fire: Vec<_> = watches.range(range).cloned().collect();
            fire.iter().for_each(|watch| _ = watches.remove(watch));
            // Each once, though it may watch in both ways.
            let conns: BTreeSet<_> = fire.into_iter().map(|(.., conn)| conn).collect();
            for conn in conns {
                let own = self.session_of(conn);
                if own.is_some_and(|own| allow(&acls, Permission::READ, &own.ids)) {
                    self.send_event(conn, path.clone(), happened);
                }
            }
        }
    }

    /// The server closes a connection, and sends nothing more over it.
    pub(super) fn close_conn(&mut self, number: u64) {
        self.send_down(number, None, Self::broken);
        let Some(conn) = self.conns.get_mut(&number) else { return };
        conn.session = None;
        self.servers[conn.server].watches.retain(|(.., watcher)| *watcher != number);
        self.forget_conn(number);
    }

    /// Closes those connections of a server.
    pub(super) fn close_conns(&mut self, server: usize, closes: impl Fn(u64, &Session) -> bool) {
        let is_meant = |number: u64, conn: &Conn| {
            conn.server == server && conn.session.as_ref().is_some_and(|own| closes(number, own))
        };
        let meant = self.conns.iter().filter(|(number, conn)| is_meant(**number, conn));
        let meant: Vec<_> = meant.map(|(number, _)| *number).collect();
        meant.into_iter().for_each(|number| self.close_conn(number));
    }
}
