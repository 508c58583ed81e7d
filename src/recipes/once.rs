//! [`InterProcessOnce`]: a job that runs once, although several machines start it.
//!
//! ```text
//! <path>/runs/<key>/_c_<guid>-lock-<number>   a process that runs the key, or waits to
//! <path>/done/<key>                           the record: identity and node of the process that ran it
//! ```
//!
//! *Once.* A key is run under a mutex of its own, and the record is created in one transaction with a check that the
//! runner's node is there (invariant 8). So only the holder records, and a runner that lost the lock does not. Before it runs
//! the body, a holder reads the record in the session of its hold. The holder before it had recorded before its node was
//! deleted, and this session has seen that deletion, so it sees the record as well.
//!
//! *Never a key without a run.* Only a body that returned `Ok` is recorded. Everything else leaves no record, and the next
//! process runs the body.
//!
//! A record whose answer is lost is sent again while the hold lasts: the second create finds the first. If the hold is lost
//! meanwhile, the record that is there tells by its node whose it is.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::shared::attempt::Attempt;
use super::shared::contender::Contender;
use super::shared::hold::{Guard, Hold, race_loss};
use super::shared::participants::Participant;
use super::shared::recipe::{Patience, Recipe};
use crate::client::{Failure, Node};
use crate::curator::Curator;
use crate::error::{Error, ErrorKind};
use crate::lock_path::{LockPath, segment_of};
use crate::metrics;
use crate::queue::rules::admission::Family;
use crate::queue::rules::filter::ContenderFilter;
use crate::queue::rules::node_name::Kind;
use crate::session::Session;
use crate::session::retry::RetryPolicy;
use crate::session::tries::{Effect, Failed, tried};

/// How many keys are kept by default.
const KEPT: usize = 1000;

/// Runs a job once for each key, although several machines start it: "the job of 2 a.m. on one machine only, once".
///
/// A lock alone is not enough. If the job takes less time than the clock skew between the machines, the second machine finds
/// the lock free, and runs it again. This recipe records the key when its run has succeeded.
///
/// * **The key is yours**: a date, a deployment, a batch. Runs of different keys do not wait for each other.
/// * **Takes over**: if the process that runs a key fails or dies, the next one that waits runs it.
/// * **Not exactly once**: a process that dies after its job and before the record leaves no record, and the job runs
///   again. Let the job's writes be idempotent, or pass the [fencing token](Hold::fencing_token).
/// * **Records are kept** until there are more than [`with_kept_keys`](Self::with_kept_keys) of them under the path, by
///   default 1,000. A key whose record was removed can run again.
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
    /// With the runs and the records in it.
    path: LockPath,
    key: String,
    /// The path of the key's record.
    record: LockPath,
    kept: usize,
}

/// What a run of an [`InterProcessOnce`] came to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "another process may have done it before"]
#[allow(clippy::exhaustive_enums)] // there is no third
pub enum OnceOutcome<T> {
    /// This process ran it, and the key is recorded.
    Ran(T),
    /// The key had been recorded before.
    #[non_exhaustive]
    AlreadyDone {
        /// The identity of the process that ran it.
        by: String,
        /// When it was recorded, by the clock of the servers.
        at: SystemTime,
    },
}

impl Curator {
    /// A job at `path` that runs once for `key`, under the namespace, with the options of this handle.
    ///
    /// # Errors
    ///
    /// As for [`mutex`](Self::mutex); an empty key.
    pub fn once(
        &self,
        path: impl AsRef<str>,
        key: impl Into<String>,
    ) -> Result<InterProcessOnce, Error> {
        let (key, recipe) = (key.into(), Recipe::new(self, path.as_ref(), metrics::Recipe::ONCE)?);
        if key.is_empty() {
            return Err(Error::invalid("key", "\"\"", "it is empty"));
        }
        let below = |folder| {
            LockPath::parse("key", &format!("{}/{}", recipe.path.child(folder), segment_of(&key)))
        };
        let (runs, record, path) = (below("runs")?, below("done")?, recipe.path.clone());
        let family = Family::Exclusive(ContenderFilter::Curator);
        let contender = Contender::new(Recipe { path: runs, ..recipe }, family, Kind::Lock);
        Ok(InterProcessOnce { contender, path, key, record, kept: KEPT })
    }
}

