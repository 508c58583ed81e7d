//! [`Guards`]: several holds together.

use std::future::{Future, pending};
use std::mem;

use futures_util::FutureExt;
use futures_util::future::{join_all, select_all};

use super::hold::{Guard, Hold};
use super::runs::impl_guard_runs;
use crate::error::{Error, ErrorKind, Loss, Released};

/// The guards of an [`InterProcessMultiLock`](crate::InterProcessMultiLock) or of
/// [`acquire_many`](crate::InterProcessSemaphoreV2::acquire_many). Dropping this releases them, the last first.
///
/// One hold may be lost while the others are held. Each has a [fencing token](Hold::fencing_token) of its own, for the
/// resource that its lock protects. After `into_iter`, each guard is released on its own.
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

impl_guard_runs!(Guards, Vec<Hold>, |guards| guards.iter().map(|guard| guard.view()).collect());

impl Guards {
    pub(crate) fn new(guards: Vec<Guard>) -> Self {
        Self(guards)
    }

    pub(crate) fn push(&mut self, guard: Guard) {
        self.0.push(guard);
    }

    /// Iterates over the guards, in the order in which they were acquired.
    pub fn iter(&self) -> std::slice::Iter<'_, Guard> {
        self.0.iter()
    }

    /// Returns true while all are held. Once the answer is `false`, it stays `false`.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.iter().all(|guard| guard.is_held())
    }

    /// Resolves with the cause as soon as one of the locks is lost.
    ///
    /// # Cancel safety
    ///
    /// The future can be dropped at any time, and the method called again.
    pub async fn lost(&self) -> Loss {
        self.first_lost().await.0
    }

    /// Resolves with the first loss, as an error that names the lock.
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
    /// Dropping the future releases all the same, even before the future is polled. Only the report is lost.
    ///
    /// # Errors
    ///
    /// Even after an error, all are released or the session keeps trying.
    ///
    /// * [`ErrorKind::Lost`]: some locks had been lost before; the text names each.
    /// * [`ErrorKind::PermissionDenied`]: the server does not let us delete a node.
    #[doc(alias = "returnAll")]
    pub async fn release(self) -> Result<Released, Error> {
        self.release_now().await
    }

    /// Releases all as it is called. The future waits for the reports.
    pub(crate) fn release_now(
        mut self,
    ) -> impl Future<Output = Result<Released, Error>> + Send + use<> {
        let guards = mem::take(&mut self.0);
        let releases: Vec<_> = guards.into_iter().rev().map(Guard::release_now).collect();
        async move {
            let mut outcome = Released::Confirmed;
            let mut failed = Vec::new();
            for released in join_all(releases).await {
                match released {
                    Ok(Released::Confirmed) => {}
                    Ok(other) => outcome = other,
                    Err(error) => failed.push(error),
                }
            }
            failed.sort_by_key(|error| error.kind() != ErrorKind::Lost);
            let mut failed = failed.into_iter();
            let Some(first) = failed.next() else { return Ok(outcome) };
            let others: Vec<_> = failed.map(|error| error.to_string()).collect();
            Err(if others.is_empty() { first } else { first.while_doing(others.join("; ")) })
        }
    }
}

impl Drop for Guards {
    fn drop(&mut self) {
        // A vector would drop the first guard first.
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
