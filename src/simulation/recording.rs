//! The elements of a run that its [picture](super::Picture) shows. The trace and its hash know nothing of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::op::Operation;
use super::process_state::ProcessState;
use super::server::Role;
use super::state::millis;
use super::world::World;
use crate::error::{Error, Loss};

/// The end of what lasts.
const OPEN: u64 = u64::MAX;
/// Messages are drawn if there are no more of them.
const MOST_MESSAGES: usize = 200;

/// A stretch of virtual time, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: u64,
    pub(super) to: u64,
}

impl Span {
    fn since(from: u64) -> Self {
        Self { from, to: OPEN }
    }

    /// Only the first end counts.
    fn end(&mut self, at: u64) {
        if self.to == OPEN {
            self.to = at.max(self.from);
        }
    }

    fn overlap(self, other: Self) -> Option<Self> {
        let both = Self { from: self.from.max(other.from), to: self.to.min(other.to) };
        (both.from < both.to).then_some(both)
    }

    /// The parts of this span that `other` does not cover.
    fn without(self, other: Self) -> impl Iterator<Item = Self> {
        let before = Self { from: self.from, to: self.to.min(other.from) };
        let after = Self { from: self.from.max(other.to), to: self.to };
        [before, after].into_iter().filter(|part| part.from < part.to)
    }

    fn touches(self, window: Self) -> bool {
        self.from <= window.to && window.from <= self.to
    }
}

/// Something that has a lane in the picture, or stands for such.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// A process by its number; 0 is the code outside all processes.
    Process(usize),
    /// A `Curator` outside all processes.
    Curator(usize),
    /// The process or the `Curator` that has the session.
    Session(i64),
    /// The processes whose clients use the link.
    Link(usize),
    Server(usize),
}

/// A caller's wait for a lock, and its hold.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    pub(super) place: Place,
    pub(super) task: String,
    pub(super) path: String,
    pub(super) wait: Option<Span>,
    /// The end of the wait; `None` while the caller waits.
    pub(super) outcome: Option<&'static str>,
    pub(super) hold: Option<Hold>,
}

#[derive(Clone, Debug)]
pub(super) struct Hold {
    pub(super) span: Span,
    pub(super) facts: RecordedHold,
    /// The hold ends with its term at the latest.
    term: u64,
    /// The end in words; `None` while the hold lasts.
    pub(super) end: Option<String>,
    pub(super) is_lost: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct RecordedHold {
    pub(crate) task: String,
    pub(crate) path: String,
    /// The text before the sequence number in the name of the contender's znode.
    pub(crate) kind: &'static str,
    pub(crate) token: i64,
    pub(crate) session: i64,
}

impl RecordedHold {
    /// Returns true if this hold and another one must not last at the same time.
    fn excludes(&self, other: &Self) -> bool {
        let is_read = |hold: &Self| matches!(hold.kind, "__READ__" | "__rlock__");
        let is_lease = |hold: &Self| hold.kind == "lease-";
        let may_share = is_read(self) && is_read(other) || is_lease(self) || is_lease(other);
        // A process may read alongside its own write hold.
        let is_companion = self.session == other.session && is_read(self) != is_read(other);
        self.path == other.path && !may_share && !is_companion
    }
}

impl Turn {
    pub(super) fn span(&self) -> Span {
        let spans = || self.wait.into_iter().chain(self.hold.iter().map(|hold| hold.span));
        let from = spans().map(|span| span.from).min().unwrap_or(0);
        let to = spans().map(|span| span.to).max().unwrap_or(0);
        Span { from, to }
    }

    fn end_wait(&mut self, at: u64, outcome: &'static str) {
        if let (Some(wait), None) = (&mut self.wait, self.outcome) {
            wait.end(at);
            self.outcome = Some(outcome);
        }
    }

    /// Only a loss that the caller did not ask for is shown as one.
    fn end_hold(&mut self, at: u64, loss: Option<Loss>) {
        let (end, is_lost) = match loss {
            None => ("released".to_owned(), false),
            Some(Loss::Closed) => (Loss::Closed.to_string(), false),
            Some(loss) => (format!("lost: {loss}"), true),
        };
        self.end_hold_with(at, end, is_lost);
    }

    fn end_hold_with(&mut self, at: u64, end: String, is_lost: bool) {
        if let Some(hold) = self.hold.as_mut().filter(|hold| hold.end.is_none()) {
            hold.span.end(at);
            hold.end = Some(end);
            hold.is_lost = is_lost;
        }
    }
}

/// A state of a process or of a server, a fault, or something that happened at one moment.
#[derive(Clone, Debug)]
pub(super) struct LaneState {
    pub(super) place: Place,
    pub(super) span: Span,
    /// The class in the picture's style.
    pub(super) class: &'static str,
    pub(super) text: String,
}

#[derive(Clone, Debug)]
pub(super) struct Message {
    pub(super) from: Place,
    pub(super) to: Place,
    pub(super) span: Span,
    /// The end of a connection has none, nor has a message between servers.
    pub(super) operation: Option<Operation>,
    pub(super) is_lost: bool,
}

impl Message {
    fn is_between_servers(&self) -> bool {
        matches!((self.from, self.to), (Place::Server(_), Place::Server(_)))
    }

