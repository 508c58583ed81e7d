//! Messages between clients and servers, in their order, and what a link does to them.

use super::conn::{Conn, Down, Lane, Queued, Up};
use super::fault::{Active, Cut, What};
use super::op::Operation;
use super::server::Session;
use super::state::{Event, State};

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
        let (up, down) = (Lane::default(), Lane::default());
        let conn = Conn { peer, server, link, up, down, with_client: true, session };
        self.conns.insert(number, conn);
        self.servers[server].conns.insert(number);
        Some(number)
    }

    pub(super) fn send_up(&mut self, number: u64, message: Up) {
        let operation = match &message {
            Up::Connect { .. } => Some(Operation::Connect),
            Up::Request { op, .. } => Some(op.operation()),
            Up::End => None,
        };
        let is_end = matches!(message, Up::End);
        self.enqueue(number, true, operation, |conn| &mut conn.up, message, is_end);
    }

    pub(super) fn send_down(&mut self, number: u64, message: Down) {
        let operation = match &message {
            Down::Connected { .. } => Some(Operation::Connect),
            Down::Reply { operation, .. } => Some(*operation),
            Down::Event { .. } => Some(Operation::Event),
            Down::End => None,
        };
        let is_end = matches!(message, Down::End);
        self.enqueue(number, false, operation, |conn| &mut conn.down, message, is_end);
    }

    fn enqueue<M>(
        &mut self,
        number: u64,
        up: bool,
        operation: Option<Operation>,
        lane: fn(&mut Conn) -> &mut Lane<M>,
        message: M,
        is_end: bool,
    ) {
        // Neither servers nor faults see a message that is sent into an ended connection.
        if self.conns.get_mut(&number).is_none_or(|conn| lane(conn).ended) {
            return;
        }
        let Some(fate) = self.pass(number, up, operation) else { return };
        let due = self.due(number, up, fate.delay);
        let Some(lane) = self.conns.get_mut(&number).map(lane) else { return };
        lane.ended = is_end;
        if !fate.lost {
            lane.queue.push_back(Queued { due, message, held: fate.held });
            self.at(due, Event::Message { conn: number, up });
        }
        if let Some(cut) = fate.cut {
            self.cut_conn(number, cut);
        }
    }

    fn due(&mut self, number: u64, up: bool, delay: u64) -> u64 {
        let due = self.now + self.latency() + delay;
        let Some(conn) = self.conns.get_mut(&number) else { return due };
        let last = if up { &mut conn.up.last } else { &mut conn.down.last };
        *last = due.max(*last);
        *last
    }

    /// What the link does to a message.
    fn pass(&mut self, number: u64, up: bool, operation: Option<Operation>) -> Option<Fate> {
        let conn = self.conns.get(&number)?;
        let link = &mut self.links[conn.link];
        let mut fate = Fate::default();
        if let Some(operation) = operation {
            *link.messages.entry((up, operation)).or_default() += 1;
            if up && Operation::Any.means(operation) && link.log.len() < 100_000 {
                link.log.push(operation);
            }
            for fault in &mut link.faults {
                if fault.claims(number, up, operation) {
                    match fault.what {
                        What::Hold(_) => fate.held = fate.held.or(Some(fault.id)),
                        What::Before(_) => (fate.lost, fate.cut) = (true, Some(Cut::Finish)),
                        What::After(_, cut) => fate.cut = Some(cut),
                        What::Delay(..) | What::Stall(_) | What::Refuse => {}
                    }
                    fault.strike();
                }
            }
        }
        for fault in &link.faults {
            match fault.what {
                What::Delay(direction, time) if direction.covers(up) => fate.delay += time,
                What::Stall(direction) if direction.covers(up) => fault.strike(),
                _ => {}
            }
        }
        Some(fate)
    }

    /// Both ends learn of it, behind what still arrives.
    pub(super) fn cut_conn(&mut self, number: u64, cut: Cut) {
        let Some(conn) = self.conns.get_mut(&number) else { return };
        if cut == Cut::Reset && !conn.up.ended && !conn.down.ended {
            let (up, down) = (self.rng.usize(..=conn.up.len()), self.rng.usize(..=conn.down.len()));
            conn.up.lose(up);
            conn.down.lose(down);
        }
        self.send_up(number, Up::End);
        self.send_down(number, Down::End);
    }

    fn is_blocked(&self, number: u64, up: bool, held: Option<u64>) -> Option<bool> {
        let conn = self.conns.get(&number)?;
        let peer = &self.peers[conn.peer];
        let at_end = if up { self.servers[conn.server].paused } else { peer.is_paused() };
        let is_in_the_way = |fault: &Active| match fault.what {
            What::Stall(direction) => direction.covers(up),
            What::Hold(_) => held == Some(fault.id),
            _ => false,
        };
        Some(at_end || peer.parted || self.links[conn.link].faults.iter().any(is_in_the_way))
    }

    /// The next message of a lane, if there is one that may arrive.
    pub(super) fn next<M>(
        &mut self,
        number: u64,
        up: bool,
        lane: fn(&mut Conn) -> &mut Lane<M>,
    ) -> Option<M> {
        let first = lane(self.conns.get_mut(&number)?).queue.front()?;
        let (due, held) = (first.due, first.held);
        if due > self.now || self.is_blocked(number, up, held)? {
            return None;
        }
        let lane = lane(self.conns.get_mut(&number)?);
        lane.queue.pop_front().map(|queued| queued.message)
    }

    /// Something may have ceased to be in the way.
    pub(super) fn unblocked(&mut self) {
        let waiting = |(number, conn): (&u64, &Conn)| (*number, conn.up.len(), conn.down.len());
        let waiting: Vec<_> = self.conns.iter().map(waiting).collect();
        for (conn, up, down) in waiting {
            (0..up).for_each(|_| self.at(self.now, Event::Message { conn, up: true }));
            (0..down).for_each(|_| self.at(self.now, Event::Message { conn, up: false }));
        }
    }

    /// Neither end has it any more.
    pub(super) fn forget_conn(&mut self, number: u64) {
        let is_over = |conn: &Conn| !conn.with_client && conn.session.is_none();
        if self.conns.get(&number).is_some_and(is_over) {
            self.conns.remove(&number);
        }
    }

    /// The client lets go of it.
    pub(super) fn client_leaves(&mut self, number: u64) {
        self.send_up(number, Up::End);
        if let Some(conn) = self.conns.get_mut(&number) {
            conn.with_client = false;
            conn.down.lose(0);
        }
        self.forget_conn(number);
    }
}

#[derive(Default)]
struct Fate {
    delay: u64,
    lost: bool,
    held: Option<u64>,
    cut: Option<Cut>,
}
