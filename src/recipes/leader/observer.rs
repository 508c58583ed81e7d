//! [`LeaderObserver`]: reports the leader, in whatever process.
//!
//! A task reads which candidate leads, and waits until that changes.
//!
//! The task watches the node of the first candidate. While this node exists, no other candidate leads, because later
//! candidates get larger numbers. Each candidate behind the first is watched by its own successor. While there is no candidate,
//! the task watches the children of the path, or waits for the path to be created.
//!
//! *Never an older leader after a newer one.* Leaders follow each other in the order of the transactions that created
//! their nodes. The servers never show a session an older state than it has seen. A new session begins with a `sync`, so that
//! this does not depend on how servers begin sessions. A leader that is older than the last one all the same is not reported,
//! and the task reads again, each time after a `sync`. If that leader still leads after a session timeout, the servers have
//! lost data, or the node was put before others by hand: then the leader is reported. On newer servers (3.8.4, 3.9.2), the transaction
//! of a node that may not be read is unknown. Such a leader is reported at once, and the next leader is compared with the one
//! before it.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, Stream};
use tokio::time::sleep;

use crate::client::{Client, Failure, LinkWatch};
use crate::curator::Curator;
use crate::error::Error;
use crate::fencing_token::FencingToken;
use crate::lock_path::LockPath;
use crate::queue::rules::admission::Family;
use crate::recipes::shared::observation::{Feed, Look, Newest, Observation, follow};
use crate::recipes::shared::participants::{Participant, first};
use crate::recipes::shared::recipe::Recipe;
use crate::session::Session;
use crate::session::follower::{NodeFollower, list_or_await_create};

/// Reports the current leader without being a candidate.
///
/// * **No leader** is an answer: `None` while there is no candidate.
/// * **Never back**: no older leader is reported after a newer one, even if the connected server lags or a new session began.
///   Each leader's [token](Participant::fencing_token) is larger than those before. If the servers lost data, so that the
///   new leader has a smaller token, that leader is reported a session timeout later.
/// * **As the servers know it**: the leader is the first candidate. That process may not know yet that it leads, or may already
///   have lost its lease. If two leaders must never act together, compare fencing tokens.
/// * **A leader whose node may not be read** is reported without its identity.
/// * **Cheap**: an observer watches the leader's node, and sends two reads when the node is deleted. While there is no leader, it
///   watches the path. It never watches another candidate.
///
/// A task of the session follows the leader, over reconnects and sessions, until the last handle is dropped. A slow observer
/// may skip leaders.
///
/// An observer is a [`Stream`] of leaders, which ends where [`changed`](Self::changed) fails.
///
/// ```no_run
/// # use zookeeper_recipes::{Curator, Error};
/// # async fn example(curator: Curator) -> Result<(), Error> {
/// let mut observer = curator.observe_leader("/leader")?;
/// loop {
///     match observer.changed().await? {
///         Some(leader) => println!("leader: {}", leader.identity.unwrap_or(leader.node)),
///         None => println!("no leader"),
///     }
/// }
/// # }
/// ```
#[must_use = "a stream does nothing until it is polled"]
pub struct LeaderObserver {
    /// The curator in the recipe keeps the session open.
    recipe: Recipe,
    leaders: Observation<Option<Participant>>,
}

impl Curator {
    /// Follows the leader at `path`, of latches or of selectors, in whatever process, or a mutex's holder. The nodes' names say
    /// which recipe it is. If several recipes are on one path, the first contender of all counts. For a selector with a filter, see
    /// [`LeaderSelector::observe`](crate::leader::LeaderSelector::observe).
    ///
    /// # Errors
    ///
    /// As for [`mutex`](Self::mutex).
    pub fn observe_leader(&self, path: impl AsRef<str>) -> Result<LeaderObserver, Error> {
        let recipe = Recipe::uncounted(self, path.as_ref())?;
        Ok(LeaderObserver::new(recipe, Family::Leaders))
    }
}

impl LeaderObserver {
    pub(super) fn new(recipe: Recipe, family: Family) -> Self {
        let feed = Feed::new(&recipe.path, None);
        let leaders = feed.observe();
        let task = ObserverTask { family, newest: Newest::new(), watched: None };
        follow(feed, recipe.curator.connection(), task);
        Self { recipe, leaders }
    }

    /// Returns the path, under the namespace.
    pub fn path(&self) -> &str {
        self.recipe.path.as_str()
    }

    /// Returns the leader that was reported last. `None` also before the first report and after the end.
    pub fn leader(&self) -> Option<Participant> {
        self.leaders.last().flatten()
    }

    /// Waits until the leader has changed; the first time, until the leader is known.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future misses no change.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::PermissionDenied`](crate::ErrorKind::PermissionDenied), [`ErrorKind::Refused`](crate::ErrorKind::Refused):
    /// the path may not be read; [`ErrorKind::Closed`](crate::ErrorKind::Closed),
    /// [`ErrorKind::AuthenticationFailed`](crate::ErrorKind::AuthenticationFailed): no further session will be opened.
    pub async fn changed(&mut self) -> Result<Option<Participant>, Error> {
        self.leaders.changed().await
    }
}

/// The clone continues from the last leader that the original has reported.
impl Clone for LeaderObserver {
    fn clone(&self) -> Self {
        Self { recipe: self.recipe.clone(), leaders: self.leaders.clone() }
    }
}

