//! One server: its role among the servers, and its replica, tracked sessions and connections.

use std::collections::{BTreeMap, BTreeSet};

use super::connections::Connections;
use super::event_queue::Event;
use super::replica::{LogCopy, Replica};
use super::session_tracker::SessionTracker;
use super::state::Settings;
use super::tree::Tree;

pub(super) struct Server {
    role: Role,
    /// A paused server neither reads nor sends.
    is_paused: bool,
    /// The epoch in which the server follows or leads.
    epoch: i64,
    /// When the server last heard of each other server.
    heard_at: BTreeMap<usize, u64>,
    /// Sessions that the server has heard of since its last report to the leader.
    touched: BTreeSet<i64>,
    leadership: Leadership,
    /// The sessions, if the server leads.
    pub(super) sessions: SessionTracker,
    pub(super) replica: Replica,
    pub(super) connections: Connections,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Role {
    Down,
    #[default]
    Looking,
    Following(usize),
    Leading,
}

/// The part of the state that only a leader has.
#[derive(Default)]
struct Leadership {
    last_zxid: i64,
    /// The length of the log that each follower has.
    followers: BTreeMap<usize, usize>,
    /// The answers to `sync` requests that wait for a commit.
    syncs: Vec<Sync>,
}

struct Sync {
    /// The length of the log that must be committed before the answer.
    length: usize,
    answer: Event,
}

impl Server {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            role: Role::default(),
            is_paused: false,
            epoch: 0,
            heard_at: BTreeMap::new(),
            touched: BTreeSet::new(),
            leadership: Leadership::default(),
            sessions: SessionTracker::new(settings.tick),
            replica: Replica::new(Tree::new(settings.version)),
            connections: Connections::default(),
        }
    }

    pub(super) fn role(&self) -> Role {
        self.role
    }

    pub(super) fn epoch(&self) -> i64 {
        self.epoch
    }

    pub(super) fn serves(&self) -> bool {
        matches!(self.role, Role::Following(_) | Role::Leading)
    }

    pub(super) fn is_paused(&self) -> bool {
        self.is_paused
    }

    pub(super) fn set_paused(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
    }

    /// Returns true if the server is neither down nor paused.
    pub(super) fn is_up(&self) -> bool {
        self.role != Role::Down && !self.is_paused
    }

    /// Starts a stopped server. Returns false if the server is not down.
    pub(super) fn start(&mut self) -> bool {
        let is_down = self.role == Role::Down;
        if is_down {
            self.role = Role::Looking;
        }
        is_down
    }

    pub(super) fn stop(&mut self) {
        self.role = Role::Down;
        self.is_paused = false;
    }

    pub(super) fn lead(&mut self, epoch: i64) {
        self.role = Role::Leading;
        self.epoch = epoch;
        self.leadership.last_zxid = epoch << 32;
    }

    pub(super) fn follow(&mut self, leader: usize, epoch: i64, log: LogCopy, now: u64) {
        self.role = Role::Following(leader);
        self.epoch = epoch;
        self.replica.copy_from(log);
        self.heard_at.insert(leader, now);
        self.touched.clear();
    }

    /// Neither leads nor follows from now on.
    pub(super) fn step_down(&mut self) {
        self.role = Role::Looking;
        self.leadership = Leadership::default();
        self.sessions.clear();
    }

    /// Adds a follower that has the whole log.
    pub(super) fn add_follower(&mut self, follower: usize, now: u64) {
        self.heard_at.insert(follower, now);
        self.leadership.followers.insert(follower, self.replica.length());
    }

    pub(super) fn remove_follower(&mut self, follower: usize) {
        self.leadership.followers.remove(&follower);
    }

    pub(super) fn followers(&self) -> Vec<usize> {
        self.leadership.followers.keys().copied().collect()
    }

    /// Accepts a message from another server: the leader, or one of the followers, in the same epoch. Returns false if
    /// the message must be ignored.
    pub(super) fn hears(&mut self, from: usize, epoch: i64, now: u64) -> bool {
        let is_known = match self.role {
            Role::Leading => self.leadership.followers.contains_key(&from),
            role => role == Role::Following(from),
        };
        let accepts = is_known && self.epoch == epoch;
        if accepts {
            self.heard_at.insert(from, now);
        }
        accepts
    }

    pub(super) fn has_heard(&self, other: usize, since: u64) -> bool {
        self.heard_at.get(&other).is_some_and(|at| *at >= since)
    }

    /// Number of followers that the leader has heard of since that time.
    pub(super) fn followers_heard(&self, since: u64) -> usize {
        self.leadership.followers.keys().filter(|one| self.has_heard(**one, since)).count()
    }

    pub(super) fn next_zxid(&mut self) -> i64 {
        self.leadership.last_zxid += 1;
        self.leadership.last_zxid
    }

    /// Records that a follower has this length of the log.
    pub(super) fn acknowledge(&mut self, follower: usize, length: usize) {
        let followers = &mut self.leadership.followers;
        followers.entry(follower).and_modify(|acked| *acked = length.max(*acked));
    }

    /// Commits the part of the log that `quorum` servers have. Returns its length if it has grown.
    pub(super) fn commit(&mut self, quorum: usize) -> Option<usize> {
        let mut lengths: Vec<_> = self.leadership.followers.values().copied().collect();
        lengths.push(self.replica.length());
        lengths.sort_unstable();
        let length = lengths.into_iter().rev().nth(quorum - 1)?;
        if length <= self.replica.committed() {
            return None;
        }
        self.replica.commit(length);
        Some(length)
    }

    /// Adds the answer to a `sync`, which waits until the present log is committed.
    pub(super) fn add_sync(&mut self, answer: Event) {
        self.leadership.syncs.push(Sync { length: self.replica.length(), answer });
    }

    /// Takes the answers that wait no longer. A leader without an outstanding proposal answers alone.
    pub(super) fn take_syncs(&mut self) -> Vec<Event> {
        let committed = self.replica.committed();
        let is_outstanding = self.replica.length() > committed;
        let syncs = std::mem::take(&mut self.leadership.syncs).into_iter();
        let (done, waiting): (Vec<Sync>, _) =
            syncs.partition(|sync| !is_outstanding || sync.length <= committed);
        self.leadership.syncs = waiting;
        done.into_iter().map(|sync| sync.answer).collect()
    }

    /// Records that the server heard of a session.
    pub(super) fn touch(&mut self, session: i64, now: u64) {
        if self.role == Role::Leading {
            self.sessions.prolong(session, now);
        } else {
            self.touched.insert(session);
        }
    }

    /// Takes the sessions to report to the leader.
    pub(super) fn take_touched(&mut self) -> BTreeSet<i64> {
        std::mem::take(&mut self.touched)
    }
}
