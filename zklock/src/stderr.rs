//! The stream of messages. A thread writes them, because a reader may not read, and drops those that it cannot keep up
//! with.

use std::io::{self, Write};
use std::sync::OnceLock;
use std::time::Duration;

use crate::background::Background;

static WRITER: OnceLock<Background> = OnceLock::new();

/// Starts a thread that writes from now on. If it cannot be started, each caller writes.
pub(crate) fn in_background() {
    if let Ok(writer) = Background::start("stderr") {
        let _ = WRITER.set(writer); // this function is called once
    }
}

/// Writes at once. A closed stderr is not an error.
fn now(text: &[u8]) {
    let _ = io::stderr().write_all(text);
}

pub(crate) fn write(text: &[u8]) {
    let Some(writer) = WRITER.get() else { return now(text) };
    let text = text.to_vec();
    writer.add(move || now(&text));
}

/// Waits until everything is written, at most for `limit`.
pub(crate) fn flush(limit: Duration) {
    if let Some(writer) = WRITER.get() {
        writer.flush(limit); // after the limit, nothing reads stderr
    }
}

/// A writer for text that is written line by line.
#[derive(Debug)]
pub(crate) struct Stderr;

impl Write for Stderr {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        write(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