impl Stream for LeaderObserver {
    type Item = Option<Participant>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.leaders.poll_next(context)
    }
}

impl fmt::Debug for LeaderObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderObserver")
            .field("path", &self.path())
            .field("leader", &self.leader())
            .finish_non_exhaustive()
    }
}

/// The task that follows the leader.
struct ObserverTask {
    family: Family,
    /// The transaction that created the node of the newest leader.
    newest: Newest<FencingToken>,
    /// The watch of the last look, if there was room for one.
    watched: Option<Watched>,
}

impl Look<Option<Participant>> for ObserverTask {
    fn begin_session(&mut self) {
        self.newest.begin_session();
    }

    async fn look(
        &mut self,
        session: &Session,
        client: &Client,
        feed: &Feed<Option<Participant>>,
    ) -> Result<bool, Failure> {
        let (mut leader, watched) = read(session, client, &feed.path, &self.family).await?;
        if !self.newest.admits(leader.as_ref().and_then(|leader| leader.fencing_token)) {
            return Ok(false);
        }
        if let (Some(leader), Some(Some(reported))) = (&mut leader, &*feed.last.borrow()) {
            leader.keep_identity_of(reported);
        }
        feed.report(leader);
        self.watched = watched;
        Ok(true)
    }

    async fn changed(&mut self, session: &Session, link: LinkWatch, pause: Duration) {
        match self.watched.take() {
            Some(watched) => until_changed(session, watched, link).await,
            None => sleep(pause).await,
        }
    }
}

/// A watch that fires when the leader may have changed.
struct Watched {
    /// The path of the leader's node, which is watched. `None` if there is no leader: the path or its children are watched.
    leader: Option<String>,
    fired: BoxFuture<'static, ()>,
}

type Seen = (Option<Participant>, Option<Watched>);

/// The leader, with a watch that cannot have missed a change since the read, if there is room for one.
async fn read(
    session: &Session,
    client: &Client,
    path: &LockPath,
    family: &Family,
) -> Result<Seen, Failure> {
    loop {
        let listed = match client.list(path.as_str()).await {
            Err(Failure::NoNode) => None,
            listing => Some(listing?.children),
        };
        let read = |node: String| async move {
            let (follower, read) = NodeFollower::of(session, client, &node).await?;
            Ok((node, read, follower))
        };
        let children = listed.as_deref().unwrap_or_default();
        if let Some((leader, mut follower)) = first(children, path, family, read).await? {
            let watched = follower.is_watched().then(|| Watched {
                leader: Some(leader.node.clone()),
                fired: async move {
                    follower.changed(None).await;
                }
                .boxed(),
            });
            return Ok((Some(leader), watched));
        }
        let Some(room) = session.try_reserve_spare_watch(path.as_str()) else {
            return Ok((None, None));
        };
        let exists = listed.is_some();
        let (listing, changed) = list_or_await_create(client, path.as_str(), room, exists).await?;
        let listed = listing.map(|listing| listing.children).unwrap_or_default();
        if !listed.iter().any(|name| family.counts(name)) {
            return Ok((None, Some(Watched { leader: None, fired: changed })));
        }
        // A candidate has come since the first listing.
    }
}

/// Waits until the watch has fired, or may have missed a change.
async fn until_changed(session: &Session, watched: Watched, mut link: LinkWatch) {
    let Watched { leader, mut fired } = watched;
    loop {
        tokio::select! {
            biased;
            () = &mut fired => return,
            // The client may have missed an event while it was disconnected.
            () = link.reconnected() => {
                if !is_still_there(session, leader.as_deref()).await {
                    return;
                }
            }
        }
    }
}

/// Returns true if another read would find the same leader. The check costs no watch.
async fn is_still_there(session: &Session, leader: Option<&str>) -> bool {
    let Some(node) = leader else { return false };
    let Ok(client) = session.client() else { return false };
    matches!(client.exists(node).await, Ok(true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{Change, Node};
    use crate::queue::rules::node_name::ContenderName;
    use crate::recipes::shared::observation::OLDER_READS;

    /// A leader whose node was created by this transaction; by an unknown one, where the node may not be read.
    fn leader(czxid: Option<i64>) -> Participant {
        let change = Change { czxid: czxid.unwrap_or(0), ..Change::default() };
        let node = Node { change, ..Node::default() };
        Participant::new("/l/0".to_owned(), &ContenderName::new(0, "0"), true, node)
    }

    #[test]
    fn an_older_leader_is_told_when_it_stays_one() {
        let mut newest = Newest::new();
        assert!(newest.admits(leader(Some(7)).fencing_token));
        for _ in 0..OLDER_READS {
            assert!(!newest.admits(leader(Some(5)).fencing_token));
        }
        assert!(newest.admits(leader(Some(5)).fencing_token));
        assert!(newest.admits(leader(Some(6)).fencing_token));
    }

    #[test]
    fn a_leader_of_an_unknown_transaction_is_not_taken_for_an_older_one() {
        let mut newest = Newest::new();
        assert!(newest.admits(leader(Some(7)).fencing_token));
        assert!(newest.admits(leader(None).fencing_token));
        assert!(newest.admits(None));
        assert!(!newest.admits(leader(Some(5)).fencing_token), "the last known one counts");
    }
}
