//! Writes to stdout, which may be closed, and ends when `zklock` has to end.

use std::io::{self, Write};
use std::time::SystemTime;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use tokio::io::AsyncWriteExt;
use tokio::sync::oneshot;

use crate::exit::{Failure, Outcome};
use crate::signals::Signals;

/// Writes the text at once. A missing reader is not a failure.
pub(crate) fn print(text: &str) -> Outcome {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(unwritten(&error)),
        _ => Ok(0),
    }
}

fn unwritten(error: &io::Error) -> Failure {
    Failure::internal(format!("cannot write to stdout: {error}"))
}

/// Returns the current time, for a line of output.
pub(crate) fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

/// The events that end a command which would otherwise run forever.
pub(crate) struct Ends {
    signals: Signals,
    closed: oneshot::Receiver<()>,
}

impl Ends {
    pub(crate) fn new(signals: Signals) -> Self {
        let (tell, closed) = oneshot::channel();
        // This takes a thread, because tokio would make stdout non-blocking for all processes that share it. The
        // thread ends with the process.
        std::thread::spawn(move || {
            if until_closed() {
                let _ = tell.send(());
            } else {
                std::mem::forget(tell); // dropping it would wake the receiver
            }
        });
        Self { signals, closed }
    }

    /// Does the work, unless a signal ends us or stdout loses its reader before it is done.
    ///
    /// # Errors
    ///
    /// A quiet end with code 0 in these cases.
    pub(crate) async fn unless_ended<T>(
        &mut self,
        work: impl Future<Output = T>,
    ) -> Result<T, Failure> {
        tokio::select! {
            biased;
            _ = self.signals.ending() => Err(Failure::reported(0)),
            _ = &mut self.closed => Err(Failure::reported(0)),
            done = work => Ok(done),
        }
    }

    /// Writes the text, unless `zklock` ends before it is read.
    pub(crate) async fn print(&mut self, text: &str) -> Result<(), Failure> {
        // Another thread writes, because a write to a full pipe blocks, and this thread handles the signals and keeps
        // the session alive. Text that is not written at the end is dropped.
        let mut stdout = tokio::io::stdout();
        let write = async {
            stdout.write_all(text.as_bytes()).await?;
            stdout.flush().await
        };
        self.unless_ended(write).await?.map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::reported(0),
            _ => unwritten(&error),
        })
    }
}

/// Waits until stdout is closed, and returns true; returns false if it cannot wait for that.
fn until_closed() -> bool {
    let stdout = io::stdout();
    loop {
        // Errors are reported even if no event is requested.
        match poll(&mut [PollFd::new(&stdout, PollFlags::empty())], None) {
            Ok(_) => return true,
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}
