//! A bar on stderr where that is a terminal.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

pub(crate) struct Bar {
    /// Hidden, it still counts.
    pub(crate) inner: ProgressBar,
    pub(crate) is_terminal: bool,
}

impl Bar {
    pub(crate) fn new(total: usize, template: &str) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        let inner = if is_terminal { ProgressBar::no_length() } else { ProgressBar::hidden() };
        inner.set_length(total as u64);
        if let Ok(style) = ProgressStyle::with_template(template) {
            inner.set_style(style);
        }
        if is_terminal {
            inner.enable_steady_tick(Duration::from_secs(1));
        }
        Self { inner, is_terminal }
    }

    pub(crate) fn say(&self, what: &str) {
        if self.is_terminal {
            self.inner.println(what);
        } else {
            eprintln!("{what}");
        }
    }

    pub(crate) fn finish(&self) {
        self.inner.finish_and_clear();
    }
}
