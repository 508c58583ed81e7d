//! [`Feed`] and [`Observation`]: the reports of a task that follows something, as the task and as its handles see them.

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::{SetOnce, watch};
use tokio::time::sleep;

use super::waiting::Waiting;
use crate::client::{Client, Failure, LinkWatch};
use crate::error::Error;
use crate::lock_path::LockPath;
use crate::metrics::{self, Operation};
use crate::session::follower::EachSession;
use crate::session::{Connection, Session};

/// The last report of a task, and why the task ended.
#[derive(Debug)]
pub(crate) struct Feed<T> {
    /// The path that is followed.
    pub(crate) path: LockPath,
    /// `None` before the first report. Each handle has a receiver.
    pub(crate) last: watch::Sender<Option<T>>,
    end: SetOnce<Error>,
}

impl<T> Feed<T> {
    pub(crate) fn new(path: &LockPath, first: Option<T>) -> Arc<Self> {
        let last = watch::Sender::new(first);
        Arc::new(Self { path: path.clone(), last, end: SetOnce::new() })
    }

    /// An observation of the reports from now on.
    pub(crate) fn observe(self: &Arc<Self>) -> Observation<T> {
        Observation { feed: self.clone(), reports: self.last.subscribe(), waiting: Waiting::new() }
    }

    /// Reports something, unless it is the last report.
    pub(crate) fn report(&self, report: T)
    where
        T: PartialEq,
    {
        self.last.send_if_modified(|last| {
            let is_news = last.as_ref() != Some(&report);
            *last = Some(report);
            is_news
        });
    }

    /// Records why the task ended. Only the first reason counts.
    fn end(&self, error: Error) {
        let _ = self.end.set(error.at(&self.path));
    }
}

/// Owned by the task. Dropping it ends the feed, even if the runtime ended before the task ran.
struct EndOnDrop<T>(Arc<Feed<T>>);

impl<T> Drop for EndOnDrop<T> {
    fn drop(&mut self) {
        self.0.end(Error::closed().while_doing(&self.0.path));
    }
}

/// A handle's view of a [`Feed`].
pub(crate) struct Observation<T> {
    feed: Arc<Feed<T>>,
    reports: watch::Receiver<Option<T>>,
    waiting: Waiting<watch::Receiver<Option<T>>, Result<T, Error>>,
}

impl<T: Clone + Send + Sync + 'static> Observation<T> {
    /// The path that is followed.
    pub(crate) fn path(&self) -> &str {
        self.feed.path.as_str()
    }

    /// The last report; `None` before the first one and after the end.
    pub(crate) fn last(&self) -> Option<T> {
        match self.feed.end.get() {
            None => self.reports.borrow().clone(),
            Some(_) => None,
        }
    }

    /// The last report, also after the end. [`changed`](Self::changed) then waits for the next one.
    pub(crate) fn see(&mut self) -> Option<T> {
        self.waiting.forget();
        self.reports.borrow_and_update().clone()
    }

    /// Waits for the next report. After the end, a report that was not returned before comes first, and then the error each time.
    pub(crate) async fn changed(&mut self) -> Result<T, Error> {
        self.waiting.forget();
        next(&mut self.reports, &self.feed).await
    }

    /// Polls for the next report, for a stream. `None` after the end.
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<T>> {
        let Self { feed, reports, waiting } = self;
        let report = ready!(waiting.poll(reports, context, |mut reports| {
            let feed = feed.clone();
            async move {
                let report = next(&mut reports, &feed).await;
                (reports, report)
            }
        }));
        Poll::Ready(report.ok())
    }
}

async fn next<T: Clone + Send + Sync>(
    reports: &mut watch::Receiver<Option<T>>,
    feed: &Feed<T>,
) -> Result<T, Error> {
    tokio::select! {
        biased;
        // The sender lives in the feed.
        Ok(()) = reports.changed() => {}
        error = feed.end.wait() => return Err(error.clone()),
    }
    let report = reports.borrow_and_update().clone();
    // The conversion is for the type alone: all that is sent is a report.
    report.ok_or_else(Error::closed)
}

/// The clone continues from the last report that the original has seen.
impl<T> Clone for Observation<T>
where
    T: Clone + Send + Sync + 'static,
{
    fn clone(&self) -> Self {
        let Self { feed, reports, .. } = self;
        Self { feed: feed.clone(), reports: reports.clone(), waiting: Waiting::new() }
    }
}

/// The work of a task that follows something.
pub(crate) trait Follow<T>: Send + 'static {
    /// Follows it in one session. Returns why the task ends, if it does so before the session.
    fn follow_in(
        &mut self,
        session: &Session,
        feed: &Feed<T>,
    ) -> impl Future<Output = Error> + Send;
}

