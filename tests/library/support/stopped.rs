//! A process that is stopped, as by `kill -STOP`.

use futures_util::FutureExt;

use crate::prelude::*;

/// Lets this time pass before any other task runs. All tasks are on this thread.
pub(crate) fn stopped(time: Duration) {
    if is_real() {
        std::thread::sleep(time);
    } else {
        // The first poll moves the clock.
        let _ = tokio::time::advance(time).now_or_never();
    }
}
