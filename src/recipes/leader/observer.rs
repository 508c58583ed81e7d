//! [`LeaderObserver`]: the leader, in whatever process.
//!
//! A task looks which candidate leads, and waits until that has changed.
//!
//! It watches the node of the first candidate. While that is there, no other candidate leads, because later ones get larger
//! numbers. Candidates behind it are watched by their own successors. While there is no candidate, it watches the
//! children of the path; while that is missing, whether it is made.
//!
//! *Never an older leader after a newer one.* Leaders follow each other in the order of the transactions that created
//! their nodes. A session is never shown an older state by the servers than it has seen; a new one begins with a `sync`, so
//! that this does not rest on how servers begin sessions. If a leader is older than the last one all the same, it is not
//! reported, and looked for again, each time behind a `sync`. If it is still the leader after a session timeout, the servers
//! have lost data, or the node was put before others by hand: then it is reported. A leader whose node may not be read has no
//! known transaction on newer servers (3.9.5). It is reported at once, and the next leader is compared with the one before it.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, Stream};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::client::{Client, Failure, LinkState, LinkWatch, Node, WatchPermit};
use crate::curator::Curator;
use crate::error::Error;
use crate::fencing_token::FencingToken;
use crate::lock_path::LockPath;
use crate::metrics::{self, Operation};
use crate::queue::rules::admission::Family;
use crate::recipes::shared::participants::{Participant, first};
use crate::recipes::shared::recipe::Recipe;
use crate::recipes::shared::waiting::Waiting;
use crate::session::Session;
use crate::session::{Connection, NoSession};

/// Reports the current leader without being a candidate.
///
/// * **No leader** is an answer: `None` while there is no candidate.
/// * **Never back**: after a leader, no older one is reported, even if the connected server lags or a new session began: each
///   leader's [token](Participant::fencing_token) is larger than those before. If the servers lost data, so that the
///   new leader has a smaller token, it is reported a session timeout later.
/// * **As the servers know it**: the first candidate. That process may not know yet that it is leader, or may already have
///   lost its lease. If two leaders must never act together, compare fencing tokens.
/// * **A node that may not be read** still tells that there is a leader, without its identity, unless this session has no
///   room for another watch.
/// * **Cheap**: a watch on the leader's node, and two reads when that goes. While there is no leader, a watch on the path.
///   It watches no other candidate.
///
/// A task of the session follows the leader, over reconnects and sessions, until the last handle is dropped. A slow observer
/// may skip leaders.
///
/// It is a [`Stream`] of leaders, which ends where [`changed`](Self::changed) fails.
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
    /// Its curator keeps the session open.
    recipe: Recipe,
    observed: watch::Receiver<Observed>,
    waiting: Waiting<watch::Receiver<Observed>, Result<Option<Participant>, Error>>,
}

impl Curator {
    /// Follows the leader at `path`, of latches or of selectors, in whatever process; also a mutex's holder. The nodes' names say
    /// which recipe it is. If both are on one path, the first contender of all counts. For a selector with a filter, see
    /// [`LeaderSelector::observe`](crate::leader::LeaderSelector::observe).
    ///
    /// # Errors
    ///
    /// As for [`mutex`](Self::mutex).
    pub fn observe_leader(&self, path: impl AsRef<str>) -> Result<LeaderObserver, Error> {
        let recipe = Recipe::new(self, path.as_ref(), metrics::Recipe::LEADER_LATCH)?;
        Ok(LeaderObserver::new(recipe, Family::Leaders))
    }
}

impl LeaderObserver {
    pub(super) fn new(recipe: Recipe, family: Family) -> Self {
        let (sender, observed) = watch::channel(Observed::Nothing);
        let (connection, path) = (recipe.curator.connection().clone(), recipe.path.clone());
        let newest = Newest::default();
        let following = Following { connection, path, family, observed: sender, newest };
        recipe.curator.connection().spawn(following.follow());
        Self { recipe, observed, waiting: Waiting::new() }
    }

    /// The path, under the namespace.
    pub fn path(&self) -> &str {
        self.recipe.path.as_str()
    }

    /// The leader, as far as it is known; `None` also while nothing is known, and after the end.
    pub fn leader(&self) -> Option<Participant> {
        match &*self.observed.borrow() {
            Observed::Leader(leader) => leader.clone(),
            Observed::Nothing | Observed::Ended(_) => None,
        }
    }

    /// Waits until the leader has changed; the first time, until it is known.
    ///
    /// # Cancel safety
    ///
    /// Nothing is missed by dropping the future.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::PermissionDenied`](crate::ErrorKind::PermissionDenied), [`ErrorKind::Refused`](crate::ErrorKind::Refused):
    /// the path may not be read; [`ErrorKind::Closed`](crate::ErrorKind::Closed): the [`Curator`] is closed.
    pub async fn changed(&mut self) -> Result<Option<Participant>, Error> {
        self.waiting.forget();
        next(&mut self.observed).await.map_err(|error| error.at(&self.recipe.path))
    }
}

