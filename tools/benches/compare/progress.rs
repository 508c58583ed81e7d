//! How far it is: a bar where there is a terminal, otherwise a line now and then.

mod bar;

use std::time::{Duration, Instant};

use bar::Bar;

const TEMPLATE: &str = "{bar:24} {pos}/{len}, {eta} left  {msg}";
const BETWEEN_LINES: Duration = Duration::from_secs(15);

pub(crate) struct Progress {
    bar: Bar,
    total: usize,
    done: usize,
    last_line: Option<Instant>,
}

impl Progress {
    pub(crate) fn new(total: usize) -> Self {
        Self { bar: Bar::new(total, TEMPLATE), total, done: 0, last_line: None }
    }

    /// The next turn begins.
    pub(crate) fn step(&mut self, what: &str) {
        self.bar.inner.set_message(what.to_owned());
        self.bar.inner.set_position(self.done as u64);
        let is_due = self.last_line.is_none_or(|last| last.elapsed() > BETWEEN_LINES);
        if !self.bar.is_terminal && is_due {
            eprintln!("{}/{} {what}", self.done, self.total);
            self.last_line = Some(Instant::now());
        }
        self.done += 1;
    }

    pub(crate) fn say(&self, what: &str) {
        self.bar.say(what);
    }

    pub(crate) fn finish(&self) {
        self.bar.finish();
    }
}