    pub(super) fn is_sign_of_life(&self) -> bool {
        let is_sign = matches!(self.operation, Some(Operation::Ping | Operation::Sync));
        is_sign || self.is_between_servers()
    }

    pub(super) fn name(&self) -> String {
        match self.operation {
            Some(operation) => format!("{operation:?}"),
            None if self.is_between_servers() => "between servers".to_owned(),
            None => "the end of a connection".to_owned(),
        }
    }
}

/// Two holds at the same time, by their places among the turns, that exclude each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Overlap {
    pub(super) turns: (usize, usize),
    pub(super) span: Span,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Recording {
    is_on: bool,
    /// The names of the processes, from number 1 on.
    pub(super) processes: Vec<String>,
    /// The `Curator`s outside all processes.
    curators: Vec<u64>,
    sessions: BTreeMap<i64, Place>,
    links: BTreeMap<usize, BTreeSet<Place>>,
    pub(super) turns: Vec<Turn>,
    pub(super) states: Vec<LaneState>,
    pub(super) messages: Vec<Message>,
    pub(super) marks: Vec<(u64, String)>,
}

impl Recording {
    pub(super) fn start(&mut self) {
        self.is_on = true;
    }

    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Names a new process by its number, which is returned.
    pub(super) fn add_process(&mut self) -> usize {
        let number = self.processes.len() + 1;
        self.processes.push(format!("process {number}"));
        number
    }

    pub(super) fn rename(&mut self, process: usize, name: String) {
        if let Some(known) = process.checked_sub(1).and_then(|at| self.processes.get_mut(at)) {
            *known = name;
        }
    }

    /// The name of a lane.
    pub(super) fn name(&self, place: Place) -> String {
        match place {
            Place::Process(0) => "the test".to_owned(),
            Place::Process(number) => self.processes[number - 1].clone(),
            Place::Curator(number) => format!("Curator {number}"),
            Place::Server(number) => format!("server {number}"),
            Place::Session(session) => format!("session {session:#x}"),
            Place::Link(number) => format!("link {number}"),
        }
    }

    /// The lane of a place: processes of one name share a lane.
    pub(super) fn lane(&self, place: Place) -> Place {
        let Place::Process(number) = place else { return place };
        let name = number.checked_sub(1).map(|at| &self.processes[at]);
        let first = self.processes.iter().position(|known| Some(known) == name);
        first.map_or(place, |at| Place::Process(at + 1))
    }

    /// The lanes of what a place stands for. Until that is known, the place has a lane of its own.
    pub(super) fn lanes(&self, place: Place) -> BTreeSet<Place> {
        let lanes: BTreeSet<_> = match place {
            Place::Session(session) => self.sessions.get(&session).into_iter().collect(),
            Place::Link(link) => self.links.get(&link).into_iter().flatten().collect(),
            _ => BTreeSet::new(),
        };
        match lanes.is_empty() {
            true => BTreeSet::from([self.lane(place)]),
            false => lanes.into_iter().map(|place| self.lane(*place)).collect(),
        }
    }

    pub(super) fn begin_wait(
        &mut self,
        at: u64,
        process: usize,
        curator: u64,
        task: String,
        path: &str,
    ) -> usize {
        let place = match process {
            0 => {
                let known = self.curators.iter().position(|known| *known == curator);
                let nth = known.unwrap_or_else(|| {
                    self.curators.push(curator);
                    self.curators.len() - 1
                });
                Place::Curator(nth + 1)
            }
            process => Place::Process(process),
        };
        let wait = Some(Span::since(at));
        self.turns.push(Turn {
            place,
            task,
            path: path.to_owned(),
            wait,
            outcome: None,
            hold: None,
        });
        self.turns.len() - 1
    }

    pub(super) fn end_wait(&mut self, turn: usize, at: u64, outcome: &'static str) {
        if let Some(turn) = self.turns.get_mut(turn) {
            turn.end_wait(at, outcome);
        }
    }

