//! Writing to stdout, which may be closed; and being told to end.

use std::io::{self, IsTerminal, Write};
use std::time::SystemTime;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use tokio::io::AsyncWriteExt;
use tokio::sync::oneshot;
use tracing_subscriber::EnvFilter;

use crate::exit::{Failure, Outcome};
use crate::signals::Signals;
use crate::stderr::Stderr;

/// Writes it at once. That there is no reader any more is no failure.
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

/// The time, for a line.
pub(crate) fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

/// Shows the log of the crate on stderr: its notes and warnings, or what `RUST_LOG` asks for.
pub(crate) fn log() {
    let filter = EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| EnvFilter::new("zookeeper_recipes=info"));
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| Stderr)
        .with_ansi(io::stderr().is_terminal());
    let _ = subscriber.try_init(); // there is one already, then
}

/// The ways in which what goes on for ever is ended.
pub(crate) struct Ends {
    signals: Signals,
    closed: oneshot::Receiver<()>,
}

impl Ends {
    pub(crate) fn new(signals: Signals) -> Self {
        let (tell, closed) = oneshot::channel();
        // A thread, for tokio would make stdout non-blocking, for all who share it. It ends with the process.
        std::thread::spawn(move || {
            if until_closed() {
                let _ = tell.send(());
            } else {
                std::mem::forget(tell); // a dropped one would be heard
            }
        });
        Self { signals, closed }
    }

    /// The work, unless a signal ends us or our stdout has no reader any more before it is done.
    ///
    /// # Errors
    ///
    /// In that case the quiet end with 0.
    pub(crate) async fn unless_ended<T>(
        &mut self,
        work: impl Future<Output = T>,
    ) -> Result<T, Failure> {
        tokio::select! {
            biased;
            _ = self.signals.ending() => Err(Failure::told(0)),
            _ = &mut self.closed => Err(Failure::told(0)),
            done = work => Ok(done),
        }
    }

    /// Writes it, unless `zklock` ends before it is read.
    pub(crate) async fn print(&mut self, text: &str) -> Result<(), Failure> {
        // Another thread writes: this one hears the signals and keeps the session alive, and a write to a full pipe blocks. What is not
        // written at the end is left out.
        let mut stdout = tokio::io::stdout();
        let write = async {
            stdout.write_all(text.as_bytes()).await?;
            stdout.flush().await
        };
        self.unless_ended(write).await?.map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::told(0),
            _ => unwritten(&error),
        })
    }
}

/// Whether that is so, or cannot be waited for.
fn until_closed() -> bool {
    let stdout = io::stdout();
    loop {
        // What is wrong is told without being asked for.
        match poll(&mut [PollFd::new(&stdout, PollFlags::empty())], None) {
            Ok(_) => return true,
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}
