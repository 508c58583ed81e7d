//! [`Waiting`]: the future that a stream keeps from one poll to the next.

use std::future::Future;
use std::task::{Context, Poll, ready};

use tokio_util::sync::ReusableBoxFuture;

/// A future that owns a copy of a stream's state, and returns the copy with its result. `None` before the first poll for an
/// item.
pub(crate) struct Waiting<S, T>(Option<ReusableBoxFuture<'static, (S, T)>>);

impl<S: Clone, T> Waiting<S, T> {
    pub(crate) const fn new() -> Self {
        Self(None)
    }

    /// Drops the future, whose copy of the state is lost with it.
    pub(crate) fn forget(&mut self) {
        self.0 = None;
    }

    /// Polls the future, or begins one with a copy of `state`. When it is done, its copy replaces `state`.
    pub(crate) fn poll<F>(
        &mut self,
        state: &mut S,
        context: &mut Context<'_>,
        begin: impl FnOnce(S) -> F,
    ) -> Poll<T>
    where
        F: Future<Output = (S, T)> + Send + 'static,
    {
        let waiting = self.0.get_or_insert_with(|| ReusableBoxFuture::new(begin(state.clone())));
        let (next, result) = ready!(waiting.poll(context));
        *state = next;
        self.0 = None;
        Poll::Ready(result)
    }
}
