//! The clock that all processes of a machine share, and that a stopped process cannot fall behind.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Since the machine started, its suspended time included.
pub(crate) fn now() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