/// Spawns a task that follows something in one session after another, until no handle of the feed is left, no further session will be
/// opened, or the task ends by itself.
pub(crate) fn follow<T: Send + Sync + 'static>(
    feed: Arc<Feed<T>>,
    connection: &Arc<Connection>,
    mut task: impl Follow<T>,
) {
    let feed = EndOnDrop(feed);
    let mut sessions = EachSession::of(connection);
    connection.spawn(async move {
        let EndOnDrop(feed) = &feed;
        let ended = async {
            loop {
                let session = match sessions.next().await {
                    Ok(session) => session,
                    Err(error) => return error.while_doing(&feed.path),
                };
                let followed = task.follow_in(&session, feed);
                if let Some(error) = sessions.while_it_lasts(followed).await {
                    return error;
                }
            }
        };
        tokio::select! {
            biased;
            () = feed.last.closed() => {}
            error = ended => feed.end(error),
        }
    });
}

/// The work of an observer: to look again and again, and never to report an older state after a newer one. The servers never show a
/// session an older state than it has seen, and a new session begins with a `sync`. A refusal ends the task.
pub(crate) trait Look<T>: Send + 'static {
    /// Forgets what is known of the session before.
    fn begin_session(&mut self);

    /// Looks, and reports what has changed. Returns false if the server shows an older state than the one that was reported: then the
    /// next look is behind a `sync`.
    fn look(
        &mut self,
        session: &Session,
        client: &Client,
        feed: &Feed<T>,
    ) -> impl Future<Output = Result<bool, Failure>> + Send;

    /// Waits until the next look may find something else. `link` cannot have missed a change since the last look. Without a watch,
    /// the wait is a `pause`.
    fn changed(
        &mut self,
        session: &Session,
        link: LinkWatch,
        pause: Duration,
    ) -> impl Future<Output = ()> + Send;
}

impl<T: Send + Sync, L: Look<T>> Follow<T> for L {
    async fn follow_in(&mut self, session: &Session, feed: &Feed<T>) -> Error {
        // About as often as the session lease is renewed.
        let pause = session.timeout() / 6;
        let mut is_fresh = false;
        self.begin_session();
        loop {
            let look = async {
                let client = session.client()?;
                if !is_fresh {
                    client.sync().await?;
                }
                let link = client.watch_link();
                is_fresh = self.look(session, &client, feed).await?;
                Ok(link)
            };
            match look.await {
                Ok(link) if is_fresh => self.changed(session, link, pause).await,
                Ok(_) => sleep(pause).await,
                Err(failure @ Failure::Refused(_)) => {
                    return failure.into_error(feed.path.as_str(), "list");
                }
                Err(failure) => {
                    tracing::debug!(path = %feed.path, ?failure, "looks again");
                    metrics::retried(Operation::FOLLOW);
                    sleep(pause).await;
                }
            }
        }
    }
}

/// The newest state that an observer has reported, by a key that grows from one state to the next.
#[derive(Debug)]
pub(crate) struct Newest<K> {
    key: Option<K>,
    /// The number of reads in a row that found an older state.
    older: u32,
}

/// After this many such reads, each a sixth of a session timeout after the last, an older state is believed.
pub(crate) const OLDER_READS: u32 = 6;

impl<K: PartialOrd + Copy> Newest<K> {
    pub(crate) fn new() -> Self {
        Self { key: None, older: 0 }
    }

    /// A new session has begun.
    pub(crate) fn begin_session(&mut self) {
        self.older = 0;
    }

    /// Returns true if a state is to be reported now. A state without a key is neither older nor newer.
    pub(crate) fn admits(&mut self, key: Option<K>) -> bool {
        let key = key.or(self.key);
        if key < self.key && self.older < OLDER_READS {
            self.older += 1;
            return false;
        }
        *self = Self { key, older: 0 };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[tokio::test]
    async fn a_report_that_was_not_returned_comes_before_the_end() {
        let feed = Feed::new(&LockPath::parse("path", "/count").unwrap(), Some(1));
        let mut observation = feed.observe();
        feed.last.send_replace(Some(2));
        drop(EndOnDrop(feed));
        let mut clone = observation.clone();
        for observation in [&mut observation, &mut clone] {
            assert_eq!(observation.last(), None);
            assert_eq!(observation.changed().await.unwrap(), 2);
            for _ in 0..2 {
                let error = observation.changed().await.unwrap_err();
                assert_eq!((error.kind(), error.path()), (ErrorKind::Closed, Some("/count")));
            }
            assert_eq!(observation.see(), Some(2));
        }
    }
}
