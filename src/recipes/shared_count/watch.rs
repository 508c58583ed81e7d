//! [`CountWatch`]: the values of a count, as they change.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::Stream;
use tokio::sync::watch;

use super::latest::LatestCount;
use crate::curator::Curator;
use crate::error::Error;
use crate::recipes::shared::waiting::Waiting;

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
    latest: Arc<LatestCount>,
    /// The node is followed as long as a receiver lives.
    values: watch::Receiver<i32>,
    waiting: Waiting<watch::Receiver<i32>, Result<i32, Error>>,
}

impl CountWatch {
    pub(super) fn new(curator: &Curator, latest: &Arc<LatestCount>) -> Self {
        Self {
            _curator: curator.clone(),
            latest: latest.clone(),
            values: latest.subscribe(),
            waiting: Waiting::new(),
        }
    }

    /// Returns the latest known count. [`changed`](Self::changed) then waits for the next one.
    pub fn value(&mut self) -> i32 {
        self.waiting.forget();
        *self.values.borrow_and_update()
    }

    /// Waits for the next value after the one at the time when the watch was created.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future misses no value.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Closed`](crate::ErrorKind::Closed) when no further session will be opened. A value that was not returned
    /// before comes first.
    pub async fn changed(&mut self) -> Result<i32, Error> {
        self.waiting.forget();
        next(&mut self.values, &self.latest).await
    }
}

async fn next(values: &mut watch::Receiver<i32>, latest: &LatestCount) -> Result<i32, Error> {
    tokio::select! {
        biased;
        // The sender lives in `latest`.
        Ok(()) = values.changed() => Ok(*values.borrow_and_update()),
        ended = latest.ended() => Err(ended),
    }
}

impl Stream for CountWatch {
    type Item = i32;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<i32>> {
        let Self { latest, values, waiting, .. } = &mut *self;
        let value = ready!(waiting.poll(values, context, |mut values| {
            let latest = latest.clone();
            async move {
                let value = next(&mut values, &latest).await;
                (values, value)
            }
        }));
        Poll::Ready(value.ok())
    }
}

impl fmt::Debug for CountWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CountWatch")
            .field("path", &self.latest.path.as_str())
            .field("value", &*self.values.borrow())
            .finish_non_exhaustive()
    }
}
