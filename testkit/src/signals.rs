//! Removes what is ours when the process is told to end: Ctrl-C, `SIGTERM`, `SIGQUIT`.
//!
//! The watchdog that testcontainers has for this panics at the first container that it cannot remove, for instance one
//! whose start failed, and from then on the process ignores these signals. Ours removes what it can, within a limit.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use signal_hook::consts::{SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use super::{docker, scratch};

/// Who pressed Ctrl-C waits for this.
const LIMIT: Duration = Duration::from_secs(10);

/// What a signal must remove, in this order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Leftover {
    /// A running program. It would die with us, but it writes into the next.
    Program(i32),
    /// A folder, or a claim on a port.
    Path(PathBuf),
    /// The name of a container.
    Container(String),
}

static LEFT_ALONE: AtomicBool = AtomicBool::new(false);

/// Leaves `SIGINT`, `SIGTERM` and `SIGQUIT` to this process, which has handlers of its own: for a test that sends one of them
/// to itself. Otherwise the testkit removes its servers at such a signal and ends the process.
///
/// It is for the whole process, whenever it is called. A server then ends with its [`TestServer`](super::TestServer), or
/// with the process, as after a `SIGKILL`.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use zookeeper_testkit::{self as testkit, TestServer};
///
/// testkit::leave_signals_alone();
/// let server = TestServer::start().await?;
/// // Start the program under test, and send this process a SIGTERM.
/// # Ok(())
/// # }
/// ```
pub fn leave_signals_alone() {
    LEFT_ALONE.store(true, Ordering::Relaxed);
}

static LEFTOVERS: Mutex<BTreeSet<Leftover>> = Mutex::new(BTreeSet::new());

/// From now on a signal removes this.
pub(super) fn watch(leftover: Leftover) {
    static STARTED: Once = Once::new();
    if !LEFT_ALONE.load(Ordering::Relaxed) {
        STARTED.call_once(start);
    }
    leftovers().insert(leftover);
}

pub(super) fn forget(leftover: &Leftover) {
    leftovers().remove(leftover);
}

fn leftovers() -> MutexGuard<'static, BTreeSet<Leftover>> {
    // The set is valid at any time, whoever panicked.
    LEFTOVERS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn remove(leftovers: BTreeSet<Leftover>) {
    let mut containers = Vec::new();
    for leftover in leftovers {
        match leftover {
            Leftover::Program(pid) => {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL); // it may have ended
            }
            Leftover::Path(path) => scratch::remove_for_good(&path),
            Leftover::Container(name) => containers.push(name),
        }
    }
    if !containers.is_empty() {
        docker::remove_blocking(containers, LIMIT);
    }
}

fn start() {
    let spawned = Signals::new([SIGINT, SIGQUIT, SIGTERM]).and_then(|mut signals| {
        thread::Builder::new().name("testkit-signals".to_owned()).spawn(move || {
            for signal in signals.forever() {
                if LEFT_ALONE.load(Ordering::Relaxed) {
                    continue;
                }
                let leftovers = leftovers().clone();
                remove(leftovers);
                let _ = emulate_default_handler(signal);
            }
        })
    });
    if let Err(error) = spawned {
        tracing::warn!(
            "a signal will leave servers behind, until the next start sweeps them: {error}"
        );
    }
}