async fn next(observed: &mut watch::Receiver<Observed>) -> Result<Option<Participant>, Error> {
    loop {
        // The end is reported each time.
        if let Observed::Ended(error) = &*observed.borrow() {
            return Err(error.clone());
        }
        if observed.changed().await.is_err() {
            return Err(Error::closed());
        }
        if let Observed::Leader(leader) = &*observed.borrow_and_update() {
            return Ok(leader.clone());
        }
    }
}

/// It starts from what its origin has reported.
impl Clone for LeaderObserver {
    fn clone(&self) -> Self {
        let (recipe, observed) = (self.recipe.clone(), self.observed.clone());
        Self { recipe, observed, waiting: Waiting::new() }
    }
}

impl Stream for LeaderObserver {
    type Item = Option<Participant>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Self { observed, waiting, .. } = &mut *self;
        let told = ready!(waiting.poll(observed, context, |mut observed| async move {
            let told = next(&mut observed).await;
            (observed, told)
        }));
        Poll::Ready(told.ok())
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

/// What is known of the leader.
#[derive(Clone, Debug)]
enum Observed {
    Nothing,
    Leader(Option<Participant>),
    /// No task follows the leader any more.
    Ended(Error),
}

/// What the task works with.
#[derive(Debug)]
struct Following {
    connection: Arc<Connection>,
    path: LockPath,
    family: Family,
    observed: watch::Sender<Observed>,
    newest: Newest,
}

/// The newest leader that was reported.
#[derive(Debug, Default)]
struct Newest {
    /// By the transaction that created its node.
    token: Option<FencingToken>,
    /// How many looks in a row saw an older leader.
    older: u32,
}

/// How many of those it takes to be believed, each a sixth of a session timeout after the last.
const OLDER_LOOKS: u32 = 6;

impl Newest {
    /// Whether a leader, or that there is none, is to be reported now.
    fn admits(&mut self, leader: Option<&Participant>) -> bool {
        let token = leader.and_then(|leader| leader.fencing_token).or(self.token);
        if token < self.token && self.older < OLDER_LOOKS {
            self.older += 1;
            return false;
        }
        *self = Self { token, older: 0 };
        true
    }
}

impl Following {
    /// Follows until no handle is left, or the session is over for good.
    async fn follow(mut self) {
        let observed = self.observed.clone();
        tokio::select! {
            biased;
            () = observed.closed() => {}
            error = self.follow_sessions() => {
                observed.send_replace(Observed::Ended(error));
            }
        }
    }

    /// In one session after another, until there is no next one or the servers refuse.
    async fn follow_sessions(&mut self) -> Error {
        let connection = self.connection.clone();
        let mut old: Option<Arc<Session>> = None;
        loop {
            let session = match connection.next_session(old.as_ref()).await {
                Ok(session) => session,
                Err(NoSession::Closed(error)) => {
                    return error.while_doing(&self.path).at(&self.path);
                }
                Err(NoSession::NotConnected) => continue,
            };
            tokio::select! {
                biased;
                // The next session, if there is one, is asked in its place.
                () = session.ended().cancelled() => {}
                () = connection.closing().cancelled() => {}
                error = self.follow_in(&session) => return error,
            }
            old = Some(session);
        }
    }

    /// In one session, to its end; or until the servers refuse.
    async fn follow_in(&mut self, session: &Session) -> Error {
        // As often as a lease is renewed.
        let pause = session.timeout() / 6;
        let mut fresh = false;
        self.newest.older = 0;
        loop {
            let look = async {
                let client = session.client()?;
                if !fresh {
                    client.sync().await?;
                }
                Ok((client.watch_link(), self.look(session, &client).await?))
            };
            match look.await {
                Ok((link, (leader, watched))) => {
                    // A server that shows an older leader lags.
                    fresh = self.report(leader);
                    match watched {
                        Some(watched) if fresh => until_changed(session, watched, link).await,
                        _ => sleep(pause).await,
                    }
                }
                Err(failure @ Failure::Refused(_)) => {
                    return failure.into_error(self.path.as_str(), "read");
                }
                Err(failure) => {
                    tracing::debug!(path = %self.path, ?failure, "looks again");
                    metrics::retried(Operation::FOLLOW);
                    sleep(pause).await;
                }
            }
        }
    }

