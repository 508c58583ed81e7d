//! Messages on stderr. A reader that does not read must not keep this process from renewing the session lease or from
//! handling a signal. So a thread writes, and drops the messages that it cannot keep up with.

use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

/// The largest number of waiting jobs.
const LONGEST: usize = 256;

static WRITER: OnceLock<SyncSender<Job>> = OnceLock::new();

/// A job of the thread, which writes a text, or reports that the thread has done all jobs before it.
type Job = Box<dyn FnOnce() + Send>;

/// Starts a thread that writes from now on. If it cannot be started, each caller writes.
pub(crate) fn in_background() {
    let (sender, jobs) = sync_channel::<Job>(LONGEST);
    let write_all = move || jobs.into_iter().for_each(|job| job());
    if thread::Builder::new().name("stderr".to_owned()).spawn(write_all).is_ok() {
        let _ = WRITER.set(sender); // this function is called once
    }
}

/// Writes at once. A closed stderr is not an error.
fn now(text: &[u8]) {
    let _ = io::stderr().write_all(text);
}

pub(crate) fn write(text: &[u8]) {
    let Some(writer) = WRITER.get() else { return now(text) };
    let text = text.to_vec();
    drop(writer.try_send(Box::new(move || now(&text))));
}

/// Waits until everything is written, at most for `limit`.
pub(crate) fn flush(limit: Duration) {
    let Some(writer) = WRITER.get() else { return };
    let (done, written) = sync_channel::<()>(0);
    // If the queue is full, another thread waits for room in place of this one.
    if let Err(TrySendError::Full(job)) = writer.try_send(Box::new(move || drop(done))) {
        let writer = writer.clone();
        let _ = thread::Builder::new().spawn(move || writer.send(job));
    }
    let _ = written.recv_timeout(limit); // after the limit, nothing reads stderr
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
