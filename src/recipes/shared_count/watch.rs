//! [`CountWatch`]: the values of a count, as they change.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::Stream;

use crate::curator::Curator;
use crate::error::Error;
use crate::recipes::shared::observation::Observation;

/// Reports the values of a [`SharedCount`](super::SharedCount) as they change; from
/// [`SharedCount::watch`](super::SharedCount::watch).
///
/// Values coalesce: a slow watch gets the latest, not each. A watch may report the same value again, if a client wrote it
/// again or after a reconnect, when the node is read again (as for Curator's listeners, CURATOR-311).
///
/// A watch is a [`Stream`] of values, which ends where [`changed`](Self::changed) fails: when the `Curator` is closed, or
/// when its session belonged to a client of the user and has ended.
///
/// ```no_run
/// # use zookeeper_recipes::interop::SharedCount;
/// # async fn example(count: SharedCount) -> Result<(), Box<dyn std::error::Error>> {
/// let mut watch = count.watch();
/// let mut limit = watch.value();
/// loop {
///     println!("the limit is {limit}");
///     limit = watch.changed().await?;
/// }
/// # }
/// ```
pub struct CountWatch {
    /// Keeps the session open.
    _curator: Curator,
    values: Observation<i32>,
}

impl CountWatch {
    pub(super) fn new(curator: &Curator, values: Observation<i32>) -> Self {
        Self { _curator: curator.clone(), values }
    }

    /// Returns the latest known count. [`changed`](Self::changed) then waits for the next one.
    pub fn value(&mut self) -> i32 {
        // The feed begins with the first value.
        self.values.see().unwrap_or_default()
    }

    /// Waits for the next value after the one at the time when the watch was created.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future misses no value.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Closed`](crate::ErrorKind::Closed) or
    /// [`ErrorKind::AuthenticationFailed`](crate::ErrorKind::AuthenticationFailed) when no further session will be opened. A value
    /// that was not returned before comes first.
    pub async fn changed(&mut self) -> Result<i32, Error> {
        self.values.changed().await
    }
}

impl Stream for CountWatch {
    type Item = i32;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<i32>> {
        self.values.poll_next(context)
    }
}

impl fmt::Debug for CountWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CountWatch")
            .field("path", &self.values.path())
            .field("value", &self.values.last())
            .finish_non_exhaustive()
    }
}
