//! What is said on stderr while something is held or watched. Whoever does not read it must not keep us from renewing
//! the lease, or from hearing a signal: a thread writes, and what it cannot keep up with is left out.

use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

/// So many messages wait.
const LONGEST: usize = 256;

static WRITER: OnceLock<SyncSender<Message>> = OnceLock::new();

enum Message {
    Text(Vec<u8>),
    /// All before it is written.
    Done(SyncSender<()>),
}

/// From now on a thread writes; without one, whoever has something to say.
pub(crate) fn in_background() {
    let (sender, messages) = sync_channel(LONGEST);
    if thread::Builder::new().name("stderr".to_owned()).spawn(move || write_all(&messages)).is_ok()
    {
        let _ = WRITER.set(sender); // there is one
    }
}

fn write_all(messages: &Receiver<Message>) {
    for message in messages {
        match message {
            Message::Text(text) => now(&text),
            Message::Done(written) => drop(written),
        }
    }
}

/// That there may be nobody who reads it is no reason to end.
fn now(text: &[u8]) {
    let _ = io::stderr().write_all(text);
}

pub(crate) fn write(text: &[u8]) {
    match WRITER.get() {
        Some(writer) => drop(writer.try_send(Message::Text(text.to_vec()))),
        None => now(text),
    }
}

/// Waits until all is written, at most for `limit`.
pub(crate) fn flush(limit: Duration) {
    let Some(writer) = WRITER.get() else { return };
    let (done, written) = sync_channel(0);
    // The queue may be full: another thread waits for room, and is not waited for longer.
    if let Err(TrySendError::Full(message)) = writer.try_send(Message::Done(done)) {
        let writer = writer.clone();
        let _ = thread::Builder::new().spawn(move || writer.send(message));
    }
    let _ = written.recv_timeout(limit); // nobody reads it, then
}

/// For what is written line by line.
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
