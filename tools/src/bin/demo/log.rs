//! What a worker logs, a line for each event, and the clock that all processes of a machine share.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Time since the machine started, the same in every process.
pub(crate) fn now() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Queues up.
    Asks,
    /// Holds the lock, from here on.
    Holds,
    /// Was holding it here: looked *after* this moment, and the guard said so.
    Works,
    /// The guard says that the lock is lost.
    Lost,
    /// Begins to release.
    Releases,
}

/// One line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) what: What,
    pub(crate) at: Duration,
    /// The fencing token; zero while it asks.
    pub(crate) token: i64,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {} {}", self.what, self.at.as_nanos(), self.token)
    }
}

impl FromStr for Event {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let bad = || format!("not an event: {line:?}");
        let mut words = line.split(' ');
        let what = match words.next() {
            Some("Asks") => What::Asks,
            Some("Holds") => What::Holds,
            Some("Works") => What::Works,
            Some("Lost") => What::Lost,
            Some("Releases") => What::Releases,
            _ => return Err(bad()),
        };
        let mut number = || words.next().and_then(|word| word.parse::<i64>().ok()).ok_or_else(bad);
        let at = Duration::from_nanos(number()?.unsigned_abs());
        Ok(Self { what, at, token: number()? })
    }
}
