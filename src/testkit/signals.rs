//! Removes our containers when the process is told to end: Ctrl-C, `SIGTERM`, `SIGQUIT`.
//!
//! The watchdog that testcontainers has for this panics at the first container that it cannot remove, for instance one
//! whose start failed, and from then on the process ignores these signals. Ours removes what it can, within a limit.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use super::docker;

/// Who pressed Ctrl-C waits for this.
const LIMIT: Duration = Duration::from_secs(10);

static NAMES: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// From now on a signal removes the container of this name.
pub(super) fn watch(name: &str) {
    static STARTED: Once = Once::new();
    STARTED.call_once(start);
    names().insert(name.to_owned());
}

pub(super) fn forget(name: &str) {
    names().remove(name);
}

fn names() -> MutexGuard<'static, BTreeSet<String>> {
    // A set of names is valid at any time, whoever panicked.
    NAMES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn start() {
    let spawned = Signals::new([SIGINT, SIGQUIT, SIGTERM]).and_then(|mut signals| {
        thread::Builder::new().name("testkit-signals".to_owned()).spawn(move || {
            for signal in signals.forever() {
                let names: Vec<String> = names().iter().cloned().collect();
                docker::remove_blocking(names, LIMIT);
                let _ = emulate_default_handler(signal);
            }
        })
    });
    if let Err(error) = spawned {
        tracing::warn!(
            "a signal will leave containers behind, until the next start sweeps them: {error}"
        );
    }
}
