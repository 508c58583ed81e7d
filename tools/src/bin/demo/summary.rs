//! What the logs of all workers say together.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::log::{Event, What};

/// One hold, from the log of the worker that had it.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    pub(crate) token: i64,
    pub(crate) asked: Duration,
    pub(crate) from: Duration,
    /// The last moment at which the guard was seen to hold.
    pub(crate) until: Duration,
    pub(crate) released: Option<Duration>,
    pub(crate) lost: bool,
}

/// The holds of all workers, by token.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    holds: BTreeMap<i64, Hold>,
    asked: BTreeMap<usize, Duration>,
    /// A token that two workers had.
    doubled: usize,
}

impl Holds {
    pub(crate) fn add(&mut self, worker: usize, event: Event) {
        let Event { what, at, token } = event;
        match what {
            What::Asks => {
                self.asked.insert(worker, at);
            }
            What::Holds => {
                let asked = self.asked.get(&worker).copied().unwrap_or(at);
                let hold = Hold { token, asked, from: at, until: at, released: None, lost: false };
                self.doubled += usize::from(self.holds.insert(token, hold).is_some());
            }
            What::Works | What::Releases | What::Lost => {
                let Some(hold) = self.holds.get_mut(&token) else {
                    return;
                };
                match what {
                    What::Works => hold.until = at,
                    What::Releases => hold.released = Some(at),
                    _ => hold.lost = true,
                }
            }
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.holds.len()
    }

    pub(crate) fn get(&self, token: i64) -> Option<&Hold> {
        self.holds.get(&token)
    }

    /// Pairs of holds of which one began before the other had ended: by the time, and by the order of
    /// the tokens.
    pub(crate) fn overlaps(&self) -> Vec<(&Hold, &Hold)> {
        let mut by_time: Vec<_> = self.holds.values().collect();
        by_time.sort_by_key(|hold| hold.from);
        let mut overlaps = Vec::new();
        let mut latest: Option<&Hold> = None;
        for hold in by_time {
            if let Some(before) = latest
                && (hold.from <= before.until || hold.token <= before.token)
            {
                overlaps.push((before, hold));
            }
            if latest.is_none_or(|before| hold.until > before.until) {
                latest = Some(hold);
            }
        }
        overlaps
    }

    pub(crate) fn doubled(&self) -> usize {
        self.doubled
    }

    /// From the beginning of a release to the next hold, where the next had asked before.
    pub(crate) fn handovers(&self) -> Vec<Duration> {
        let in_order: Vec<_> = self.holds.values().collect();
        let mut handovers: Vec<_> = in_order
            .windows(2)
            .filter_map(|pair| {
                let released = pair[0].released?;
                (pair[1].asked < released).then(|| pair[1].from.saturating_sub(released))
            })
            .collect();
        handovers.sort_unstable();
        handovers
    }
}

/// Of sorted values.
pub(crate) fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let place = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(place).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Worker, what, milliseconds, token.
    fn holds(events: &[(usize, What, u64, i64)]) -> Holds {
        let mut holds = Holds::default();
        for (worker, what, at, token) in events.iter().copied() {
            holds.add(worker, Event { what, at: Duration::from_millis(at), token });
        }
        holds
    }

    #[test]
    fn holds_one_after_the_other_do_not_overlap() {
        let log = [
            (0, What::Asks, 0, 0),
            (1, What::Asks, 1, 0),
            (0, What::Holds, 2, 7),
            (0, What::Works, 5, 7),
            (0, What::Releases, 6, 7),
            (1, What::Holds, 9, 8),
            (1, What::Works, 11, 8),
        ];
        let holds = holds(&log);
        assert_eq!((holds.count(), holds.overlaps().len(), holds.doubled()), (2, 0, 0));
        assert_eq!(holds.handovers(), [Duration::from_millis(3)]);
    }

    #[test]
    fn a_hold_that_begins_before_another_ends_is_an_overlap() {
        let log = [
            (0, What::Holds, 2, 7),
            (1, What::Holds, 4, 8),
            (0, What::Works, 5, 7),
            (2, What::Holds, 6, 9),
        ];
        assert_eq!(holds(&log).overlaps().len(), 1);
        // The first outlasts the second, and runs into the third.
        let log = [
            (0, What::Holds, 2, 7),
            (1, What::Holds, 3, 8),
            (2, What::Holds, 5, 9),
            (0, What::Works, 6, 7),
        ];
        assert_eq!(holds(&log).overlaps().len(), 2);
    }

    #[test]
    fn a_token_that_does_not_rise_is_an_overlap_and_one_given_twice_is_counted() {
        assert_eq!(holds(&[(0, What::Holds, 2, 8), (1, What::Holds, 4, 7)]).overlaps().len(), 1);
        assert_eq!(holds(&[(0, What::Holds, 2, 7), (1, What::Holds, 4, 7)]).doubled(), 1);
    }

    #[test]
    fn percentiles() {
        let sorted: Vec<_> = (1..=100).map(Duration::from_millis).collect();
        assert_eq!(percentile(&sorted, 50), Duration::from_millis(50));
        assert_eq!(percentile(&sorted, 99), Duration::from_millis(99));
        assert_eq!(percentile(&[], 50), Duration::ZERO);
    }

    #[test]
    fn an_event_is_read_back_as_it_was_written() {
        let event = Event { what: What::Releases, at: Duration::from_nanos(1_234_567), token: 42 };
        assert_eq!(event.to_string().parse(), Ok(event));
        assert!("Holds 12".parse::<Event>().is_err());
        assert!("Ho".parse::<Event>().is_err());
    }
}
