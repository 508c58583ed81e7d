//! What is said on stderr while something is held or watched. Whoever does not read it must not keep us from renewing
//! the lease, or from hearing a signal: a thread writes, and what it cannot keep up with is left out.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

/// So many messages wait.
const LONGEST: usize = 256;

static WRITER: OnceLock<SyncSender<Message>> = OnceLock::new();
/// What is to be shown in place: the last word only, however long nobody reads.
static FRAME: Mutex<Option<Vec<u8>>> = Mutex::new(None);

enum Message {
    Text(Vec<u8>),
    /// The frame, if it was not withdrawn.
    Frame,
    /// All before it is written.
    Done(Box<dyn FnOnce() + Send>),
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
            Message::Frame => {
                let frame = frame().take();
                frame.iter().for_each(|frame| now(frame));
            }
            Message::Done(tell) => tell(),
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

fn frame() -> MutexGuard<'static, Option<Vec<u8>>> {
    FRAME.lock().unwrap_or_else(PoisonError::into_inner) // whole at any time
}

/// Shows this in place of the frame before, which is left out if it waits still.
pub(crate) fn show(text: Vec<u8>) {
    let Some(writer) = WRITER.get() else { return now(&text) };
    let waits = frame().replace(text).is_some();
    if !waits && writer.try_send(Message::Frame).is_err() {
        *frame() = None;
    }
}

/// Waits until the last frame is shown. If it is not within `limit`, it never is: what others write then is not touched.
pub(crate) async fn shown(limit: Duration) {
    let Some(writer) = WRITER.get() else { return };
    let (done, written) = oneshot::channel();
    let tell = Box::new(move || done.send(()).unwrap_or_default()); // whoever asked may not wait any more
    let asked = writer.try_send(Message::Done(tell));
    if asked.is_err() || timeout(limit, written).await.is_err() {
        *frame() = None;
    }
}

/// Waits until all is written, at most for `limit`.
pub(crate) fn flush(limit: Duration) {
    let Some(writer) = WRITER.get() else { return };
    let (done, written) = sync_channel(1);
    // The queue may be full: another thread waits for room, and is not waited for longer.
    let tell = move || done.send(()).unwrap_or_default(); // whoever asked may not wait any more
    if let Err(TrySendError::Full(message)) = writer.try_send(Message::Done(Box::new(tell))) {
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
