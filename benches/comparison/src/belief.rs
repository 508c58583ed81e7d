//! How long a worker believed that it held, and whether two did at once: reckoned from what they logged.

use std::time::Duration;

use crate::event::{Event, Look, What};

/// From a holder's point of view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Belief {
    pub(crate) from: Duration,
    /// The last moment at which it is known to have believed.
    pub(crate) until: Duration,
    /// Whether it was told, by a look or an answer, that it does not hold any more.
    pub(crate) was_told: bool,
}

impl Belief {
    /// Of the first hold in the log. `None` if there is none.
    pub(crate) fn of(log: &[Event]) -> Option<Self> {
        let first = log.iter().position(|event| matches!(event.what, What::Holds { .. }))?;
        let from = log[first].at;
        let mut belief = Self { from, until: from, was_told: false };
        for event in &log[first..] {
            match &event.what {
                What::Works(Look::Held | Look::CannotTell) | What::Asked(Ok(true)) => {
                    belief.until = event.at;
                }
                What::Releases => {
                    belief.until = event.at;
                    break;
                }
                What::Lost | What::Asked(_) => {
                    belief.was_told = true;
                    break;
                }
                _ => {}
            }
        }
        Some(belief)
    }

    /// How long the first believed on while the second did. `None` if it did not.
    pub(crate) fn overlap(&self, next: &Self) -> Option<Duration> {
        let shared = self.until.min(next.until).checked_sub(self.from.max(next.from))?;
        (shared > Duration::ZERO).then_some(shared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(events: &[(u64, What)]) -> Vec<Event> {
        let event =
            |(at, what): &(u64, What)| Event { at: Duration::from_secs(*at), what: what.clone() };
        events.iter().map(event).collect()
    }

    fn holds() -> What {
        What::Holds { token: None }
    }

    fn belief(from: u64, until: u64) -> Belief {
        let [from, until] = [from, until].map(Duration::from_secs);
        Belief { from, until, was_told: false }
    }

    #[test]
    fn a_belief_ends_with_the_first_look_that_denies_it() {
        let held = What::Works(Look::Held);
        for (events, expected) in [
            (vec![(1, What::Asks)], None),
            (vec![(1, holds())], Some((1, 1, false))),
            (vec![(1, holds()), (2, held.clone()), (9, What::Lost)], Some((1, 2, true))),
            (
                vec![(1, holds()), (2, held.clone()), (3, What::Releases), (4, held.clone())],
                Some((1, 3, false)),
            ),
            (
                vec![(1, holds()), (5, What::Works(Look::CannotTell)), (6, What::Asked(Ok(false)))],
                Some((1, 5, true)),
            ),
            (
                vec![(1, holds()), (5, What::Asked(Err("gone".into()))), (6, held)],
                Some((1, 1, true)),
            ),
        ] {
            let found = Belief::of(&log(&events));
            let found = found.map(|b| (b.from.as_secs(), b.until.as_secs(), b.was_told));
            assert_eq!(found, expected, "{events:?}");
        }
    }

    #[test]
    fn two_overlap_only_if_they_share_time() {
        for (first, second, shared) in [
            (belief(1, 5), belief(3, 9), Some(2)),
            (belief(3, 9), belief(1, 5), Some(2)),
            (belief(1, 9), belief(3, 4), Some(1)),
            (belief(1, 3), belief(3, 9), None),
            (belief(1, 2), belief(3, 9), None),
        ] {
            assert_eq!(first.overlap(&second), shared.map(Duration::from_secs), "{first:?}");
        }
    }
}
