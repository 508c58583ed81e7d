//! Points in time that two processes can exchange, on the clock that also runs while the machine sleeps.

use std::time::Duration;

use rustix::time::{ClockId, Itimerspec, Timespec, clock_gettime};
use serde::{Deserialize, Serialize};

/// The time since the machine was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct BootInstant(Duration);

impl BootInstant {
    pub(crate) fn now() -> Self {
        let time = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        Self(Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default()))
    }

    pub(crate) fn after(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time))
    }

    pub(crate) fn before(self, time: Duration) -> Self {
        Self(self.0.saturating_sub(time))
    }

    /// Formats the instant for a command line.
    pub(super) fn to_argument(self) -> String {
        self.0.as_nanos().to_string()
    }

    pub(super) fn from_argument(text: &str) -> Option<Self> {
        text.parse().ok().map(|nanoseconds| Self(Duration::from_nanos(nanoseconds)))
    }

    /// Returns the setting of a timer that fires once, at this instant.
    pub(super) fn timer(self) -> Itimerspec {
        // All zeros would disarm the timer. An instant beyond its range never fires.
        let nanoseconds = self.0.subsec_nanos().max(1);
        let seconds = self.0.as_secs().try_into().unwrap_or(i64::MAX);
        let it_value = Timespec { tv_sec: seconds, tv_nsec: nanoseconds.into() };
        Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value }
    }
}
