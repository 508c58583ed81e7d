//! How far it is: a bar where there is a terminal, otherwise a line for each question that is answered.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

pub(crate) struct Progress {
    bar: ProgressBar,
    is_terminal: bool,
    began: Instant,
}

impl Progress {
    pub(crate) fn new(total: usize) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        let bar = if is_terminal { ProgressBar::new(total as u64) } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {pos}/{len}, {elapsed}  {msg}") {
            bar.set_style(style);
        }
        if is_terminal {
            bar.enable_steady_tick(Duration::from_secs(1));
        }
        bar.set_length(total as u64);
        Self { bar, is_terminal, began: Instant::now() }
    }

    pub(crate) fn done(&self, what: &str) {
        self.bar.inc(1);
        self.bar.set_message(what.to_owned());
        if !self.is_terminal {
            let seconds = self.began.elapsed().as_secs();
            let (position, length) = (self.bar.position(), self.bar.length().unwrap_or_default());
            eprintln!("{position}/{length} {seconds} s: {what}");
        }
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
