//! What has passed, and which request a reply answers.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::frame::Head;
use super::{Direction, Operation};

/// Older entries go.
const LOG: usize = 100_000;
/// A client has no more requests under way than that; older ones go.
const UNANSWERED: usize = 65_536;
/// The server's own message: a watch has fired.
const EVENT: i32 = -1;

/// Of a proxy.
#[derive(Debug, Default)]
pub(super) struct Counters {
    seen: Mutex<Seen>,
    to_server: AtomicU64,
    to_client: AtomicU64,
}

#[derive(Debug, Default)]
struct Seen {
    counts: HashMap<(Direction, Operation), usize>,
    log: VecDeque<Operation>,
}

impl Counters {
    pub(super) fn see(&self, direction: Direction, operation: Operation) {
        let mut seen = self.seen();
        *seen.counts.entry((direction, operation)).or_default() += 1;
        if direction == Direction::ToServer && Operation::Any.means(operation) {
            seen.log.push_back(operation);
            if seen.log.len() > LOG {
                seen.log.pop_front();
            }
        }
    }

    /// How many messages went that way.
    pub(super) fn messages(&self, direction: Direction, asked: Operation) -> usize {
        let is_asked = |(way, seen): (Direction, Operation)| way == direction && asked.means(seen);
        self.seen().counts.iter().filter(|(key, _)| is_asked(**key)).map(|(_, count)| count).sum()
    }

    pub(super) fn log(&self) -> Vec<Operation> {
        self.seen().log.iter().copied().collect()
    }

    pub(super) fn clear_log(&self) {
        self.seen().log.clear();
    }

    pub(super) fn forward(&self, direction: Direction, bytes: usize) {
        let to_server = direction == Direction::ToServer;
        let counter = if to_server { &self.to_server } else { &self.to_client };
        counter.fetch_add(bytes.try_into().unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(super) fn bytes(&self, direction: Direction) -> u64 {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        match direction {
            Direction::ToServer => of(&self.to_server),
            Direction::ToClient => of(&self.to_client),
            Direction::Both => of(&self.to_server) + of(&self.to_client),
        }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The requests of one connection that have no reply yet.
#[derive(Debug, Default)]
pub(super) struct Unanswered(Mutex<VecDeque<(i32, Operation)>>);

impl Unanswered {
    /// What a message is about. `None` for a reply to nothing.
    pub(super) fn operation(&self, head: Head) -> Option<Operation> {
        let mut requests = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match head {
            Head::Connect => Some(Operation::Connect),
            Head::Request { xid, code } => {
                let operation = Operation::of(code);
                requests.push_back((xid, operation));
                if requests.len() > UNANSWERED {
                    requests.pop_front();
                }
                Some(operation)
            }
            Head::Reply { xid: EVENT } => Some(Operation::Event),
            Head::Reply { xid } => {
                // The first of its number: pings and their like all have the same.
                let place = requests.iter().position(|(number, _)| *number == xid)?;
                requests.remove(place).map(|(_, operation)| operation)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{EVENT, Head, Operation, UNANSWERED, Unanswered};

    #[test]
    fn a_reply_is_about_the_first_request_of_its_number() {
        let unanswered = Unanswered::default();
        let requests = [(1, 15), (-2, 11), (-8, 101), (-8, 105), (2, 8)];
        for (xid, code) in requests {
            let operation = unanswered.operation(Head::Request { xid, code });
            assert_eq!(operation, Some(Operation::of(code)));
        }
        for (xid, operation) in [
            (-2, Some(Operation::Ping)),
            (EVENT, Some(Operation::Event)),
            (1, Some(Operation::Create)),
            (1, None),
            (-8, Some(Operation::SetWatches)),
            (-8, Some(Operation::SetWatches)),
            (-8, None),
            (2, Some(Operation::List)),
            (3, None),
        ] {
            assert_eq!(unanswered.operation(Head::Reply { xid }), operation, "{xid}");
        }
    }

    #[test]
    fn requests_that_are_never_answered_are_forgotten() {
        let unanswered = Unanswered::default();
        for xid in 0..=i32::try_from(UNANSWERED).unwrap() {
            unanswered.operation(Head::Request { xid, code: 2 });
        }
        assert_eq!(unanswered.operation(Head::Reply { xid: 0 }), None);
        assert_eq!(unanswered.operation(Head::Reply { xid: 1 }), Some(Operation::Delete));
    }
}
