//! What a candidate tells, a line for each event, by the clock that all processes of a machine share.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Time since the machine started, the same in every process. Java's `System.nanoTime` is this clock, too.
pub(crate) fn now() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Leads,
    Lost,
    /// No server answers.
    Suspended,
    Connected,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) candidate: usize,
    pub(crate) what: What,
    pub(crate) at: Duration,
    /// The fencing token of a leader; zero where there is none.
    pub(crate) token: i64,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { candidate, what, at, token } = self;
        write!(f, "{candidate} {what:?} {} {token}", at.as_nanos())
    }
}

impl FromStr for Event {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let bad = || format!("not an event: {line:?}");
        let words: Vec<_> = line.split(' ').collect();
        let [candidate, what, at, token] = words[..] else { return Err(bad()) };
        let what = match what {
            "Leads" => What::Leads,
            "Lost" => What::Lost,
            "Suspended" => What::Suspended,
            "Connected" => What::Connected,
            _ => return Err(bad()),
        };
        let candidate = candidate.parse().map_err(|_| bad())?;
        let at = Duration::from_nanos(at.parse().map_err(|_| bad())?);
        Ok(Self { candidate, what, at, token: token.parse().map_err(|_| bad())? })
    }
}
