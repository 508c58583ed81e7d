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

/// Writes it at once.
///
/// # Errors
///
/// What to end with: quietly, where nobody reads any more.
pub(crate) fn print(text: &str) -> Result<(), Outcome> {
    let mut stdout = io::stdout().lock();
    written(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()))
}

fn written(result: io::Result<()>) -> Result<(), Outcome> {
    result.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Ok(0),
        _ => Err(Failure::internal(format!("cannot write to stdout: {error}"))),
    })
}

/// Prints it, and ends well.
pub(crate) fn printed(text: &str) -> Outcome {
    match print(text) {
        Ok(()) => Ok(0),
        Err(outcome) => outcome,
    }
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

    /// Resolves at a signal that ends us, and when nobody reads our stdout any more.
    pub(crate) async fn told(&mut self) {
        tokio::select! {
            _ = self.signals.ending() => {}
            _ = &mut self.closed => {}
        }
    }

    /// Writes it, unless told to end before it is read.
    ///
    /// # Errors
    ///
    /// What to end with.
    pub(crate) async fn print(&mut self, text: &str) -> Result<(), Outcome> {
        // Not by this thread, which hears the signals and keeps the session alive: nobody may read it. What cannot be
        // written by the end is not waited for.
        let mut stdout = tokio::io::stdout();
        let write = async {
            stdout.write_all(text.as_bytes()).await?;
            stdout.flush().await
        };
        tokio::select! {
            biased;
            result = write => written(result),
            () = self.told() => Err(Ok(0)),
        }
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
