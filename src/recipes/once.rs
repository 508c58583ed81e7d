//! [`InterProcessOnce`]: a job that runs once although several machines start it.
//!
//! ```text
//! <path>/runs/<key>/_c_<guid>-lock-<number>   a process that runs the key or waits
//! <path>/done/<key>                           the record: identity and node of the process that ran the key
//! <path>/cleanup/_c_<guid>-lock-<number>      a process that removes old records
//! ```
//!
//! *Once.* Each key has a mutex, and one transaction checks that the runner's node exists and creates the record, as a
//! fenced write does. So only the holder records, and a runner that lost the lock does not. Before a holder runs the body, it
//! reads the record in the session of its hold. The previous holder had created the record before its node was deleted. This
//! session has seen that deletion, so it sees the record as well.
//!
//! *Never a record without a run.* A key is recorded only if the body returned `Ok`. Otherwise there is no record, and the next
//! process runs the body.
//!
//! While the hold lasts, an unanswered create of the record is repeated: if the first took effect, the second finds its record.
//! If the hold is lost meanwhile, the node in the record shows whose record it is.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::FutureExt;
use futures_util::future::{join_all, try_join_all};

use super::shared::contender::Contender;
use super::shared::hold::{Guard, Hold};
use super::shared::participants::Participant;
use super::shared::recipe::{Patience, Recipe};
use super::shared::runs::race_loss;
use crate::client::{Failed, Failure, Node};
use crate::curator::Curator;
use crate::error::{Error, ErrorKind};
use crate::lock_path::{LockPath, escape_segment};
use crate::metrics;
use crate::queue::rules::admission::Family;
use crate::queue::rules::filter::ContenderFilter;
use crate::queue::rules::node_name::Kind;
use crate::session::Session;
use crate::session::retry::RetryPolicy;
use crate::session::retry::{Idempotent, with_retry};

/// The default number of records that are kept.
const KEPT: usize = 1000;

/// Runs a job once for each key, although several machines start it: "the job of 2 a.m. on one machine only, once".
///
/// A lock alone is not enough. If the job takes less time than the clock skew between the machines, the second machine finds
/// the lock free, and runs the job again. This recipe records the key when its run has succeeded.
///
/// * **The key is yours**: a date, a deployment, a batch. Runs of different keys do not wait for each other.
/// * **Takes over**: if the process that runs a key fails or dies, the next waiting process runs the key.
/// * **Not exactly once**: a process that dies after its job and before the record leaves no record, and the job runs
///   again. Let the job's writes be idempotent, or pass the [fencing token](Hold::fencing_token).
/// * **Records are kept**: at least the newest [`with_kept_keys`](Self::with_kept_keys) under the path, by default
///   1,000. A key whose record was removed can run again.
///
/// ```no_run
/// # use zookeeper_recipes::{Curator, Error, OnceOutcome};
/// # async fn report(token: i64) -> Result<u64, Error> { Ok(1) }
/// # async fn example(curator: Curator) -> Result<(), Error> {
/// let nightly = curator.once("/jobs/nightly", "2026-11-24")?;
/// match nightly.run(async |hold| report(hold.fencing_token().value()).await).await? {
///     OnceOutcome::Ran(rows) => println!("{rows} rows"),
///     OnceOutcome::AlreadyDone { by, .. } => println!("{by} did it"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing runs until `run`"]
pub struct InterProcessOnce {
    contender: Contender,
    /// The parent of the runs and the records.
    path: LockPath,
    key: String,
    /// The path of the key's record.
    record: LockPath,
    kept: usize,
}

/// The outcome of a run of an [`InterProcessOnce`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "another process may have done it before"]
#[allow(clippy::exhaustive_enums)] // there is no third
pub enum OnceOutcome<T> {
    /// This process ran the job, and the key is recorded.
    Ran(T),
    /// The key had been recorded before.
    #[non_exhaustive]
    AlreadyDone {
        /// The identity of the process that ran the job.
        by: String,
        /// The time at which the key was recorded, by the clock of the servers.
        at: SystemTime,
    },
}

