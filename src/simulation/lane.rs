//! Messages in their order, and what a link does to those between clients and servers.

use super::fault::{Cut, What};
use super::op::Operation;
use super::state::{Act, Conn, Parted, Queued, Session, State, Way};

impl State {
    /// A client connects, if the link lets it.
    pub(super) fn open(&mut self, peer: usize, link: usize, server: usize) -> Option<u64> {
        let state = &mut self.links[link];
        if let Some(refusal) = state.faults.iter().find(|fault| fault.what == What::Refuse) {
            refusal.strike();
            return None;
        }
        state.accepted += 1;
        let number = self.number();
        let session = Some(Session::default());
        self.conns.insert(number, Conn { peer, server, link, with_client: true, session });
        Some(number)
    }

    /// Sends to the server of a connection. Without an operation it is the end of the connection.
    pub(super) fn send_up(
        &mut self,
        number: u64,
        operation: Option<Operation>,
        message: impl FnOnce(&mut Self) + Send + 'static,
    ) {
        let arrives = move |state: &mut Self| {
            // What arrives for a connection that the server has closed is lost.
            if state.session_of(number).is_some() {
                message(state);
            }
        };
        self.send(Way::Up(number), number, operation, Box::new(arrives));
    }

    /// Sends to the client of a connection.
    pub(super) fn send_down(
        &mut self,
        number: u64,
        operation: Option<Operation>,
        message: impl FnOnce(&mut Self, usize) + Send + 'static,
    ) {
        let arrives = move |state: &mut Self| {
            let Some(peer) = state.conns.get(&number).map(|conn| conn.peer) else { return };
            let client = &mut state.peers[peer];
            if client.conn != Some(number) || client.process.is_dead() {
                return state.client_leaves(number);
            }
            client.received = state.now;
            message(state, peer);
        };
        self.send(Way::Down(number), number, operation, Box::new(arrives));
    }

    fn send(&mut self, way: Way, number: u64, operation: Option<Operation>, message: Act) {
        let Some(conn) = self.conns.get(&number) else { return };
        // Neither servers nor faults see a message that is sent into an ended connection.
        let lane = self.lanes.entry(way).or_default();
        if lane.ended {
            return;
        }
        lane.ended = operation.is_none();
        let up = matches!(way, Way::Up(_));
        let link = &mut self.links[conn.link];
        if let Some(operation) = operation {
            *link.messages.entry((up, operation)).or_default() += 1;
            if up && Operation::Any.means(operation) && link.log.len() < 100_000 {
                link.log.push(operation);
            }
        }
        let (mut delay, mut held, mut lost, mut ends) = (0, None, false, None);
        for fault in &mut link.faults {
            if !fault.concerns(number, up, operation) {
                continue;
            }
            match fault.what {
                What::Delay(_, time) => delay += time,
                What::Hold(_) => held = held.or(Some(fault.id)),
                What::Before(_) => (lost, ends) = (true, Some(Cut::Finish)),
                What::After(_, cut) => ends = Some(cut),
                What::Stall(_) | What::Refuse => {}
            }
            fault.strike();
        }
        if !lost {
            self.push(way, delay, held, message);
        }
        if let Some(cut) = ends {
            self.cut_conn(number, cut);
        }
    }

    pub(super) fn push(&mut self, way: Way, delay: u64, held: Option<u64>, message: Act) {
        let soonest = self.now + self.rng.u64(self.setting.latency.clone()) + delay;
        let lane = self.lanes.entry(way).or_default();
        lane.last = lane.last.max(soonest + lane.delay);
        let due = lane.last;
        lane.queue.push_back(Queued { due, message, held });
        self.at(due, move |state| state.arrive(way));
    }

    /// The next message of a lane arrives, if there is one that may.
    fn arrive(&mut self, way: Way) {
        let now = self.now;
        let first = self.lanes.get(&way).and_then(|lane| lane.queue.front());
        let may_arrive = |first: &&Queued| first.due <= now && !self.is_blocked(way, first.held);
        if first.filter(may_arrive).is_none() {
            return;
        }
        let queued = self.lanes.get_mut(&way).and_then(|lane| lane.queue.pop_front());
        if let Some(queued) = queued {
            (queued.message)(self);
        }
    }

    fn is_blocked(&self, way: Way, held: Option<u64>) -> bool {
        let (number, up) = match way {
            Way::Up(number) => (number, true),
            Way::Down(number) => (number, false),
            Way::Wire(from, to) => {
                return self.servers[to].paused || self.parted.contains(&Parted::Wire(from, to));
            }
        };
        let Some(conn) = self.conns.get(&number) else { return true };
        let at_end = if up {
            let session = conn.session.as_ref();
            self.servers[conn.server].paused || session.is_some_and(|own| own.shakes_hands)
        } else {
            self.peers[conn.peer].process.is_paused()
        };
        let mut faults = self.links[conn.link].faults.iter();
        at_end
            || self.parted.contains(&Parted::Client(conn.peer))
            || faults.any(|fault| match fault.what {
                What::Stall(direction) => direction.covers(up),
                What::Hold(_) => held == Some(fault.id),
                _ => false,
            })
    }

    /// Something may have ceased to be in the way of messages: all that wait are looked at.
    pub(super) fn unblocked(&mut self) {
        let waiting = self.lanes.iter().map(|(way, lane)| (*way, lane.queue.len()));
        for (way, count) in waiting.collect::<Vec<_>>() {
            (0..count).for_each(|_| self.at(self.now, move |state| state.arrive(way)));
        }
    }

    /// Both ends learn of it, behind what still arrives.
    pub(super) fn cut_conn(&mut self, number: u64, cut: Cut) {
        let ways = [Way::Up(number), Way::Down(number)];
        let is_open = |way: &Way| self.lanes.get(way).is_none_or(|lane| !lane.ended);
        if cut == Cut::Reset && ways.iter().all(is_open) {
            for way in ways {
                let queue = &mut self.lanes.entry(way).or_default().queue;
                queue.truncate(self.rng.usize(..=queue.len()));
            }
        }
        self.send_up(number, None, move |state| state.close_conn(number));
        self.send_down(number, None, Self::broken);
    }

    /// The client gives it up.
    pub(super) fn client_leaves(&mut self, number: u64) {
        self.send_up(number, None, move |state| state.close_conn(number));
        if let Some(conn) = self.conns.get_mut(&number) {
            conn.with_client = false;
        }
        self.forget_conn(number);
    }

    /// Nothing arrives at an end that has given it up.
    pub(super) fn forget_conn(&mut self, number: u64) {
        let Some(conn) = self.conns.get(&number) else { return };
        let has_server = conn.session.is_some();
        if !conn.with_client {
            self.lanes.remove(&Way::Down(number));
        }
        if !conn.with_client && !has_server {
            self.lanes.remove(&Way::Up(number));
            self.conns.remove(&number);
        }
    }
}
