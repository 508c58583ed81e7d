//! The sessions as the leader tracks them: when they expire, and which server may send their requests. Pure.

use std::collections::BTreeMap;

use super::op::Op;
use crate::client::ServerError;

pub(super) struct SessionTracker {
    /// ZooKeeper's `tickTime`, in milliseconds: sessions expire in whole ticks.
    tick: u64,
    sessions: BTreeMap<i64, Tracked>,
}

struct Tracked {
    timeout: u64,
    expires: u64,
    /// The only server from which requests are accepted. Unknown after an election.
    owner: Option<usize>,
    is_closing: bool,
}

impl SessionTracker {
    pub(super) fn new(tick: u64) -> Self {
        Self { tick, sessions: BTreeMap::new() }
    }

    pub(super) fn clear(&mut self) {
        self.sessions.clear();
    }

    /// Tracks a session, which has its whole timeout from `now` on.
    pub(super) fn track(&mut self, session: i64, timeout: u64, owner: Option<usize>, now: u64) {
        let tracked = Tracked { timeout, expires: 0, owner, is_closing: false };
        self.sessions.insert(session, tracked);
        self.prolong(session, now);
    }

    /// Records that the session was heard of.
    pub(super) fn prolong(&mut self, session: i64, now: u64) {
        let tick = self.tick;
        if let Some(tracked) = self.sessions.get_mut(&session) {
            let expires = ((now + tracked.timeout) / tick + 1) * tick;
            tracked.expires = tracked.expires.max(expires);
        }
    }

    /// The sessions that have expired by `now`.
    pub(super) fn expired(&self, now: u64) -> Vec<i64> {
        let is_expired = |tracked: &Tracked| tracked.expires <= now && !tracked.is_closing;
        let expired = self.sessions.iter().filter(|(_, tracked)| is_expired(tracked));
        expired.map(|(session, _)| *session).collect()
    }

    /// Refuses further requests of a session. Returns false if there is no such session.
    pub(super) fn begin_to_close(&mut self, session: i64) -> bool {
        let Some(tracked) = self.sessions.get_mut(&session) else { return false };
        tracked.is_closing = true;
        true
    }

    pub(super) fn remove(&mut self, session: i64) {
        self.sessions.remove(&session);
    }

    /// Moves a session to the server to which its client has reconnected. Returns its timeout, or `None` if the session
    /// has ended.
    pub(super) fn move_to(&mut self, session: i64, server: usize) -> Option<u64> {
        let tracked = self.sessions.get_mut(&session).filter(|tracked| !tracked.is_closing)?;
        tracked.owner = Some(server);
        Some(tracked.timeout)
    }

    /// Checks whether a session may send a request from this server. After a close, all later requests are refused.
    pub(super) fn permit(&mut self, session: i64, from: usize, op: &Op) -> Result<(), ServerError> {
        let tracked = self.sessions.get_mut(&session).filter(|tracked| !tracked.is_closing);
        let Some(tracked) = tracked else { return Err(ServerError::SessionExpired) };
        if tracked.owner.is_some_and(|owner| owner != from) {
            return Err(ServerError::SessionMoved);
        }
        tracked.is_closing |= *op == Op::Close;
        Ok(())
    }
}
