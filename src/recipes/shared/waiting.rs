//! What a stream waits with between two polls.

use std::future::Future;
use std::task::{Context, Poll, ready};

use tokio_util::sync::ReusableBoxFuture;

/// A future that owns a copy of a stream's state, and gives it back with what it came to. Without one, nothing was begun.
pub(crate) struct Waiting<S, T>(Option<ReusableBoxFuture<'static, (S, T)>>);

impl<S: Clone, T> Waiting<S, T> {
    pub(crate) const fn new() -> Self {
        Self(None)
    }

    /// Forgets what was begun, which changed nothing.
    pub(crate) fn forget(&mut self) {
        self.0 = None;
    }

    /// Polls what was begun, or begins it with a copy of `state`, which is replaced when it is done.
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
        let (next, told) = ready!(waiting.poll(context));
        (*state, self.0) = (next, None);
        Poll::Ready(told)
    }
}
