//! [`Guards`]: several holds together.

use std::future::{Future, pending};
use std::mem;

use futures_util::FutureExt;
use futures_util::future::{join_all, select_all};

use super::hold::{Guard, Hold, ran, until_lost};
use crate::error::{Error, ErrorKind, Loss, Released};

/// Several holds, of an [`InterProcessMultiLock`](crate::InterProcessMultiLock) or of
/// [`acquire_many`](crate::InterProcessSemaphore::acquire_many). Dropping it releases them, the last first.
///
/// One of them may be lost while the others are held. Each has a [fencing token](Hold::fencing_token) of its own, for what
/// its lock protects. After `into_iter`, each guard is released on its own.
///
/// ```no_run
/// # use zookeeper_recipes::{Error, InterProcessMultiLock};
/// # async fn example(both: InterProcessMultiLock) -> Result<(), Error> {
/// let guards = both.acquire().await?;
/// for guard in &guards {
///     println!("{} by {}", guard.path(), guard.fencing_token());
/// }
/// guards.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
#[must_use = "the locks are released when their guards are dropped"]
pub struct Guards(Vec<Guard>);

impl Guards {
    pub(crate) fn new(guards: Vec<Guard>) -> Self {
        Self(guards)
    }

    pub(crate) fn push(&mut self, guard: Guard) {
        self.0.push(guard);
    }

    /// The guards, in the order in which they were asked for.
    pub fn iter(&self) -> std::slice::Iter<'_, Guard> {
        self.0.iter()
    }

    /// Whether all are held at this instant. Once it says `false` it always will.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.iter().all(|guard| guard.is_held())
    }

    /// Resolves as soon as one is lost, with how.
    ///
    /// # Cancel safety
    ///
    /// It can be dropped and called again at any time.
    pub async fn lost(&self) -> Loss {
        self.first_lost().await.0
    }

    /// The loss that comes first, as an error that names the lock.
    pub(crate) async fn lost_as_error(&self) -> Error {
        let (loss, guard) = self.first_lost().await;
        Error::lost(guard.path(), loss)
    }

    async fn first_lost(&self) -> (Loss, &Guard) {
        if self.0.is_empty() {
            return pending().await;
        }
        let lost = self.iter().map(|guard| Box::pin(guard.lost().map(move |loss| (loss, guard))));
        select_all(lost).await.0
    }

    /// Releases all, the last first, and waits until the servers confirm it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future, also before it is polled, releases all of them all the same; only the report is lost.
    ///
    /// # Errors
    ///
    /// All are released, or the session goes on trying.
    ///
    /// * [`ErrorKind::Lost`]: some had been lost before; the text names each.
    /// * [`ErrorKind::PermissionDenied`]: the server does not let us delete a node.
    pub async fn release(self) -> Result<Released, Error> {
        self.let_go().await
    }

    /// Releases all as it is called; the future waits for the reports.
    pub(crate) fn let_go(mut self) -> impl Future<Output = Result<Released, Error>> + Send + use<> {
        let releases: Vec<_> =
            mem::take(&mut self.0).into_iter().rev().map(Guard::let_go).collect();
        async move {
            let (mut came_to, mut failed) = (Released::Confirmed, Vec::new());
            for released in join_all(releases).await {
                match released {
                    Ok(Released::Confirmed) => {}
                    Ok(other) => came_to = other,
                    Err(error) => failed.push(error),
                }
            }
            failed.sort_by_key(|error| error.kind() != ErrorKind::Lost);
            let mut failed = failed.into_iter();
            let Some(first) = failed.next() else { return Ok(came_to) };
            let others: Vec<_> = failed.map(|error| error.to_string()).collect();
            Err(if others.is_empty() { first } else { first.while_doing(others.join("; ")) })
        }
    }

    /// Runs `body` while all are held, and releases. The body is dropped at its next `await` when one is lost. It gets a
    /// [`Hold`] of each, in their order.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the body and releases.
    ///
    /// # Errors
    ///
    /// Those of the body, and [`ErrorKind::Lost`].
    #[allow(clippy::future_not_send)] // it is, if the body is
    pub async fn run<T, E, Fut>(self, body: impl FnOnce(Vec<Hold>) -> Fut) -> Result<T, E>
    where
        E: From<Error>,
        Fut: Future<Output = Result<T, E>>,
    {
        let holds = self.iter().map(|guard| guard.view()).collect();
        let ended = until_lost(self.lost_as_error(), body(holds)).await;
        ran(ended, self.let_go()).await
    }

    /// The same for a body of any value.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the body and releases.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Lost`].
    #[allow(clippy::future_not_send)] // it is, if the body is
    pub async fn with<T, Fut>(self, body: impl FnOnce(Vec<Hold>) -> Fut) -> Result<T, Error>
    where
        Fut: Future<Output = T>,
    {
        self.run(|holds| body(holds).map(Ok)).await
    }
}

impl Drop for Guards {
    fn drop(&mut self) {
        // A vector would drop the first one first.
        while self.0.pop().is_some() {}
    }
}

impl IntoIterator for Guards {
    type Item = Guard;
    type IntoIter = std::vec::IntoIter<Guard>;

    fn into_iter(mut self) -> Self::IntoIter {
        mem::take(&mut self.0).into_iter()
    }
}

impl<'a> IntoIterator for &'a Guards {
    type Item = &'a Guard;
    type IntoIter = std::slice::Iter<'a, Guard>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
