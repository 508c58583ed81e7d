//! What a server does for its clients: handshakes, reads and watches.

use std::sync::Arc;

use super::conn::{Down, Up};
use super::op::{Answer, Happened, Ids, Kind, Op, Refused, Reply};
use super::server::{Asked, Pending, Session};
use super::state::{Event, State};
use super::tree::{Fired, allow};
use crate::client::{Permission, ServerError};

impl State {
    /// A message of a client arrives.
    pub(super) fn arrives_at_server(&mut self, number: u64) {
        let Some(conn) = self.conns.get(&number) else { return };
        // What arrives for a connection that the server has closed is lost.
        let session = conn.session.as_ref();
        if session.is_some_and(|session| session.shakes_hands) {
            return;
        }
        let (server, is_there) = (conn.server, session.is_some());
        let Some(message) = self.next(number, true, |conn| &mut conn.up) else { return };
        if !is_there {
            return;
        }
        match message {
            Up::End => self.close_conn(number),
            Up::Connect { session, seen, timeout, ids } => {
                self.shake_hands(number, server, (session, seen, timeout), ids);
            }
            Up::Request { xid, op } => self.request(number, server, xid, op),
        }
    }

    fn shake_hands(
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
            let session = self.sessions;
            return self.ask(server, Asked::Write { session, ids, op, conn: number, xid: 0 });
        }
        // What the old connection had not read is lost with it.
        let same = |other: &&u64| {
            **other != number
                && self
                    .conns
                    .get(other)
                    .and_then(|conn| conn.session.as_ref())
                    .is_some_and(|other| other.id == session)
        };
        let old: Vec<_> = self.servers[server].conns.iter().filter(same).copied().collect();
        old.into_iter().for_each(|old| self.close_conn(old));
        self.ask(server, Asked::Revalidate { session, conn: number });
    }

    /// The handshake is done; without a timeout the session is over.
    pub(super) fn connected(&mut self, number: u64, session: i64, timeout: Option<u64>) {
        let Some(own) = self.session_of(number) else { return };
        (own.id, own.shakes_hands) = (session, false);
        let message = match timeout {
            Some(timeout) => Down::Connected { session, timeout },
            None => Down::Connected { session: 0, timeout: 0 },
        };
        self.send_down(number, message);
        if timeout.is_none() {
            return self.close_conn(number);
        }
        let waiting = self.conns.get(&number).map_or(0, |conn| conn.up.len());
        (0..waiting).for_each(|_| self.at(self.now, Event::Message { conn: number, up: true }));
    }

    pub(super) fn session_of(&mut self, number: u64) -> Option<&mut Session> {
        self.conns.get_mut(&number)?.session.as_mut()
    }

    fn request(&mut self, number: u64, server: usize, xid: i32, op: Op) {
        let Some(own) = self.session_of(number) else { return };
        let (session, ids) = (own.id, own.ids.clone());
        if session == 0 {
            return self.close_conn(number);
        }
        own.pending.push_back(Pending { xid, op: op.clone(), answered: None });
        if op != Op::Ping {
            self.note(format_args!("{session:#x} to {server}: {op:?}"));
        }
        self.touch(server, session);
        match op {
            Op::Sync => self.ask(server, Asked::Sync { conn: number, xid }),
            op if op.is_write() => {
                self.ask(server, Asked::Write { session, ids, op, conn: number, xid });
            }
            _ => {}
        }
        self.answer_what_can_be(number, server);
    }

    /// What a write or a `sync` came to.
    pub(super) fn answered(&mut self, number: u64, xid: i32, reply: Reply) {
        let Some(conn) = self.conns.get_mut(&number) else { return };
        let server = conn.server;
        let Some(session) = &mut conn.session else { return };
        if let Some(pending) = session.pending.iter_mut().find(|pending| pending.xid == xid) {
            pending.answered = Some(reply);
        }
        self.answer_what_can_be(number, server);
    }

    /// Requests of a session are answered in their order.
    fn answer_what_can_be(&mut self, number: u64, server: usize) {
        loop {
            let Some(own) = self.session_of(number) else { return };
            let waits = |first: &&Pending| {
                first.answered.is_some() || !(first.op.is_write() || first.op == Op::Sync)
            };
            if own.pending.front().filter(waits).is_none() {
                return;
            }
            let Some(Pending { xid, op, answered }) = own.pending.pop_front() else { return };
            let ids = own.ids.clone();
            let reply = answered.unwrap_or_else(|| self.read(number, server, &op, &ids));
            // An error of the connection: on its next one the session is moved to where it is.
            if matches!(reply, Err(Refused { error: ServerError::SessionMoved, .. })) {
                return self.close_conn(number);
            }
            let (operation, zxid) = (op.operation(), self.servers[server].tree.zxid);
            self.send_down(number, Down::Reply { xid, zxid, operation, reply });
            if op == Op::Close {
                return self.close_conn(number);
            }
        }
    }

    fn read(&mut self, number: u64, server: usize, op: &Op, ids: &Ids) -> Reply {
        let refused = |error| Err(Refused { step: None, error });
        match op {
            Op::Ping => Ok(Answer::Nothing),
            Op::Auth { scheme, id } => {
                let Some(own) = self.session_of(number) else {
                    return refused(ServerError::NoAuth);
                };
                Arc::make_mut(&mut own.ids).insert((scheme.clone(), id.clone()));
                Ok(Answer::Nothing)
            }
            Op::RemoveWatches { path, kind } => {
                let is_one = self.servers[server].unwatch(path, *kind, number);
                if is_one { Ok(Answer::Nothing) } else { refused(ServerError::NoWatcher) }
            }
            Op::SetWatches { since, data, exist, child } => {
                self.set_watches(number, server, *since, (data, exist, child));
                Ok(Answer::Nothing)
            }
            op => {
                let here = &mut self.servers[server];
                let reply = here.tree.read(op, ids);
                if let Some((path, kind)) =
                    reply.as_ref().ok().and_then(|answer| op.watches(answer))
                {
                    here.watch(path, kind, number);
                }
                reply
            }
        }
    }

    /// A change since then fires at once; for other nodes the watch is set again.
    fn set_watches(
        &mut self,
        number: u64,
        server: usize,
        since: i64,
        (data, exist, child): (&[String], &[String], &[String]),
    ) {
        let mut missed = Vec::new();
        let here = &mut self.servers[server];
        for path in data {
            match here.tree.node(path) {
                None => missed.push((path, Happened::Deleted)),
                Some((stat, _)) if stat.mzxid > since => missed.push((path, Happened::Changed)),
                Some(_) => here.watch(path, Kind::Data, number),
            }
        }
        for path in exist {
            match here.tree.node(path) {
                Some(_) => missed.push((path, Happened::Created)),
                None => here.watch(path, Kind::Exist, number),
            }
        }
        for path in child {
            match here.tree.node(path) {
                None => missed.push((path, Happened::Deleted)),
                Some((stat, _)) if stat.pzxid > since => missed.push((path, Happened::Children)),
                Some(_) => here.watch(path, Kind::Child, number),
            }
        }
        for (path, happened) in missed {
            self.send_down(number, Down::Event { path: path.clone(), happened });
        }
    }

    /// Sends the event to each watcher that may read the node, before any later answer of the same connection.
    pub(super) fn fire(&mut self, server: usize, fired: Fired) {
        for (path, happened, acls) in fired {
            for conn in self.servers[server].fire(&path, happened) {
                let own = self.session_of(conn);
                if own.is_some_and(|own| allow(&acls, Permission::READ, &own.ids)) {
                    self.send_down(conn, Down::Event { path: path.clone(), happened });
                }
            }
        }
    }

    /// The server closes a connection, and sends nothing more over it.
    pub(super) fn close_conn(&mut self, number: u64) {
        self.send_down(number, Down::End);
        let Some(conn) = self.conns.get_mut(&number) else { return };
        conn.session = None;
        let here = &mut self.servers[conn.server];
        here.conns.remove(&number);
        for table in [&mut here.data, &mut here.child] {
            table.retain(|_, conns| {
                conns.remove(&number);
                !conns.is_empty()
            });
        }
        self.forget_conn(number);
    }

    /// It ends all its connections.
    pub(super) fn close_conns(&mut self, server: usize) {
        let conns = std::mem::take(&mut self.servers[server].conns);
        conns.into_iter().for_each(|conn| self.close_conn(conn));
    }

    /// A session is over: its connections here end, behind the answer to a close.
    pub(super) fn session_ended(&mut self, server: usize, session: i64, closer: Option<u64>) {
        let conns: Vec<_> = self.servers[server].conns.iter().copied().collect();
        for conn in conns.into_iter().filter(|conn| Some(*conn) != closer) {
            if self.session_of(conn).is_some_and(|own| own.id == session) {
                self.close_conn(conn);
            }
        }
    }
}
