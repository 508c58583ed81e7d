//! [`TermError`]: how a term of a selector ended, if not well.

use std::fmt;

use crate::error::Error;

/// A term of a [`LeaderSelector`](super::LeaderSelector) that did not come to its end as the leader, or did not begin. `T` is
/// what the body gives.
///
/// The kind of the error is [`Lost`](crate::ErrorKind::Lost), [`BodyPanicked`](crate::ErrorKind::BodyPanicked) or
/// [`BodyDropped`](crate::ErrorKind::BodyDropped) of a body that ran, [`Closed`](crate::ErrorKind::Closed) of a run that was closed before,
/// and else why the candidate did not come to lead.
///
/// ```no_run
/// # use zookeeper_recipes::ErrorKind;
/// # use zookeeper_recipes::leader::LeaderSelector;
/// # async fn example(selector: LeaderSelector) {
/// if let Err(ended) = selector.run(async |_term| 7).await {
///     match (ended.error.kind(), ended.value) {
///         (ErrorKind::Lost, Some(value)) => println!("{value}, and it may not have been alone"),
///         _ => println!("{}", ended.error),
///     }
/// }
/// # }
/// ```
#[non_exhaustive]
pub struct TermError<T> {
    /// How the term ended, or why it did not begin.
    pub error: Error,
    /// What the body gave, if it ended after the loss.
    pub value: Option<T>,
}

impl<T> From<Error> for TermError<T> {
    fn from(error: Error) -> Self {
        Self { error, value: None }
    }
}

impl<T> From<TermError<T>> for Error {
    fn from(ended: TermError<T>) -> Self {
        ended.error
    }
}

/// Without what the body gave, which may not be made to be shown.
impl<T> fmt::Debug for TermError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TermError").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<T> fmt::Display for TermError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<T> std::error::Error for TermError<T> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.error)
    }
}