impl Curator {
    /// Returns a job at `path` that runs once for `key`, under the namespace, with the options of this handle.
    ///
    /// # Errors
    ///
    /// As for [`mutex`](Self::mutex); an empty key.
    pub fn once(
        &self,
        path: impl AsRef<str>,
        key: impl Into<String>,
    ) -> Result<InterProcessOnce, Error> {
        let key = key.into();
        let recipe = Recipe::new(self, path.as_ref(), metrics::Recipe::ONCE)?;
        if key.is_empty() {
            return Err(Error::invalid("key", "\"\"", "it is empty"));
        }
        let below = |folder| {
            LockPath::parse(
                "key",
                &format!("{}/{}", recipe.path.child(folder), escape_segment(&key)),
            )
        };
        let runs = below("runs")?;
        let record = below("done")?;
        let path = recipe.path.clone();
        let family = Family::Exclusive(ContenderFilter::Curator);
        let contender = Contender::new(Recipe { path: runs, ..recipe }, family, Kind::Lock);
        let contender = contender.never_reenters();
        Ok(InterProcessOnce { contender, path, key, record, kept: KEPT })
    }
}

impl InterProcessOnce {
    /// Runs `body`, unless the key is recorded. If another process is running the key, the future waits, and takes over if that
    /// process fails or dies. The body is dropped at its next `await` when its lock is lost.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the body, and leaves no record unless the body had returned.
    ///
    /// # Errors
    ///
    /// The body's own, after which there is no record; those of
    /// [`InterProcessMutex::acquire`](crate::InterProcessMutex::acquire) and of writing the record;
    /// [`ErrorKind::Lost`] if the lock was lost before the key was recorded; [`ErrorKind::OutcomeUnknown`] if no server
    /// says whether the key was recorded; [`ErrorKind::WouldDeadlock`] inside an [`Owner`](crate::interop::Owner) that
    /// runs the key already.
    #[allow(clippy::future_not_send)] // it is, if the body is
    pub async fn run<T, E, Fut>(&self, body: impl FnOnce(Hold) -> Fut) -> Result<OnceOutcome<T>, E>
    where
        E: From<Error>,
        Fut: Future<Output = Result<T, E>>,
    {
        self.run_with(Patience::Forever, body).await
    }

    /// Runs `body`, unless the key is recorded or another process is running it.
    ///
    /// # Cancel safety
    ///
    /// As for [`run`](Self::run).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Busy`] if another process is running the key; as for [`run`](Self::run). If the body itself tries a lock and
    /// returns its error, a busy error can be of that lock: compare [`Error::path`] with [`path`](Self::path).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    #[allow(clippy::future_not_send)] // it is, if the body is
    pub async fn try_run<T, E, Fut>(
        &self,
        body: impl FnOnce(Hold) -> Fut,
    ) -> Result<OnceOutcome<T>, E>
    where
        E: From<Error>,
        Fut: Future<Output = Result<T, E>>,
    {
        self.run_with(Patience::TRY, body).await
    }

    /// Runs `body`, unless the key is recorded: see [`run`](Self::run). Waits for the servers and for another process that runs
    /// the key at most for `limit`, which does not bound the body. A limit of zero is a try that does not wait for a
    /// connection.
    ///
    /// # Cancel safety
    ///
    /// As for [`run`](Self::run).
    ///
    /// # Errors
    ///
    /// As for [`try_run`](Self::try_run); [`ErrorKind::Unavailable`] if the time is up before any server said whether another
    /// process is running the key.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    #[allow(clippy::future_not_send)] // it is, if the body is
    pub async fn run_timeout<T, E, Fut>(
        &self,
        limit: Duration,
        body: impl FnOnce(Hold) -> Fut,
    ) -> Result<OnceOutcome<T>, E>
    where
        E: From<Error>,
        Fut: Future<Output = Result<T, E>>,
    {
        self.run_with(Patience::within(limit), body).await
    }