    /// Begins a hold in the turn of the caller that waits for it.
    pub(super) fn begin_hold(
        &mut self,
        at: u64,
        process: usize,
        term: u64,
        facts: RecordedHold,
    ) -> usize {
        let is_here = |place| match place {
            Place::Curator(_) => process == 0,
            place => place == Place::Process(process),
        };
        let waits = |turn: &Turn| {
            turn.outcome.is_none()
                && turn.hold.is_none()
                && is_here(turn.place)
                && turn.task == facts.task
                && turn.path == facts.path
        };
        let nth = self.turns.iter().position(waits).unwrap_or_else(|| {
            self.turns.push(Turn {
                place: Place::Process(process),
                task: facts.task.clone(),
                path: facts.path.clone(),
                wait: None,
                outcome: None,
                hold: None,
            });
            self.turns.len() - 1
        });
        let turn = &mut self.turns[nth];
        if let Some(wait) = &mut turn.wait {
            wait.end(at);
        }
        self.sessions.insert(facts.session, turn.place);
        turn.hold = Some(Hold { span: Span::since(at), facts, term, end: None, is_lost: false });
        nth
    }

    pub(super) fn end_hold(&mut self, turn: usize, at: u64, loss: Option<Loss>) {
        if let Some(turn) = self.turns.get_mut(turn) {
            turn.end_hold(at, loss);
        }
    }

    pub(super) fn end_term(&mut self, term: u64, at: u64, loss: Loss) {
        for turn in &mut self.turns {
            if turn.hold.as_ref().is_some_and(|hold| hold.term == term) {
                turn.end_hold(at, Some(loss));
            }
        }
    }

    /// Adds something that lasts, and returns its number.
    pub(super) fn begin(
        &mut self,
        at: u64,
        place: Place,
        class: &'static str,
        text: String,
    ) -> usize {
        self.states.push(LaneState { place, span: Span::since(at), class, text });
        self.states.len() - 1
    }

    pub(super) fn end(&mut self, at: u64, number: usize) {
        if let Some(state) = self.states.get_mut(number) {
            state.span.end(at);
        }
    }

    /// Ends what lasts of a place in these classes.
    pub(super) fn end_all(&mut self, at: u64, place: Place, classes: &[&str]) {
        let is_meant =
            |state: &&mut LaneState| state.place == place && classes.contains(&state.class);
        self.states.iter_mut().filter(is_meant).for_each(|state| state.span.end(at));
    }

    fn lose(&mut self, at: u64, place: Place, text: String) {
        let number = self.begin(at, place, "lost", text);
        self.end(at, number);
    }

    pub(super) fn pause(&mut self, at: u64, place: Place) {
        self.begin(at, place, "paused", "paused".to_owned());
    }

    pub(super) fn resume(&mut self, at: u64, place: Place) {
        self.end_all(at, place, &["paused"]);
    }

    /// Ends the waits and the holds of a process.
    pub(super) fn kill(&mut self, at: u64, process: usize) {
        let place = Place::Process(process);
        self.resume(at, place);
        self.lose(at, place, "killed".to_owned());
        for turn in self.turns.iter_mut().filter(|turn| turn.place == place) {
            turn.end_wait(at, "killed");
            turn.end_hold_with(at, "killed".to_owned(), false);
        }
    }

    pub(super) fn role(&mut self, at: u64, server: usize, role: Role, text: String) {
        let place = Place::Server(server);
        self.end_all(at, place, &["leads", "follows", "elects", "down"]);
        let class = match role {
            Role::Leading => "leads",
            Role::Following(_) => "follows",
            Role::Looking => "elects",
            Role::Down => "down",
        };
        self.begin(at, place, class, text);
    }

    /// A client of the process has the session.
    pub(super) fn session_of(&mut self, session: i64, process: usize) {
        if process > 0 {
            self.sessions.insert(session, Place::Process(process));
        }
    }

    pub(super) fn session_expired(&mut self, at: u64, session: i64, leader: usize) {
        let owner = self.sessions.get(&session);
        let text = match owner {
            Some(owner) => format!("the session of {} ends", self.name(*owner)),
            None => format!("session {session:#x} ends"),
        };
        self.lose(at, Place::Server(leader), text);
    }

    /// A client of the process connects over the link.
    pub(super) fn link_used(&mut self, link: usize, process: usize) {
        if process > 0 {
            self.links.entry(link).or_default().insert(Place::Process(process));
        }
    }

    /// Messages to a server are delayed from now on; by 0 if they no longer are.
    pub(super) fn lag(&mut self, at: u64, server: usize, delay: u64) {
        let place = Place::Server(server);
        self.end_all(at, place, &["fault lag"]);
        if delay > 0 {
            self.begin(at, place, "fault lag", format!("messages take {delay} ms more"));
        }
    }

    pub(super) fn mark(&mut self, at: u64, text: String) {
        self.marks.push((at, text));
    }