impl InterProcessOnce {
    /// Runs `body`, unless the key is recorded. It waits for a run of the key that is under way, and takes over if that fails
    /// or dies. The body is dropped at its next `await` when its lock is lost.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the body, and leaves no record unless the body had returned.
    ///
    /// # Errors
    ///
    /// The body's own, after which there is no record; those of
    /// [`InterProcessMutex::acquire`](crate::InterProcessMutex::acquire), and of writing the record;
    /// [`ErrorKind::Lost`] if the lock was lost before the key was recorded; [`ErrorKind::OutcomeUnknown`] if no server
    /// says whether it was.
    #[allow(clippy::future_not_send)] // it is, if the body is
    pub async fn run<T, E, Fut>(&self, body: impl FnOnce(Hold) -> Fut) -> Result<OnceOutcome<T>, E>
    where
        E: From<Error>,
        Fut: Future<Output = Result<T, E>>,
    {
        // A process that comes later makes no node.
        if let Some(done) = self.done().await? {
            return Ok(done.into_once());
        }
        let guard = self.contender.acquire().await?;
        self.run_under(guard, body).await
    }

    /// The same, but does not wait: [`Attempt::Busy`] while a run of the key is under way.
    ///
    /// # Cancel safety
    ///
    /// As for [`run`](Self::run).
    ///
    /// # Errors
    ///
    /// As for [`run`](Self::run).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    #[allow(clippy::future_not_send)] // it is, if the body is
    pub async fn try_run<T, E, Fut>(
        &self,
        body: impl FnOnce(Hold) -> Fut,
    ) -> Result<Attempt<OnceOutcome<T>>, E>
    where
        E: From<Error>,
        Fut: Future<Output = Result<T, E>>,
    {
        if let Some(done) = self.done().await? {
            return Ok(Attempt::Acquired(done.into_once()));
        }
        match self.contender.attempt(Patience::NoWait).await? {
            None => Ok(Attempt::Busy),
            Some(guard) => self.run_under(guard, body).await.map(Attempt::Acquired),
        }
    }

    /// The process that runs the key, and those that wait to, as for
    /// [`InterProcessMutex::participants`](crate::InterProcessMutex::participants).
    ///
    /// # Cancel safety
    ///
    /// It only reads.
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

    /// The path, under the namespace.
    pub fn path(&self) -> &str {
        self.path.as_str()
    }

    /// The key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// How many records are kept under the path. After a run, the oldest beyond that are removed, and their keys can run
    /// again.
    pub fn with_kept_keys(mut self, kept: usize) -> Self {
        self.kept = kept.max(1);
        self
    }

    #[allow(clippy::future_not_send)] // it is, if the body is
    async fn run_under<T, E, Fut>(
        &self,
        guard: Guard,
        body: impl FnOnce(Hold) -> Fut,
    ) -> Result<OnceOutcome<T>, E>
    where
        E: From<Error>,
        Fut: Future<Output = Result<T, E>>,
    {
        if let Some(done) = self.done_before(&guard).await? {
            release(guard).await;
            return Ok(done.into_once());
        }
        // A job whose record may not be made must not run.
        self.make_parent(&guard).await?;
        let lost = async { Error::lost(self.path(), guard.lost().await) };
        let ended = race_loss(lost, body(guard.view())).await?;
        let value = match ended {
            Ok(value) => value,
            Err(error) => {
                release(guard).await;
                return Err(error);
            }
        };
        let (recorded, node) = (self.record(&guard).await, guard.node().to_owned());
        release(guard).await;
        if let Err(error) = recorded {
            let unsure = matches!(error.kind(), ErrorKind::Lost | ErrorKind::OutcomeUnknown);
            let done = if unsure { self.done().await? } else { None };
            if done.is_none_or(|done| done.node != node) {
                return Err(error.into());
            }
        }
        self.remove_old().await;
        Ok(OnceOutcome::Ran(value))
    }

