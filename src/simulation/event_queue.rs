//! The virtual clock, and the events to come.

use std::collections::BTreeMap;

use super::state::State;

/// Something that happens at a certain time, or when a message arrives.
pub(super) type Event = Box<dyn FnOnce(&mut State) + Send>;

#[derive(Default)]
pub(super) struct EventQueue {
    /// Milliseconds since the start.
    now: u64,
    /// Ordered by time, and within one time by the order of scheduling.
    events: BTreeMap<(u64, u64), Event>,
    scheduled: u64,
}

impl EventQueue {
    pub(super) fn now(&self) -> u64 {
        self.now
    }

    pub(super) fn set_now(&mut self, now: u64) {
        self.now = now;
    }

    /// Schedules an event at a time; a time in the past means now.
    pub(super) fn at(&mut self, time: u64, event: impl FnOnce(&mut State) + Send + 'static) {
        self.scheduled += 1;
        self.events.insert((time.max(self.now), self.scheduled), Box::new(event));
    }

    pub(super) fn after(&mut self, pause: u64, event: impl FnOnce(&mut State) + Send + 'static) {
        self.at(self.now + pause, event);
    }

    /// The time of the next event, and its number.
    pub(super) fn next(&self) -> Option<(u64, u64)> {
        self.events.first_key_value().map(|(key, _)| *key)
    }

    pub(super) fn pop(&mut self) -> Option<Event> {
        self.events.pop_first().map(|(_, event)| event)
    }
}
