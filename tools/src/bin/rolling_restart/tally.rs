//! What the events of one kind of candidates come to.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::event::{Event, What};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// How often a candidate's connection broke.
    pub(crate) disconnections: usize,
    /// Of whoever led then, or had led last.
    pub(crate) of_leaders: usize,
    /// The longest that a candidate was disconnected.
    pub(crate) longest: Duration,
    /// When leadership was lost.
    pub(crate) losses: Vec<Duration>,
    /// How often another led next.
    pub(crate) another: usize,
    /// The longest time without a leader.
    pub(crate) without: Duration,
    /// What must never be.
    pub(crate) faults: Vec<String>,
}

impl Tally {
    /// Of events in order, in a world that ends at `end`.
    pub(crate) fn of(events: &[Event], end: Duration) -> Self {
        let mut tally = Self::default();
        // The last one, and whether it leads still.
        let mut last: Option<(Event, bool)> = None;
        let mut lost = None;
        let mut suspended = BTreeMap::new();
        for event in events {
            match (event.what, last) {
                (What::Leads, Some((other, leads))) => {
                    if leads && other.candidate != event.candidate {
                        tally.faults.push(format!("two lead: {other} and {event}"));
                    }
                    let same = other.candidate == event.candidate;
                    // Only a term on the same node has the same token.
                    if event.token < other.token
                        || (!same && event.token == other.token && event.token > 0)
                    {
                        tally.faults.push(format!("tokens do not increase: {other} and {event}"));
                    }
                    tally.another += usize::from(!same);
                    let since = lost.take().unwrap_or(event.at);
                    tally.without = tally.without.max(event.at.saturating_sub(since));
                    last = Some((*event, true));
                }
                (What::Leads, None) => last = Some((*event, true)),
                (What::Lost, Some((leader, true))) if leader.candidate == event.candidate => {
                    tally.losses.push(event.at);
                    lost = Some(event.at);
                    last = Some((leader, false));
                }
                (What::Suspended, last) => {
                    tally.disconnections += 1;
                    suspended.insert(event.candidate, event.at);
                    let led = last.is_some_and(|(leader, _)| leader.candidate == event.candidate);
                    tally.of_leaders += usize::from(led);
                }
                (What::Connected, _) => {
                    let since = suspended.remove(&event.candidate).unwrap_or(event.at);
                    tally.longest = tally.longest.max(event.at.saturating_sub(since));
                }
                (What::Lost, _) => {}
            }
        }
        if let Some(lost) = lost {
            tally.without = tally.without.max(end.saturating_sub(lost));
        }
        tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(candidate: usize, what: What, at: u64, token: i64) -> Event {
        Event { candidate, what, at: Duration::from_secs(at), token }
    }

    #[test]
    fn a_leader_that_is_only_disconnected_loses_nothing() {
        let events = [
            event(1, What::Leads, 1, 7),
            event(1, What::Suspended, 2, 0),
            event(2, What::Suspended, 2, 0),
            event(1, What::Connected, 3, 0),
        ];
        let tally = Tally::of(&events, Duration::from_secs(9));
        let longest = Duration::from_secs(1);
        let quiet = Tally { disconnections: 2, of_leaders: 1, longest, ..Tally::default() };
        assert_eq!(tally, quiet);
    }

    #[test]
    fn a_loss_counts_whoever_leads_next() {
        let mut events = vec![
            event(1, What::Leads, 1, 7),
            event(1, What::Lost, 2, 0),
            event(1, What::Leads, 4, 7),
            event(1, What::Lost, 5, 0),
            event(2, What::Leads, 6, 8),
        ];
        let tally = Tally::of(&events, Duration::from_secs(9));
        assert_eq!((tally.losses.len(), tally.another), (2, 1));
        assert_eq!((tally.without, tally.faults.len()), (Duration::from_secs(2), 0));
        events.push(event(2, What::Lost, 6, 0));
        let tally = Tally::of(&events, Duration::from_secs(9));
        assert_eq!((tally.losses.len(), tally.without), (3, Duration::from_secs(3)));
    }

    #[test]
    fn two_leaders_and_a_token_of_another_are_faults() {
        let events = [event(1, What::Leads, 1, 7), event(2, What::Leads, 2, 7)];
        assert_eq!(Tally::of(&events, Duration::from_secs(9)).faults.len(), 2);
    }
}
