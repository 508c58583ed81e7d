//! The signals that end `zklock` while it waits, and that it passes on to the command.

use std::env;
use std::fs;
use std::future::poll_fn;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use nix::sys::signal::{SigSet, SigmaskHow};
use rustix::process::{Signal, kill_current_process_group};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use tokio::signal::unix::{self, SignalKind, signal};

use crate::exit::Failure;

/// The signals that `zklock` passes on to its command.
pub(crate) const PASSED_ON: [i32; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static ALONE: AtomicBool = AtomicBool::new(false);

/// Handles the signals, except those that were ignored when `zklock` started: `nohup` is meant for the command, too.
#[derive(Debug)]
pub(crate) struct Signals {
    ending: Vec<(i32, unix::Signal)>,
    continued: unix::Signal,
}

impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        let of = |number| signal(SignalKind::from_raw(number));
        let caught = PASSED_ON.into_iter().filter(|number| !is_ignored(*number));
        let ending = caught.map(|number| Ok((number, of(number)?))).collect::<io::Result<_>>()?;
        Ok(Self { ending, continued: of(SIGCONT)? })
    }

    /// Returns the next signal that ends `zklock` or is passed on.
    pub(crate) async fn ending(&mut self) -> i32 {
        poll_fn(|context| self.poll(context)).await
    }

    /// Does the work, unless one of these signals comes before it is done.
    ///
    /// # Errors
    ///
    /// The failure for that signal.
    pub(crate) async fn unless_ended<T>(
        &mut self,
        work: impl Future<Output = T>,
    ) -> Result<T, Failure> {
        tokio::select! {
            biased;
            signal = self.ending() => Err(Failure::signal(signal)),
            done = work => Ok(done),
        }
    }

    /// Returns the next of these signals, or `SIGCONT` after we were continued.
    pub(crate) async fn any(&mut self) -> i32 {
        poll_fn(|context| match self.continued.poll_recv(context) {
            Poll::Ready(_) => Poll::Ready(SIGCONT),
            Poll::Pending => self.poll(context),
        })
        .await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<i32> {
        let come = self
            .ending
            .iter_mut()
            .find_map(|(number, signal)| signal.poll_recv(context).is_ready().then_some(*number));
        if come == Some(SIGINT) {
            INTERRUPTED.store(true, Ordering::Relaxed);
        }
        come.map_or(Poll::Pending, Poll::Ready)
    }
}

/// Records that an INT ended the command, which had the terminal.
pub(crate) fn interrupted_alone() {
    ALONE.store(true, Ordering::Relaxed);
}

/// Ends like a program that a terminal interrupts, if an interrupt came: after any other end, whatever the exit code,
/// a shell's loop continues. If only the command got the interrupt, the other processes of our group, such as the
/// shell, get it now. The kernel drops a signal that the first process of a container sends to itself, and nobody waits for that
/// process in a shell.
pub(crate) fn end_as_interrupted() {
    if std::process::id() == 1 {
        return;
    }
    if ALONE.load(Ordering::Relaxed) {
        let _ = kill_current_process_group(Signal::INT);
    }
    if ALONE.load(Ordering::Relaxed) || INTERRUPTED.load(Ordering::Relaxed) {
        let _ = signal_hook::low_level::emulate_default_handler(SIGINT);
    }
}

/// Blocks these signals for this thread, and for all threads and processes that it starts from now on.
pub(crate) fn block(numbers: &[i32]) -> io::Result<()> {
    Ok(set(numbers).thread_block()?)
}

/// Blocks these signals for a while, and returns the previous mask.
pub(crate) fn keep(numbers: &[i32]) -> io::Result<SigSet> {
    Ok(set(numbers).thread_swap_mask(SigmaskHow::SIG_BLOCK)?)
}

pub(crate) fn unblock(numbers: &[i32]) -> io::Result<()> {
    Ok(set(numbers).thread_unblock()?)
}

fn set(numbers: &[i32]) -> SigSet {
    numbers.iter().filter_map(|number| nix::sys::signal::Signal::try_from(*number).ok()).collect()
}

/// The variable in which a constructor notes the signals that were ignored when `zklock` started: see `ignored_signals.c`.
pub(crate) const IGNORED: &str = "LOCK_SUPERVISOR_IGNORED";

/// Returns true if `zklock` was started with this signal ignored.
pub(crate) fn was_ignored_at_start(signal: i32) -> bool {
    env::var(IGNORED).is_ok_and(|mask| has(&mask, signal))
}

/// Returns true if this process ignores the signal.
pub(crate) fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.is_some_and(|mask| has(mask, signal))
}

/// Returns true if the signal is in the hexadecimal mask.
fn has(mask: &str, signal: i32) -> bool {
    let mask = u64::from_str_radix(mask.trim(), 16);
    mask.is_ok_and(|mask| mask >> (signal - 1) & 1 == 1)
}
