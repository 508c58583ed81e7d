//! The clock that leases are measured by: monotonic, and counting the time the machine slept where
//! the system has such a clock (Linux, Android, Apple's). Elsewhere a sleep of the machine stays
//! unseen, and fencing is what helps.

use std::time::Duration;

/// A point in local time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(Duration);

impl Moment {
    pub(crate) fn now() -> Self {
        #[cfg(feature = "simulation")]
        if let Some(now) = crate::simulation::now() {
            return Self(now);
        }
        Self::real()
    }

    #[cfg(unix)]
    fn real() -> Self {
        use rustix::time::{ClockId, clock_gettime};

        #[cfg(any(target_os = "linux", target_os = "android"))]
        const CLOCK: ClockId = ClockId::Boottime;
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        const CLOCK: ClockId = ClockId::Monotonic;
        let time = clock_gettime(CLOCK);
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or_default();
        Self(Duration::new(seconds, nanoseconds))
    }

    #[cfg(not(unix))]
    #[allow(clippy::disallowed_methods)] // this is the session clock, on systems with no better one
    fn real() -> Self {
        use std::sync::LazyLock;
        use std::time::Instant;

        static BASE: LazyLock<Instant> = LazyLock::new(Instant::now);
        Self(BASE.elapsed())
    }

    /// How long ago, or nothing for a point in the future.
    pub(crate) fn elapsed(self) -> Duration {
        Self::now().since(self)
    }

    pub(crate) fn since(self, earlier: Moment) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    pub(crate) fn before(self, time: Duration) -> Self {
        Self(self.0.saturating_sub(time))
    }

    pub(crate) fn after(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time))
    }
}

/// A point for tests, which is known without a clock.
#[cfg(test)]
pub(crate) fn at(milliseconds: u64) -> Moment {
    Moment(Duration::from_millis(1_000_000 + milliseconds))
}
