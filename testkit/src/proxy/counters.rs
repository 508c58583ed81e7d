//! Counts of messages and bytes, and the request that a reply answers.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::frame::Head;
use super::{Direction, Operation};

/// The length of the log; older entries are removed.
const LOG: usize = 100_000;
/// The number of requests under way that are remembered, more than any client has; older ones are removed.
const UNANSWERED: usize = 65_536;
/// The number of the server's own message, that a watch has fired.
const EVENT: i32 = -1;

/// The counters of a proxy.
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

    /// Returns the number of messages in a direction.
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
    /// Returns the operation of a message; `None` for a reply without a request.
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
                // The first request of this number, because all pings share one number, and so do other special
                // requests.
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