    /// Keeps the elements that touch the window. What lasts ends now.
    pub(super) fn cut(mut self, window: Span, now: u64) -> Self {
        for turn in &mut self.turns {
            turn.wait.iter_mut().for_each(|wait| wait.end(now));
            turn.hold.iter_mut().for_each(|hold| hold.span.end(now));
        }
        self.turns.retain(|turn| turn.span().touches(window));
        self.turns.sort_by_key(|turn| turn.span().from);
        self.states.iter_mut().for_each(|state| state.span.end(now));
        self.states.retain(|state| state.span.touches(window));
        self.messages.retain(|message| message.span.touches(window));
        self
    }

    /// The messages, with the places that have a lane; without the signs of life if there are many, and none if there are too many.
    pub(super) fn messages_between(&self, has_lane: impl Fn(Place) -> bool) -> Vec<Message> {
        let lane = |place| self.lanes(place).first().copied().filter(|lane| has_lane(*lane));
        let drawn = |message: &Message| {
            let (from, to) = lane(message.from).zip(lane(message.to))?;
            Some(Message { from, to, ..message.clone() })
        };
        let mut drawn: Vec<_> = self.messages.iter().filter_map(drawn).collect();
        if drawn.len() > MOST_MESSAGES {
            drawn.retain(|message| !message.is_sign_of_life());
        }
        if drawn.len() > MOST_MESSAGES {
            drawn.clear();
        }
        drawn
    }

    /// The holds that exclude each other and last at the same time. A paused process does nothing.
    pub(super) fn overlaps(&self, window: Span) -> Vec<Overlap> {
        let mut overlaps = Vec::new();
        for (nth, turn) in self.turns.iter().enumerate() {
            for (later, other) in self.turns.iter().enumerate().skip(nth + 1) {
                let Some((one, two)) = turn.hold.as_ref().zip(other.hold.as_ref()) else {
                    continue;
                };
                let both = one.span.overlap(two.span).and_then(|both| both.overlap(window));
                let mut parts: Vec<_> =
                    both.filter(|_| one.facts.excludes(&two.facts)).into_iter().collect();
                for state in &self.states {
                    let is_theirs = [turn.place, other.place].contains(&state.place);
                    if is_theirs && state.class == "paused" {
                        parts = parts.iter().flat_map(|part| part.without(state.span)).collect();
                    }
                }
                let turns = (nth, later);
                overlaps.extend(parts.into_iter().map(|span| Overlap { turns, span }));
            }
        }
        overlaps
    }
}

/// Calls a function with the recording of this thread's simulation, the time, and the present process. `None` outside a simulation,
/// and while nothing is recorded.
fn report<T>(change: impl FnOnce(&mut Recording, u64, usize) -> T) -> Option<T> {
    World::here()?.change(|state| {
        let process = ProcessState::current().number();
        state.recorded(|recording, now| change(recording, now, process))
    })
}

/// A caller's wait, which is reported as given up if it is dropped before its end.
#[derive(Debug)]
pub(crate) struct ReportedWait(Option<usize>);

impl ReportedWait {
    pub(crate) fn begin(curator: u64, task: &dyn std::fmt::Debug, path: &str) -> Self {
        Self(report(|recording, now, process| {
            recording.begin_wait(now, process, curator, format!("{task:?}"), path)
        }))
    }

    pub(crate) fn answered<T>(&mut self, answer: &Result<T, Error>) {
        self.end(match answer {
            Ok(_) => "acquired",
            Err(error) if error.is_busy() => "busy",
            Err(_) => "failed",
        });
    }

    fn end(&mut self, outcome: &'static str) {
        if let Some(turn) = self.0.take() {
            report(|recording, now, _| recording.end_wait(turn, now, outcome));
        }
    }
}

impl Drop for ReportedWait {
    fn drop(&mut self) {
        self.end("given up");
    }
}

/// The holds of one term, by the number of the term.
#[derive(Debug)]
pub(crate) struct ReportedTerm(u64);

impl Default for ReportedTerm {
    fn default() -> Self {
        static TERMS: AtomicU64 = AtomicU64::new(1);
        Self(TERMS.fetch_add(1, Ordering::Relaxed))
    }
}

impl ReportedTerm {
    pub(crate) fn begin(&self, facts: impl FnOnce() -> RecordedHold) -> ReportedHold {
        ReportedHold(report(|recording, now, process| {
            recording.begin_hold(now, process, self.0, facts())
        }))
    }

    /// The term ended so long ago.
    pub(crate) fn ended(&self, loss: Loss, ago: Duration) {
        report(|recording, now, _| {
            let at = now.saturating_sub(millis(ago));
            recording.end_term(self.0, at, loss);
        });
    }
}

/// One hold. Only its first end counts.
#[derive(Debug)]
pub(crate) struct ReportedHold(Option<usize>);

impl ReportedHold {
    pub(crate) fn ended(&self, loss: Option<Loss>) {
        if let Some(turn) = self.0 {
            report(|recording, now, _| recording.end_hold(turn, now, loss));
        }
    }
}
