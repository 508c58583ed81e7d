//! [`CountWatch`]: the values of a count, as they come.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::Stream;
use tokio::sync::watch;

use super::shared::Shared;
use crate::curator::Curator;
use crate::error::Error;
use crate::recipes::shared::waiting::Waiting;

/// The values of a [`SharedCount`](super::SharedCount) as they come; from [`SharedCount::watch`](super::SharedCount::watch).
///
/// Values coalesce: a slow watch gets the latest, not each. The same value may come again, when a client wrote it again or
/// after a reconnect, at which the node is read again (as for Curator's listeners, CURATOR-311).
///
/// It is a [`Stream`] of values, which ends where [`changed`](Self::changed) fails: when the `Curator` is closed, or
/// its session was a client's own and is over.
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
    shared: Arc<Shared>,
    /// As long as there is one, the node is followed.
    values: watch::Receiver<i32>,
    waiting: Waiting<watch::Receiver<i32>, Result<i32, Error>>,
}

impl CountWatch {
    pub(super) fn new(curator: &Curator, shared: &Arc<Shared>) -> Self {
        let (_curator, shared, values) = (curator.clone(), shared.clone(), shared.subscribe());
        Self { _curator, shared, values, waiting: Waiting::new() }
    }

    /// The count, as far as it is known. [`changed`](Self::changed) then waits for the next.
    pub fn value(&mut self) -> i32 {
        self.waiting.forget();
        *self.values.borrow_and_update()
    }

    /// Waits for the next value. The one that was there when the watch was made does not count.
    ///
    /// # Cancel safety
    ///
    /// Nothing is missed by dropping the future.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Closed`](crate::ErrorKind::Closed) when there will be no session any more; values that were not returned before
    /// come first.
    pub async fn changed(&mut self) -> Result<i32, Error> {
        self.waiting.forget();
        next(&mut self.values, &self.shared).await
    }
}

async fn next(values: &mut watch::Receiver<i32>, shared: &Shared) -> Result<i32, Error> {
    tokio::select! {
        biased;
        // The sender is there as long as `shared` is.
        Ok(()) = values.changed() => Ok(*values.borrow_and_update()),
        ended = shared.ended() => Err(ended),
    }
}

impl Stream for CountWatch {
    type Item = i32;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<i32>> {
        let Self { shared, values, waiting, .. } = &mut *self;
        let told = ready!(waiting.poll(values, context, |mut values| {
            let shared = shared.clone();
            async move {
                let told = next(&mut values, &shared).await;
                (values, told)
            }
        }));
        Poll::Ready(told.ok())
    }
}

impl fmt::Debug for CountWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CountWatch")
            .field("path", &self.shared.path.as_str())
            .field("value", &*self.values.borrow())
            .finish_non_exhaustive()
    }
}
