//! The elements of a picture: from the events of a run, what to draw in which lane. Pure.

#[cfg(test)]
mod tests;

use super::chart_reader::Reader;
use super::recording::Recorded;

/// A stretch of virtual time, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: u64,
    pub(super) to: u64,
}

impl Span {
    pub(super) fn overlap(self, other: Self) -> Option<Self> {
        let both = Self { from: self.from.max(other.from), to: self.to.min(other.to) };
        (both.from < both.to).then_some(both)
    }

    /// The parts of this span that `other` does not cover.
    pub(super) fn without(self, other: Self) -> Vec<Self> {
        let before = Self { from: self.from, to: self.to.min(other.from) };
        let after = Self { from: self.from.max(other.to), to: self.to };
        [before, after].into_iter().filter(|part| part.from < part.to).collect()
    }

    pub(super) fn touches(self, window: Self) -> bool {
        self.from <= window.to && window.from <= self.to
    }
}

/// A caller's wait for a lock, and its hold.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    /// The lane of its process, and the row in that lane.
    pub(super) lane: usize,
    pub(super) row: usize,
    pub(super) path: String,
    pub(super) waits: Option<Span>,
    pub(super) outcome: &'static str,
    pub(super) holds: Option<Span>,
    pub(super) token: i64,
    /// The end of the hold; `None` if it lasts.
    pub(super) end: Option<String>,
    pub(super) is_lost: bool,
    pub(super) process: usize,
    pub(super) task: String,
    pub(super) session: i64,
    pub(super) kind: &'static str,
}

impl Turn {
    pub(super) fn of(lane: usize, process: usize, task: &str, path: &str) -> Self {
        Self {
            lane,
            row: 0,
            path: path.to_owned(),
            waits: None,
            outcome: "still waits",
            holds: None,
            token: 0,
            end: None,
            is_lost: false,
            process,
            task: task.to_owned(),
            session: 0,
            kind: "",
        }
    }

    pub(super) fn span(&self) -> Span {
        let spans = || self.waits.iter().chain(&self.holds);
        let from = spans().map(|span| span.from).min().unwrap_or(0);
        let to = spans().map(|span| span.to).max().unwrap_or(0);
        Span { from, to }
    }

    pub(super) fn end(&mut self, at: u64, text: String, is_lost: bool) {
        if let (Some(holds), None) = (&mut self.holds, &self.end) {
            holds.to = at.max(holds.from);
            self.end = Some(text);
            self.is_lost = is_lost;
        }
    }

    /// Returns true if this hold and another one must not last at the same time.
    pub(super) fn excludes(&self, other: &Self) -> bool {
        let is_read = |turn: &Self| matches!(turn.kind, "__READ__" | "__rlock__");
        let is_lease = |turn: &Self| turn.kind == "lease-";
        let may_share = is_read(self) && is_read(other) || is_lease(self) || is_lease(other);
        // A process may read alongside its own write hold.
        let is_companion = self.session == other.session && is_read(self) != is_read(other);
        self.path == other.path && !may_share && !is_companion
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StateKind {
    Paused,
    Killed,
    Leads,
    Follows,
    Elects,
    Down,
    Expired,
}

/// A state of a process or of a server.
#[derive(Clone, Debug)]
pub(super) struct LaneState {
    pub(super) lane: usize,
    pub(super) span: Span,
    pub(super) kind: StateKind,
    pub(super) text: String,
}

#[derive(Clone, Debug)]
pub(super) struct Fault {
    pub(super) span: Span,
    pub(super) name: String,
    /// The lanes that it concerns.
    pub(super) lanes: Vec<usize>,
    /// A process is paused: a state of its lane, with its name among those of the faults.
    pub(super) is_pause: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Message {
    /// The lanes of its two ends.
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) span: Span,
    pub(super) name: String,
    pub(super) is_lost: bool,
    pub(super) is_sign_of_life: bool,
}

/// Two holds at the same time, by their places among the turns, that exclude each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Overlap {
    pub(super) turns: (usize, usize),
    pub(super) span: Span,
}

#[derive(Clone, Debug)]
pub(super) struct Lane {
    pub(super) name: String,
    pub(super) is_server: bool,
    pub(super) rows: usize,
}

/// All that is drawn, already cut to the window.
#[derive(Clone, Debug)]
pub(super) struct Chart {
    pub(super) window: Span,
    pub(super) lanes: Vec<Lane>,
    pub(super) turns: Vec<Turn>,
    pub(super) states: Vec<LaneState>,
    pub(super) faults: Vec<Fault>,
    pub(super) messages: Vec<Message>,
    pub(super) overlaps: Vec<Overlap>,
    pub(super) marks: Vec<(u64, String)>,
}

/// Messages are drawn if there are no more of them.
pub(super) const MOST_MESSAGES: usize = 200;

impl Chart {
    /// Draws what happened in `window`, in a run that has lasted until `now`.
    pub(super) fn new(
        events: &[Recorded],
        processes: &[String],
        servers: usize,
        now: u64,
        window: Span,
    ) -> Self {
        let mut reader = Reader::new(processes, servers, now);
        events.iter().for_each(|recorded| reader.read(recorded));
        reader.chart(window)
    }
}