    /// The record of the key, if there is one.
    async fn done(&self) -> Result<Option<Record>, Error> {
        let (record, Recipe { curator, retry, .. }) = (&self.record, &self.contender.recipe);
        let read = |session: Arc<Session>, _| async move {
            let sent = session.client().map(|client| client.read(record.as_str()));
            match async { sent?.await }.await {
                Ok(node) => Ok(Some(Record::of(&node))),
                Err(Failure::NoNode) => Ok(None),
                Err(failure) => Err(Failed::at(record, "read", failure)),
            }
        };
        tried(curator.connection(), record, retry, Effect::Harmless, read).await
    }

    /// The same as the session of the hold sees it.
    async fn done_before(&self, hold: &Hold) -> Result<Option<Record>, Error> {
        let (record, Recipe { curator, retry, .. }) =
            (self.record.as_str(), &self.contender.recipe);
        let session = hold.state().session();
        let read = || async { session.client()?.read(record).await };
        match curator.connection().retried(retry, read).await {
            Ok(node) => Ok(Some(Record::of(&node))),
            Err(Failure::NoNode) => Ok(None),
            Err(Failure::SessionOver(_)) => Err(Error::lost(self.path(), hold.lost().await)),
            Err(failure) => Err(failure.into_error(record, "read")),
        }
    }

    /// Creates the record, while the hold lasts.
    async fn record(&self, hold: &Hold) -> Result<(), Error> {
        let Recipe { curator, .. } = &self.contender.recipe;
        let says = [&*curator.options().identity, b"\n", hold.node().as_bytes()].concat();
        let mut retry = RetryPolicy::endless().start();
        loop {
            let Err(error) = hold.fenced().create(self.record.as_str(), &says).await else {
                return Ok(());
            };
            match error.kind() {
                // No other process records while this one holds.
                ErrorKind::AlreadyExists => return Ok(()),
                ErrorKind::NotFound => self.make_parent(hold).await?,
                ErrorKind::Unavailable | ErrorKind::OutcomeUnknown if hold.is_held() => {
                    let pause = retry.next_pause(Duration::ZERO).unwrap_or_default();
                    curator.connection().pause(pause).await;
                }
                _ => return Err(error),
            }
        }
    }

    async fn make_parent(&self, hold: &Hold) -> Result<(), Error> {
        let session = hold.state().session();
        let Some(parent) = session.root().join(&self.record).parent() else { return Ok(()) };
        let acls = &self.contender.recipe.curator.options().acls;
        let Ok(borrowed) = session.borrow_client() else {
            return Err(Error::lost(self.path(), hold.lost().await));
        };
        match borrowed.client.make_parents(&parent, acls).await {
            // The record says whether it is there.
            Ok(()) => Ok(()),
            Err(made) => match made.failure {
                failure @ Failure::Refused(_) => Err(failure.into_error(&made.path, "create")),
                _ => Ok(()),
            },
        }
    }

    /// Removes the oldest records beyond those that are kept. One that cannot be removed is for the next run.
    async fn remove_old(&self) {
        let connection = self.contender.recipe.curator.connection();
        let (Ok(session), Some(parent)) = (connection.current_session(), self.record.parent())
        else {
            return;
        };
        let removed = async {
            let client = session.client()?;
            let children = client.list(parent.as_str()).await?.children;
            if children.len() <= self.kept {
                return Ok(());
            }
            let mut records = Vec::new();
            for child in children {
                let path = parent.child(&child);
                if let Some(node) = client.look(&path).await? {
                    records.push((node.change.czxid, path));
                }
            }
            records.sort();
            records.truncate(records.len().saturating_sub(self.kept));
            for (_, path) in records {
                client.delete(&path).await?;
            }
            Ok::<_, Failure>(())
        };
        if let Err(failure) = removed.await {
            tracing::debug!(path = self.path(), ?failure, "old keys are not removed");
        }
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
    /// By which it was recorded.
    node: String,
    at: SystemTime,
}

impl Record {
    fn of(node: &Node) -> Self {
        let says = String::from_utf8_lossy(&node.data);
        let (by, recorder) = says.rsplit_once('\n').unwrap_or((&says, ""));
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(node.created);
        Self { by: by.to_owned(), node: recorder.to_owned(), at }
    }

    fn into_once<T>(self) -> OnceOutcome<T> {
        OnceOutcome::AlreadyDone { by: self.by, at: self.at }
    }
}
