//! [`CountWatch`]: the values of a count, as they come.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::Stream;
use tokio::sync::watch;

use super::SharedCount;
use super::error::SharedCountError;
use super::shared::Shared;
use crate::waiting::Waiting;

/// The values of a [`SharedCount`] as they come; from [`SharedCount::watch`].
///
/// Values coalesce: who is slow is told the latest, not each. A value may be told again though it is the same, when
/// somebody wrote it again or after a reconnect, at which the node is read again (as Curator tells its listeners,
/// CURATOR-311).
///
/// It is a [`Stream`] of values, which ends where [`changed`](Self::changed) fails: when the `Curator` is closed, or
/// its session was a client's own and is over.
///
/// ```no_run
/// # use zookeeper_recipes::SharedCount;
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
    /// The node is followed as long as there is one.
    count: SharedCount,
    values: watch::Receiver<i32>,
    waiting: Waiting<watch::Receiver<i32>, Result<i32, SharedCountError>>,
}

impl CountWatch {
    pub(super) fn new(count: SharedCount) -> Self {
        let values = count.shared.subscribe();
        Self { count, values, waiting: Waiting::new() }
    }

    /// The count, as far as it is known. It counts as told: [`changed`](Self::changed) waits for the next.
    pub fn value(&mut self) -> i32 {
        self.waiting.forget();
        *self.values.borrow_and_update()
    }

    /// Waits for the next value. What was there when the watch was made counts as told.
    ///
    /// # Cancel safety
    ///
    /// Nothing is missed by dropping the future.
    ///
    /// # Errors
    ///
    /// [`SharedCountError::Session`] when there will be no session any more; values that were not told before
    /// come first.
    pub async fn changed(&mut self) -> Result<i32, SharedCountError> {
        self.waiting.forget();
        next(&mut self.values, &self.count.shared).await
    }
}

async fn next(values: &mut watch::Receiver<i32>, shared: &Shared) -> Result<i32, SharedCountError> {
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
        let Self { count, values, waiting } = &mut *self;
        let shared = &count.shared;
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
            .field("path", &self.count.path())
            .field("value", &*self.values.borrow())
            .finish_non_exhaustive()
    }
}
