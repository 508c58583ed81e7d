//! Precise sleeps. The runtime's timer counts whole milliseconds and rounds up, as does its wait for the next event:
//! a link of 4 ms would become one of 5 to 6 ms.

use std::collections::BTreeMap;
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until as runtime_sleep_until};

static ALARM: LazyLock<Option<&'static Alarm>> = LazyLock::new(Alarm::start);

/// A thread that wakes all sleepers.
#[derive(Debug, Default)]
struct Alarm {
    sleepers: Mutex<Sleepers>,
    rung: Condvar,
}

#[derive(Debug, Default)]
struct Sleepers {
    /// The number distinguishes sleepers with the same instant.
    due: BTreeMap<(Instant, u64), oneshot::Sender<()>>,
    count: u64,
}

/// Waits until `due`, accurate to some ten microseconds on an idle machine.
pub(super) async fn sleep_until(due: Instant) {
    let Some(alarm) = *ALARM else { return runtime_sleep_until(due).await };
    if due > Instant::now() {
        // The thread never ends, so it always sends an answer.
        let _ = alarm.set(due).await;
    }
}

impl Alarm {
    /// Starts the thread; `None` if the system refuses.
    fn start() -> Option<&'static Self> {
        let alarm: &'static Self = Box::leak(Box::default());
        let thread = thread::Builder::new().name("testkit-delays".to_owned());
        thread.spawn(|| alarm.ring()).ok().map(|_| alarm)
    }

    fn set(&self, due: Instant) -> oneshot::Receiver<()> {
        let (wake, woken) = oneshot::channel();
        let mut sleepers = self.sleepers();
        let is_next = sleepers.due.first_key_value().is_none_or(|((first, _), _)| due < *first);
        sleepers.count += 1;
        let number = sleepers.count;
        sleepers.due.insert((due, number), wake);
        if is_next {
            self.rung.notify_one();
        }
        woken
    }

    fn ring(&self) {
        let mut sleepers = self.sleepers();
        loop {
            let now = Instant::now();
            while let Some(first) = sleepers.due.first_entry()
                && first.key().0 <= now
            {
                let _ = first.remove().send(()); // the sleeper may have been dropped
            }
            let next = sleepers.due.first_key_value().map(|((due, _), _)| *due);
            sleepers = match next {
                None => self.rung.wait(sleepers).unwrap_or_else(PoisonError::into_inner),
                Some(due) => {
                    let pause = due.saturating_duration_since(Instant::now());
                    let waited = self.rung.wait_timeout(sleepers, pause);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    fn sleepers(&self) -> MutexGuard<'_, Sleepers> {
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
