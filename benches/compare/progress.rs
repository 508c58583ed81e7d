//! How far it is: a bar where there is a terminal, otherwise a line now and then.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

const BETWEEN_LINES: Duration = Duration::from_secs(15);

pub(crate) struct Progress {
    bar: ProgressBar,
    total: usize,
    is_terminal: bool,
    done: usize,
    last_line: Option<Instant>,
}

impl Progress {
    pub(crate) fn new(total: usize) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        let bar = if is_terminal { ProgressBar::new(total as u64) } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos}/{len}, {eta} left  {msg}") {
            bar.set_style(style);
        }
        if is_terminal {
            bar.enable_steady_tick(Duration::from_secs(1));
        }
        Self { bar, total, is_terminal, done: 0, last_line: None }
    }

    /// The next turn begins.
    pub(crate) fn step(&mut self, what: &str) {
        self.bar.set_message(what.to_owned());
        self.bar.set_position(self.done as u64);
        let is_due = self.last_line.is_none_or(|last| last.elapsed() > BETWEEN_LINES);
        if !self.is_terminal && is_due {
            eprintln!("{}/{} {what}", self.done, self.total);
            self.last_line = Some(Instant::now());
        }
        self.done += 1;
    }

    pub(crate) fn say(&self, what: &str) {
        if self.is_terminal {
            self.bar.println(what);
        } else {
            eprintln!("{what}");
        }
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