    /// Lists the process that runs the key and the ones that wait, as for
    /// [`InterProcessMutex::participants`](crate::InterProcessMutex::participants).
    ///
    /// # Cancel safety
    ///
    /// The future only reads.
    ///
    /// # Errors
    ///
    /// As for [`InterProcessMutex::participants`](crate::InterProcessMutex::participants).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    pub async fn participants(&self) -> Result<Vec<Participant>, Error> {
        self.contender.participants().await
    }

    /// Returns the path, under the namespace.
    pub fn path(&self) -> &str {
        self.path.as_str()
    }

    /// Returns the key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Sets how many records are kept under the path at least. A run that finds a tenth more removes the oldest ones beyond
    /// that number, and their keys can run again.
    pub fn with_kept_keys(mut self, kept: usize) -> Self {
        self.kept = kept.max(1);
        self
    }

    #[allow(clippy::future_not_send)] // it is, if the body is
    async fn run_with<T, E, Fut>(
        &self,
        patience: Patience,
        body: impl FnOnce(Hold) -> Fut,
    ) -> Result<OnceOutcome<T>, E>
    where
        E: From<Error>,
        Fut: Future<Output = Result<T, E>>,
    {
        let recipe = &self.contender.recipe;
        // If the key is recorded, this process creates no node.
        if let Some(done) = recipe.in_time(patience, || false, self.done()).await? {
            return Ok(done.into_outcome());
        }
        let acquired = self.contender.acquire_with(patience).await;
        let guard = acquired.map_err(|error| if error.is_busy() { self.busy() } else { error })?;
        let prepared = async {
            let done = self.done_before(&guard).await?;
            if done.is_none() {
                // A job whose record may not be created must not run.
                self.make_parent(&guard).await?;
            }
            Ok(done)
        };
        if let Some(done) = recipe.in_time(patience, || false, prepared).await? {
            // A release that is dropped continues.
            let released = release(guard).map(Ok);
            let _ = recipe.in_time(patience, || false, released).await;
            return Ok(done.into_outcome());
        }
        let lost = async { Error::lost(self.path(), guard.lost().await) };
        let ended = race_loss(lost, body(guard.view())).await?;
        let value = match ended {
            Ok(value) => value,
            Err(error) => {
                release(guard).await;
                return Err(error);
            }
        };
        let recorded = self.record(&guard).await;
        let node = guard.node().to_owned();
        release(guard).await;
        let record = match recorded {
            Ok(record) => record,
            Err(error) => {
                let unsure = matches!(error.kind(), ErrorKind::Lost | ErrorKind::OutcomeUnknown);
                // The body has run: if the record cannot be read, it stays unknown whether there is one.
                let done = if unsure { self.done().await.unwrap_or_default() } else { None };
                if done.is_none_or(|done| done.node != node) {
                    return Err(error.into());
                }
                None
            }
        };
        self.remove_old().await;
        match record.filter(|record| record.node != node) {
            None => Ok(OnceOutcome::Ran(value)),
            Some(theirs) => {
                tracing::warn!(
                    path = self.path(),
                    key = self.key,
                    by = theirs.by,
                    "the job ran here as well, but another process had recorded its key"
                );
                Ok(theirs.into_outcome())
            }
        }
    }

    fn busy(&self) -> Error {
        Error::busy(format_args!("the key {} of {}", self.key, self.path)).at(&self.path)
    }

    /// The record of the key, if there is one.
    async fn done(&self) -> Result<Option<Record>, Error> {
        let record = &self.record;
        let Recipe { curator, retry, .. } = &self.contender.recipe;
        let read = |session: Arc<Session>, _| async move {
            match session.request(|client| client.read(record.as_str())).await {
                Ok(node) => Ok(Some(Record::of(&node))),
                Err(Failure::NoNode) => Ok(None),
                Err(failure) => Err(Failed::at(record, "read", failure)),
            }
        };
        with_retry(curator.connection(), record, retry, Idempotent::Yes, read).await
    }

    /// The record of the key as the session of the hold sees it.
    async fn done_before(&self, hold: &Hold) -> Result<Option<Record>, Error> {
        let record = self.record.as_str();
        let Recipe { curator, retry, .. } = &self.contender.recipe;
        let session = hold.state().session();
        let read = || session.request(|client| client.read(record));
        match curator.connection().retried(retry, read).await {
            Ok(node) => Ok(Some(Record::of(&node))),
            Err(Failure::NoNode) => Ok(None),
            Err(Failure::SessionOver(_)) => Err(Error::lost(self.path(), hold.lost().await)),
            Err(failure) => Err(failure.into_error(record, "read")),
        }
    }

    /// Creates the record, while the hold lasts. Returns the record that was there already, ours or that of another process.
    async fn record(&self, hold: &Hold) -> Result<Option<Record>, Error> {
        let curator = &self.contender.recipe.curator;
        let data = [&*curator.options().identity, b"\n", hold.node().as_bytes()].concat();
        let mut retry = RetryPolicy::endless().start();
        loop {
            let Err(error) = hold.fenced().create(self.record.as_str(), &data).await else {
                return Ok(None);
            };
            match error.kind() {
                // Ours, if an earlier create took effect. Another's, if this server had not shown it before the body ran.
                ErrorKind::AlreadyExists => match self.done_before(hold).await {
                    Err(error) if error.kind() == ErrorKind::Unavailable => {
                        return Err(Error::unknown(&self.record));
                    }
                    read => return read,
                },
                ErrorKind::NotFound => self.make_parent(hold).await?,
                ErrorKind::Unavailable | ErrorKind::OutcomeUnknown if hold.is_held() => {
                    let pause = retry.next_endless();
                    curator.connection().pause(pause).await;
                }
                ErrorKind::Unavailable => {
                    return Err(Error::lost(self.path(), hold.lost().await));
                }
                _ => return Err(error),
            }
        }
    }

    async fn make_parent(&self, hold: &Hold) -> Result<(), Error> {
        let session = hold.state().session();
        let acls = &self.contender.recipe.curator.options().acls;
        let Ok(borrowed) = session.borrow_client() else {
            return Err(Error::lost(self.path(), hold.lost().await));
        };
        match borrowed.client.make_parents(&self.record, acls).await {
            // The create of the record reports whether the parent exists.
            Ok(()) => Ok(()),
            Err(made) => match made.failure {
                failure @ Failure::Refused(_) => Err(failure.into_error(&made.path, "create")),
                _ => Ok(()),
            },
        }
    }

    /// Removes the oldest records beyond the number that is kept, if there are a tenth more. The next run tries again after a
    /// failure.
    async fn remove_old(&self) {
        let connection = self.contender.recipe.curator.connection();
        let Ok(session) = connection.current_session() else { return };
        let Some(done) = self.record.parent() else { return };
        match session.request(|client| client.list(done.as_str())).await {
            Ok(listing) if listing.children.len() > self.kept + self.kept / 10 => {}
            _ => return,
        }
        // A session task: a caller that does not poll its future must not keep the lock.
        let removed = connection.spawn(self.clone().remove_old_alone(done)).await;
        if let Ok(Err(error)) = removed {
            tracing::debug!(path = self.path(), %error, "old keys are not removed");
        }
    }

    /// Removes the old records while no other process does. Else a process that listed the records long ago could remove one
    /// that was made since, of a key that had been removed and ran again.
    async fn remove_old_alone(self, done: LockPath) -> Result<(), Error> {
        let recipe = self.contender.recipe.internal(self.path.below("cleanup"));
        let contender =
            Contender::new(recipe, Family::Exclusive(ContenderFilter::Curator), Kind::Lock);
        // Busy: another process cleans up.
        let guard = contender.acquire_with(Patience::TRY).await?;
        let session = guard.state().session();
        let listed = session.request(|client| client.list(done.as_str())).await;
        let children =
            listed.map_err(|failure| failure.into_error(done.as_str(), "list"))?.children;
        let looks = children.iter().map(|child| {
            let path = done.child(child);
            let look = session.request(|client| client.look(&path));
            async move { Ok((look.await?.map_or(0, |node| node.change.czxid), path)) }
        });
        let looked = try_join_all(looks.collect::<Vec<_>>()).await;
        let mut records =
            looked.map_err(|failure: Failure| failure.into_error(done.as_str(), "read"))?;
        records.sort();
        // A record whose age is unknown may be one of those to keep.
        if records.first().is_some_and(|(czxid, _)| *czxid > 0) {
            records.truncate(records.len().saturating_sub(self.kept));
            let fenced = guard.fenced();
            let deletes = records.iter().map(|(_, record)| fenced.delete(record));
            for failed in join_all(deletes).await.into_iter().filter_map(Result::err) {
                tracing::debug!(path = self.path(), error = %failed, "an old key is not removed");
            }
        }
        release(guard).await;
        Ok(())
    }
}

async fn release(guard: Guard) {
    if let Err(error) = guard.release().await {
        tracing::warn!(%error, "the release failed");
    }
}

/// The record of a key.
#[derive(Debug)]
struct Record {
    by: String,
    /// The node of the contender that created the record.
    node: String,
    at: SystemTime,
}

impl Record {
    fn of(node: &Node) -> Self {
        let data = String::from_utf8_lossy(&node.data);
        let (by, recorder) = data.rsplit_once('\n').unwrap_or((&data, ""));
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(node.created);
        Self { by: by.to_owned(), node: recorder.to_owned(), at }
    }

    fn into_outcome<T>(self) -> OnceOutcome<T> {
        OnceOutcome::AlreadyDone { by: self.by, at: self.at }
    }
}
