//! How far it is: a bar where there is a terminal, otherwise a line for each question that is answered.

#[path = "../../../tools/benches/compare/progress/bar.rs"]
mod bar;

use std::time::Instant;

use bar::Bar;

const TEMPLATE: &str = "{bar:24} {pos}/{len}, {elapsed}  {msg}";

pub(crate) struct Progress {
    bar: Bar,
    total: usize,
    began: Instant,
}

impl Progress {
    pub(crate) fn new(total: usize) -> Self {
        Self { bar: Bar::new(total, TEMPLATE), total, began: Instant::now() }
    }

    pub(crate) fn done(&self, what: &str) {
        self.bar.inner.inc(1);
        self.bar.inner.set_message(what.to_owned());
        if !self.bar.is_terminal {
            let (position, seconds) = (self.bar.inner.position(), self.began.elapsed().as_secs());
            eprintln!("{position}/{} {seconds} s: {what}", self.total);
        }
    }

    pub(crate) fn say(&self, what: &str) {
        self.bar.say(what);
    }

    pub(crate) fn finish(&self) {
        self.bar.finish();
    }
}
