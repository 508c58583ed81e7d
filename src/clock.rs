//! The clock that measures leases. It is monotonic, and counts the time for which the machine sleeps where the system
//! has such a clock (Linux, Android, Apple's). On other systems a sleep goes unnoticed, and only fencing protects
//! against it.

use std::time::Duration;

/// A point in time on this machine's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BootInstant(Duration);

impl BootInstant {
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

    /// The time since this point; zero for a point in the future.
    pub(crate) fn elapsed(self) -> Duration {
        Self::now().since(self)
    }

    pub(crate) fn since(self, earlier: BootInstant) -> Duration {
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
pub(crate) fn at(milliseconds: u64) -> BootInstant {
    BootInstant(Duration::from_millis(1_000_000 + milliseconds))
}
