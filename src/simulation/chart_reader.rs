//! Reads the events of a run, and makes the elements of a chart. Pure.

use std::collections::BTreeMap;

use super::chart::{
    Chart, Fault, Lane, LaneState, MOST_MESSAGES, Message, Overlap, Span, StateKind, Turn,
};
use super::op::Operation;
use super::recording::{End, Place, Recorded, RecordedHold, RunEvent};
use super::server::Role;
use crate::error::Loss;

/// Reads the events from the first to the last. The lanes of the servers are the first ones.
pub(super) struct Reader<'a> {
    now: u64,
    processes: &'a [String],
    servers: usize,
    /// The names of processes, and of `Curator`s outside all processes.
    names: Vec<String>,
    /// The `Curator`s outside all processes.
    curators: Vec<u64>,
    /// The lanes of sessions, and those of the processes that use a link.
    sessions: BTreeMap<i64, usize>,
    links: BTreeMap<usize, Vec<usize>>,
    turns: Vec<Turn>,
    /// The turns of waits, of holds and of terms.
    waits: BTreeMap<u64, usize>,
    holds: BTreeMap<u64, usize>,
    terms: BTreeMap<u64, Vec<usize>>,
    states: Vec<LaneState>,
    faults: BTreeMap<u64, (Place, Fault)>,
    messages: Vec<(End, End, Message)>,
    marks: Vec<(u64, String)>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(processes: &'a [String], servers: usize, now: u64) -> Self {
        let mut reader = Self {
            now,
            processes,
            servers,
            names: Vec::new(),
            curators: Vec::new(),
            sessions: BTreeMap::new(),
            links: BTreeMap::new(),
            turns: Vec::new(),
            waits: BTreeMap::new(),
            holds: BTreeMap::new(),
            terms: BTreeMap::new(),
            states: Vec::new(),
            faults: BTreeMap::new(),
            messages: Vec::new(),
            marks: Vec::new(),
        };
        for name in processes {
            reader.lane_named(name.clone());
        }
        reader
    }

    fn lane_named(&mut self, name: String) -> usize {
        let known = self.names.iter().position(|known| *known == name);
        let place = known.unwrap_or_else(|| {
            self.names.push(name);
            self.names.len() - 1
        });
        self.servers + place
    }

    /// The lane of a process. Code outside all processes has a lane for each `Curator`.
    fn lane_of(&mut self, process: usize, curator: Option<u64>) -> usize {
        let name = process.checked_sub(1).and_then(|place| self.processes.get(place));
        match (name, curator) {
            (Some(name), _) => self.lane_named(name.clone()),
            (None, Some(curator)) => {
                let known = self.curators.iter().position(|known| *known == curator);
                let place = known.unwrap_or(self.curators.len());
                if known.is_none() {
                    self.curators.push(curator);
                }
                self.lane_named(format!("Curator {}", place + 1))
            }
            (None, None) => self.lane_named("the test".to_owned()),
        }
    }

    pub(super) fn read(&mut self, Recorded { at, event }: &Recorded) {
        let at = *at;
        match event {
            RunEvent::WaitBegan { wait, process, curator, task, path } => {
                let lane = self.lane_of(*process, Some(*curator));
                let waits = Some(Span { from: at, to: self.now });
                let turn = Turn { waits, ..Turn::of(lane, *process, task, path) };
                self.waits.insert(*wait, self.turns.len());
                self.turns.push(turn);
            }
            RunEvent::WaitEnded { wait, outcome } => {
                let Some(turn) = self.waits.remove(wait) else { return };
                self.end_wait(turn, at, outcome);
            }
            RunEvent::HoldBegan { hold, term, process, facts } => {
                let turn = self.begin_hold(at, *process, facts);
                self.holds.insert(*hold, turn);
                self.terms.entry(*term).or_default().push(turn);
            }
            RunEvent::HoldEnded { hold, loss } => {
                let Some(turn) = self.holds.remove(hold) else { return };
                self.end_hold(turn, at, *loss);
            }
            RunEvent::TermEnded { term, loss } => {
                for turn in self.terms.remove(term).unwrap_or_default() {
                    self.end_hold(turn, at, Some(*loss));
                }
            }
            RunEvent::Paused { process } => {
                self.begin_state(at, *process, StateKind::Paused, "paused")
            }
            RunEvent::Resumed { process } => self.resume(at, *process),
            RunEvent::Killed { process } => self.kill(at, *process),
            RunEvent::ServerRole { server, role, epoch } => self.role(at, *server, *role, *epoch),
            RunEvent::ServerPaused { server } => {
                self.add_state(at, *server, StateKind::Paused, "paused".to_owned());
            }
            RunEvent::ServerResumed { server } => self.end_state(at, *server, StateKind::Paused),
            RunEvent::SessionOf { session, process } => {
                if *process > 0 {
                    let lane = self.lane_of(*process, None);
                    self.sessions.insert(*session, lane);
                }
            }
            RunEvent::SessionExpired { session, server } => {
                let lane = self.sessions.get(session).copied();
                let name = lane.and_then(|lane| self.names.get(lane - self.servers));
                let text = name.map_or(format!("session {session:#x} ends"), |name| {
                    format!("the session of {name} ends")
                });
                self.add_state(at, *server, StateKind::Expired, text);
                self.end_state(at, *server, StateKind::Expired);
            }
            RunEvent::LinkUsed { link, process } => {
                let lane = self.lane_of(*process, None);
                let lanes = self.links.entry(*link).or_default();
                if *process > 0 && !lanes.contains(&lane) {
                    lanes.push(lane);
                }
            }
            RunEvent::FaultBegan { fault, place, name } => {
                let span = Span { from: at, to: self.now };
                let drawn = Fault { span, name: name.clone(), lanes: Vec::new(), is_pause: false };
                self.faults.insert(*fault, (place.clone(), drawn));
            }
            RunEvent::FaultEnded { fault } => {
                if let Some((_, fault)) = self.faults.get_mut(fault) {
                    fault.span.to = at;
                }
            }
            RunEvent::Message { from, to, sent, operation, is_lost } => {
                let name = operation.map_or("the end of a connection".to_owned(), |operation| {
                    format!("{operation:?}")
                });
                let between_servers = matches!((from, to), (End::Server(_), End::Server(_)));
                let message = Message {
                    from: 0,
                    to: 0,
                    span: Span { from: *sent, to: at },
                    name: if between_servers { "between servers".to_owned() } else { name },
                    is_lost: *is_lost,
                    is_sign_of_life: between_servers
                        || matches!(operation, Some(Operation::Ping | Operation::Sync)),
                };
                self.messages.push((*from, *to, message));
            }
            RunEvent::Mark { text } => self.marks.push((at, text.clone())),
        }
    }

    fn end_wait(&mut self, turn: usize, at: u64, outcome: &'static str) {
        let turn = &mut self.turns[turn];
        let until = turn.holds.map_or(at, |holds| holds.from.min(at));
        if let Some(waits) = &mut turn.waits {
            waits.to = until.min(waits.to);
        }
        turn.outcome = outcome;
    }

    /// Begins a hold in the turn of the caller that waits for it.
    fn begin_hold(&mut self, at: u64, process: usize, facts: &RecordedHold) -> usize {
        let waits = |turn: &&usize| {
            let turn = &self.turns[**turn];
            turn.process == process
                && turn.task == facts.task
                && turn.path == facts.path
                && turn.holds.is_none()
        };
        let waiting = self.waits.values().find(waits).copied();
        let place = waiting.unwrap_or(self.turns.len());
        if waiting.is_none() {
            let lane = self.lane_of(process, None);
            self.turns.push(Turn::of(lane, process, &facts.task, &facts.path));
        }
        let turn = &mut self.turns[place];
        if let Some(waits) = &mut turn.waits {
            waits.to = at;
        }
        turn.holds = Some(Span { from: at, to: self.now });
        turn.token = facts.token;
        turn.session = facts.session;
        turn.kind = facts.kind;
        let lane = turn.lane;
        self.sessions.insert(facts.session, lane);
        place
    }

    /// Ends a hold, unless it has ended. Only a loss that the caller did not ask for is shown as one.
    fn end_hold(&mut self, turn: usize, at: u64, loss: Option<Loss>) {
        let text = match loss {
            None => "released".to_owned(),
            Some(Loss::Closed) => Loss::Closed.to_string(),
            Some(loss) => format!("lost: {loss}"),
        };
        let is_lost = loss.is_some_and(|loss| loss != Loss::Closed);
        self.turns[turn].end(at, text, is_lost);
    }

    fn begin_state(&mut self, at: u64, process: usize, kind: StateKind, text: &str) {
        let lane = self.lane_of(process, None);
        self.add_state(at, lane, kind, text.to_owned());
    }

    fn add_state(&mut self, at: u64, lane: usize, kind: StateKind, text: String) {
        let span = Span { from: at, to: self.now };
        self.states.push(LaneState { lane, span, kind, text });
    }

    fn end_state(&mut self, at: u64, lane: usize, kind: StateKind) {
        let is_it = |state: &&mut LaneState| state.lane == lane && state.kind == kind;
        if let Some(state) = self.states.iter_mut().rev().find(is_it) {
            state.span.to = state.span.to.min(at);
        }
    }

    fn resume(&mut self, at: u64, process: usize) {
        let lane = self.lane_of(process, None);
        self.end_state(at, lane, StateKind::Paused);
    }

    /// Ends the waits and the holds of the process.
    fn kill(&mut self, at: u64, process: usize) {
        self.begin_state(at, process, StateKind::Killed, "killed");
        let lane = self.lane_of(process, None);
        self.end_state(at, lane, StateKind::Killed);
        self.end_state(at, lane, StateKind::Paused);
        let turns = &mut self.turns;
        self.waits.retain(|_, turn| {
            let is_its = turns[*turn].process == process;
            if let Some(waits) = turns[*turn].waits.as_mut().filter(|_| is_its) {
                waits.to = waits.to.min(at);
                turns[*turn].outcome = "killed";
            }
            !is_its
        });
        for turn in 0..self.turns.len() {
            if self.turns[turn].process == process {
                self.turns[turn].end(at, "killed".to_owned(), false);
            }
        }
    }

    fn role(&mut self, at: u64, server: usize, role: Role, epoch: i64) {
        let roles = [StateKind::Leads, StateKind::Follows, StateKind::Elects, StateKind::Down];
        roles.into_iter().for_each(|kind| self.end_state(at, server, kind));
        let role = match role {
            Role::Leading if self.servers == 1 => (StateKind::Leads, "serves".to_owned()),
            Role::Leading => (StateKind::Leads, format!("leads, epoch {epoch}")),
            Role::Following(leader) => (StateKind::Follows, format!("follows server {leader}")),
            Role::Looking => (StateKind::Elects, "elects".to_owned()),
            Role::Down => (StateKind::Down, "down".to_owned()),
        };
        self.add_state(at, server, role.0, role.1);
    }

    /// The lane of an end of a message; `None` if it has no lane.
    fn lane_of_end(&mut self, end: End) -> Option<usize> {
        match end {
            End::Server(server) => Some(server),
            End::Client { process: 0, session } => self.sessions.get(&session).copied(),
            End::Client { process, .. } => Some(self.lane_of(process, None)),
        }
    }

    pub(super) fn chart(mut self, window: Span) -> Chart {
        let lasts_in_window = |span: Span| span.touches(window);
        self.turns.retain(|turn| lasts_in_window(turn.span()));
        self.turns.sort_by_key(|turn| turn.span().from);
        self.states.retain(|state| lasts_in_window(state.span));
        let faults = self.faults_in(window);
        let rows = self.place_in_rows();
        let messages = self.messages_in(window, &rows);
        let overlaps = self.overlaps(window);
        let servers = (0..self.servers).map(|server| (format!("server {server}"), true));
        let names = servers.chain(self.names.iter().map(|name| (name.clone(), false)));
        let lane = |(lane, (name, is_server)): (usize, (String, bool))| Lane {
            rows: rows.get(&lane).copied().unwrap_or(usize::from(is_server)),
            name,
            is_server,
        };
        Chart {
            window,
            lanes: names.enumerate().map(lane).collect(),
            overlaps,
            turns: self.turns,
            states: self.states,
            faults,
            messages,
            marks: self.marks,
        }
    }

    /// The messages of the window; without the signs of life if there are many, and none if there are too many.
    fn messages_in(&mut self, window: Span, rows: &BTreeMap<usize, usize>) -> Vec<Message> {
        let mut drawn = Vec::new();
        let has_lane = |lane: usize, servers| lane < servers || rows.contains_key(&lane);
        for (from, to, message) in std::mem::take(&mut self.messages) {
            let ends = self.lane_of_end(from).zip(self.lane_of_end(to));
            let Some((from, to)) = ends.filter(|_| message.span.touches(window)) else { continue };
            if has_lane(from, self.servers) && has_lane(to, self.servers) {
                drawn.push(Message { from, to, ..message });
            }
        }
        if drawn.len() > MOST_MESSAGES {
            drawn.retain(|message| !message.is_sign_of_life);
        }
        if drawn.len() > MOST_MESSAGES {
            drawn.clear();
        }
        drawn
    }

    /// The faults of the window, and the pauses of processes.
    fn faults_in(&mut self, window: Span) -> Vec<Fault> {
        let is_pause =
            |state: &&LaneState| state.kind == StateKind::Paused && state.lane >= self.servers;
        let pause = |state: &LaneState| Fault {
            span: state.span,
            name: state.text.clone(),
            lanes: vec![state.lane],
            is_pause: true,
        };
        let mut drawn: Vec<_> = self.states.iter().filter(is_pause).map(pause).collect();
        for (place, mut fault) in std::mem::take(&mut self.faults).into_values() {
            fault.lanes = match place {
                Place::Link(link) => self.links.get(&link).cloned().unwrap_or_default(),
                Place::Session(session) => {
                    self.sessions.get(&session).copied().into_iter().collect()
                }
                Place::Servers(servers) => servers,
            };
            if fault.span.touches(window) {
                drawn.push(fault);
            }
        }
        drawn
    }

    /// Puts each turn in a row of its lane: in that of its task, or in the first that is free. Returns the number of rows of
    /// each lane of a process.
    fn place_in_rows(&mut self) -> BTreeMap<usize, usize> {
        // When each row is free again, and the task that used it.
        let mut lanes: BTreeMap<usize, Vec<(u64, String)>> = BTreeMap::new();
        for turn in &mut self.turns {
            let rows = lanes.entry(turn.lane).or_default();
            let span = turn.span();
            let is_free = |row: &(u64, String)| row.0 <= span.from;
            let own = rows.iter().position(|row| is_free(row) && row.1 == turn.task);
            let row = own.or_else(|| rows.iter().position(is_free)).unwrap_or_else(|| {
                rows.push((0, String::new()));
                rows.len() - 1
            });
            rows[row] = (span.to, turn.task.clone());
            turn.row = row;
        }
        let mut rows: BTreeMap<_, _> =
            lanes.into_iter().map(|(lane, rows)| (lane, rows.len())).collect();
        for state in self.states.iter().filter(|state| state.lane >= self.servers) {
            rows.entry(state.lane).or_insert(1);
        }
        rows
    }

    /// The holds that exclude each other and last at the same time. A paused process does nothing.
    fn overlaps(&self, window: Span) -> Vec<Overlap> {
        let is_paused = |state: &&LaneState| state.kind == StateKind::Paused;
        let mut overlaps = Vec::new();
        for (place, turn) in self.turns.iter().enumerate() {
            for (later, other) in self.turns.iter().enumerate().skip(place + 1) {
                let Some(both) =
                    turn.holds.zip(other.holds).and_then(|(one, two)| one.overlap(two))
                else {
                    continue;
                };
                if !turn.excludes(other) {
                    continue;
                }
                let mut parts: Vec<_> = both.overlap(window).into_iter().collect();
                for pause in self.states.iter().filter(is_paused) {
                    if [turn.lane, other.lane].contains(&pause.lane) {
                        parts = parts.iter().flat_map(|part| part.without(pause.span)).collect();
                    }
                }
                let turns = (place, later);
                overlaps.extend(parts.into_iter().map(|span| Overlap { turns, span }));
            }
        }
        overlaps
    }
}
