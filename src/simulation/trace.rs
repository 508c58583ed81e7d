//! A record of a run: a hash of its lines and, on demand, the lines themselves.

use std::fmt::{self, Write};
use std::hash::{DefaultHasher, Hash, Hasher};

#[derive(Default)]
pub(super) struct Trace {
    hasher: DefaultHasher,
    lines: Option<Vec<String>>,
    panics: Vec<String>,
    spins: usize,
}

impl Trace {
    /// Keeps the lines from now on.
    pub(super) fn record(&mut self) {
        self.lines = Some(Vec::new());
    }

    pub(super) fn note(&mut self, now: u64, line: fmt::Arguments<'_>) {
        now.hash(&mut self.hasher);
        let _ = Hashing(&mut self.hasher).write_fmt(line); // it cannot fail
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{:>4}.{:03} {line}", now / 1000, now % 1000));
        }
    }

    pub(super) fn add_panic(&mut self, text: String) {
        self.panics.push(text);
    }

    pub(super) fn add_spin(&mut self) {
        self.spins += 1;
    }

    pub(super) fn hash(&self) -> u64 {
        self.hasher.finish()
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.lines.clone().unwrap_or_default()
    }

    pub(super) fn panics(&self) -> Vec<String> {
        self.panics.clone()
    }

    pub(super) fn spins(&self) -> usize {
        self.spins
    }
}

/// Hashes text without building a string.
struct Hashing<'a>(&'a mut DefaultHasher);

impl Write for Hashing<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}