    /// The leader, and a watch from before it was read, if there is room for one.
    async fn look(&self, session: &Session, client: &Client) -> Result<Seen, Failure> {
        let path = self.path.as_str();
        loop {
            let listed = match client.list(path).await {
                Err(Failure::NoNode) => None,
                listing => Some(listing?.children),
            };
            let read = |node: String| async move {
                let (read, watched) = read(session, client, &node).await?;
                Ok((node, read, watched))
            };
            let children = listed.as_deref().unwrap_or_default();
            if let Some((leader, watched)) = first(children, &self.path, &self.family, read).await?
            {
                return Ok((Some(leader), watched));
            }
            let Some(room) = session.try_reserve_spare_watch(path) else { return Ok((None, None)) };
            // If the watch was set too late, it is taken back, and the path is listed again.
            let changed = if listed.is_none() {
                match client.look_and_watch(path).await? {
                    (Some(_), _) => continue,
                    (None, watch) => watch.map(drop).boxed(),
                }
            } else {
                match client.list_and_watch(path).await {
                    Err(Failure::NoNode) => continue,
                    Err(failure) => return Err(failure),
                    Ok((listing, _))
                        if listing.children.iter().any(|name| self.family.counts(name)) =>
                    {
                        continue;
                    }
                    Ok((_, watch)) => watch.fired().boxed(),
                }
            };
            return Ok((None, Some(Watched { changed, leader: None, _room: room })));
        }
    }

    /// Reports the leader, if it has changed; `false` if it is older than the one that was reported.
    fn report(&mut self, mut leader: Option<Participant>) -> bool {
        if !self.newest.admits(leader.as_ref()) {
            return false;
        }
        self.observed.send_if_modified(|observed| {
            if let (Some(leader), Observed::Leader(Some(reported))) = (&mut leader, &observed) {
                leader.keep_identity_of(reported);
            }
            let news = !matches!(observed, Observed::Leader(reported) if *reported == leader);
            if news {
                *observed = Observed::Leader(leader);
            }
            news
        });
        true
    }
}

/// A watch that tells when to look again.
struct Watched {
    changed: BoxFuture<'static, ()>,
    /// The leader's node, if the watch is on that.
    leader: Option<String>,
    _room: WatchPermit,
}

type Seen = (Option<Participant>, Option<Watched>);

/// Reads a leader's node, and watches it if there is room.
async fn read(
    session: &Session,
    client: &Client,
    node: &str,
) -> Result<(Node, Option<Watched>), Failure> {
    let Some(room) = session.try_reserve_spare_watch(node) else {
        // That it may not be read says nothing of the path.
        let read = client.read(node).await.map_err(|failure| match failure {
            Failure::Refused(error) => Failure::NotNow(error),
            failure => failure,
        });
        return Ok((read?, None));
    };
    match client.read_and_watch(node).await {
        // Without its name, and without a watch: a server that hides a node need not tell of its end.
        Err(Failure::Refused(_)) => {
            let seen = client.look(node).await?.ok_or(Failure::NoNode)?;
            Ok((seen, None))
        }
        read => {
            let (read, watch) = read?;
            let (changed, leader) = (watch.map(drop).boxed(), Some(node.to_owned()));
            Ok((read, Some(Watched { changed, leader, _room: room })))
        }
    }
}

/// Waits until the watch has fired, or may have missed a change.
async fn until_changed(session: &Session, mut watched: Watched, mut link: LinkWatch) {
    loop {
        tokio::select! {
            biased;
            () = &mut watched.changed => return,
            state = link.changed() => {
                // The client may have missed what the servers said meanwhile.
                if state == LinkState::Connected && !is_there(session, watched.leader.as_deref()).await {
                    return;
                }
            }
        }
    }
}

/// Whether a look would see the same leader, by a read that costs no watch.
async fn is_there(session: &Session, leader: Option<&str>) -> bool {
    let (Some(node), Ok(client)) = (leader, session.client()) else { return false };
    matches!(client.exists(node).await, Ok(true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Change;
    use crate::queue::rules::node_name::ContenderName;

    /// A leader whose node was created by this transaction; by an unknown one, where the node may not be read.
    fn leader(czxid: Option<i64>) -> Participant {
        let change = Change { czxid: czxid.unwrap_or(0), ..Change::default() };
        let node = Node { change, ..Node::default() };
        Participant::new("/l/0".to_owned(), &ContenderName::new(0, "0"), true, node)
    }

    #[test]
    fn an_older_leader_is_told_when_it_stays_one() {
        let mut newest = Newest::default();
        assert!(newest.admits(Some(&leader(Some(7)))));
        for _ in 0..OLDER_LOOKS {
            assert!(!newest.admits(Some(&leader(Some(5)))));
        }
        assert!(newest.admits(Some(&leader(Some(5)))));
        assert!(newest.admits(Some(&leader(Some(6)))));
    }

    #[test]
    fn a_leader_of_an_unknown_transaction_is_not_taken_for_an_older_one() {
        let mut newest = Newest::default();
        assert!(newest.admits(Some(&leader(Some(7)))));
        assert!(newest.admits(Some(&leader(None))));
        assert!(newest.admits(None));
        assert!(!newest.admits(Some(&leader(Some(5)))), "the last known one counts");
    }
}
