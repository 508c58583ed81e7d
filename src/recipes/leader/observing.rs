//! The task of an observer: looks which candidate leads, and waits until that has changed.
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

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::sleep;

use crate::client::{Client, Failure, LinkState, LinkWatch, Node, NodeWatch};
use crate::error::Error;
use crate::fencing_token::FencingToken;
use crate::lock_path::LockPath;
use crate::metrics::{self, Operation};
use crate::queue::rules::admission::Family;
use crate::recipes::shared::participants::{Participant, first};
use crate::recipes::shared::recipe::Recipe;
use crate::session::epoch::Epoch;
use crate::session::{NoEpoch, Session};

/// What is known of the leader.
#[derive(Clone, Debug)]
pub(super) enum Observed {
    Nothing,
    Leader(Option<Participant>),
    /// It is followed no more.
    Ended(Error),
}

/// What the task works with.
#[derive(Debug)]
pub(super) struct Following {
    session: Arc<Session>,
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
    pub(super) fn new(recipe: &Recipe, family: Family) -> (Self, watch::Receiver<Observed>) {
        let (observed, receiver) = watch::channel(Observed::Nothing);
        let (session, path) = (recipe.curator.session().clone(), recipe.path.clone());
        (Self { session, path, family, observed, newest: Newest::default() }, receiver)
    }
}

/// Follows until no handle is left, or the session is over for good.
pub(super) async fn follow(mut following: Following) {
    let session = following.session.clone();
    let mut old: Option<Arc<Epoch>> = None;
    let error = loop {
        let next = tokio::select! {
            biased;
            () = following.observed.closed() => return,
            next = session.next_epoch(old.as_ref()) => next,
        };
        let epoch = match next {
            Ok(epoch) => epoch,
            Err(NoEpoch::Over(error)) => {
                break error.while_doing(&following.path).at(&following.path);
            }
            Err(NoEpoch::NotNow) => continue,
        };
        let observed = following.observed.clone();
        tokio::select! {
            biased;
            () = observed.closed() => return,
            // The next epoch, if there is one, is asked in its place.
            () = epoch.over().cancelled() => {}
            () = session.closing().cancelled() => {}
            error = following.follow_in(&epoch) => break error,
        }
        old = Some(epoch);
    };
    following.observed.send_replace(Observed::Ended(error));
}

/// What says that it is time to look again.
enum Watched {
    Node(String, NodeWatch),
    Children(Pin<Box<dyn Future<Output = ()> + Send>>),
    /// The path is not there.
    Path(NodeWatch),
}

struct Armed {
    watched: Watched,
    _room: OwnedSemaphorePermit,
}

/// What a look came to.
#[allow(clippy::large_enum_variant)] // it is matched at once
enum Seen {
    Leader(Option<Participant>, Option<Armed>),
    /// It changed meanwhile.
    Again,
}

impl Following {
    /// In one session, to its end; or until the servers refuse.
    async fn follow_in(&mut self, epoch: &Epoch) -> Error {
        // As often as a lease is renewed.
        let pause = epoch.timeout() / 6;
        let mut fresh = false;
        self.newest.older = 0;
        loop {
            let look = async {
                let client = epoch.client()?;
                if !fresh {
                    client.sync().await?;
                }
                Ok((client.watch_link(), self.look(epoch, &client).await?))
            };
            let (link, seen) = match look.await {
                Ok(seen) => seen,
                Err(failure @ Failure::Refused(_)) => {
                    return failure.into_error(self.path.as_str(), "read");
                }
                Err(failure) => {
                    tracing::debug!(path = %self.path, ?failure, "looks again");
                    metrics::retried(Operation::Follow);
                    sleep(pause).await;
                    continue;
                }
            };
            fresh = true;
            match seen {
                Seen::Again => {}
                Seen::Leader(leader, armed) => {
                    if self.tell(leader) {
                        until_changed(epoch, armed, link, pause).await;
                    } else {
                        // The server lags.
                        fresh = false;
                        sleep(pause).await;
                    }
                }
            }
        }
    }

    async fn look(&self, epoch: &Epoch, client: &Client) -> Result<Seen, Failure> {
        let path = self.path.as_str();
        let listing = match client.list(path).await {
            Err(Failure::NoNode) => return self.look_for_path(epoch, client).await,
            listing => listing?,
        };
        let read = |node: String| async move {
            let (read, armed) = read(epoch, client, &node).await?;
            Ok((node, read, armed))
        };
        let leader = first(&listing.children, &self.path, &self.family, read).await?;
        if let Some((leader, armed)) = leader {
            return Ok(Seen::Leader(Some(leader), armed));
        }
        let Some(room) = epoch.spare_room(path) else { return Ok(Seen::Leader(None, None)) };
        let (listing, watch) = match client.list_and_watch(path).await {
            Err(Failure::NoNode) => return Ok(Seen::Again),
            listed => listed?,
        };
        if listing.children.iter().any(|name| self.family.counts(name)) {
            return Ok(Seen::Again);
        }
        let watched = Watched::Children(Box::pin(watch.fired()));
        Ok(Seen::Leader(None, Some(Armed { watched, _room: room })))
    }

    async fn look_for_path(&self, epoch: &Epoch, client: &Client) -> Result<Seen, Failure> {
        let path = self.path.as_str();
        let Some(room) = epoch.spare_room(path) else { return Ok(Seen::Leader(None, None)) };
        match client.look_and_watch(path).await? {
            (Some(_), _) => Ok(Seen::Again),
            (None, watch) => {
                Ok(Seen::Leader(None, Some(Armed { watched: Watched::Path(watch), _room: room })))
            }
        }
    }

    /// Reports the leader, if it has changed; `false` if it is older than the one that was reported.
    fn tell(&mut self, mut leader: Option<Participant>) -> bool {
        if !self.newest.admits(leader.as_ref()) {
            return false;
        }
        self.observed.send_if_modified(|observed| {
            if let (Some(leader), Observed::Leader(Some(told))) = (&mut leader, &observed) {
                leader.keep_identity_of(told);
            }
            let news = !matches!(observed, Observed::Leader(told) if *told == leader);
            if news {
                *observed = Observed::Leader(leader);
            }
            news
        });
        true
    }
}

/// Reads a leader's node, and watches it if there is room.
async fn read(
    epoch: &Epoch,
    client: &Client,
    node: &str,
) -> Result<(Node, Option<Armed>), Failure> {
    let Some(room) = epoch.spare_room(node) else {
        // That it may not be read says nothing of the path.
        let read = client.read(node).await.map_err(|failure| match failure {
            Failure::Refused(error) => Failure::NotNow(error),
            failure => failure,
        });
        return Ok((read?, None));
    };
    let (read, watch) = match client.read_and_watch(node).await {
        // Without its name, and without a watch: a server that hides a node need not tell of its end.
        Err(Failure::Refused(_)) => {
            let seen = client.look(node).await?.ok_or(Failure::NoNode)?;
            return Ok((seen, None));
        }
        read => read?,
    };
    let watched = Watched::Node(node.to_owned(), watch);
    Ok((read, Some(Armed { watched, _room: room })))
}

/// Waits until the watch has fired, if there is one, or for a while.
async fn until_changed(epoch: &Epoch, armed: Option<Armed>, mut link: LinkWatch, pause: Duration) {
    let Some(Armed { mut watched, _room }) = armed else { return sleep(pause).await };
    loop {
        tokio::select! {
            biased;
            () = watched.fired() => return,
            state = link.changed() => {
                // The client may have missed what the servers said meanwhile.
                if state == LinkState::Connected && !watched.lasts(epoch).await {
                    return;
                }
            }
        }
    }
}

impl Watched {
    async fn fired(&mut self) {
        match self {
            Self::Node(_, watch) | Self::Path(watch) => drop(watch.await),
            Self::Children(changed) => changed.await,
        }
    }

    /// Whether it is known that a look would see the same; by a read that costs no watch.
    async fn lasts(&mut self, epoch: &Epoch) -> bool {
        let Self::Node(node, _) = self else { return false };
        let Ok(client) = epoch.client() else { return false };
        matches!(client.exists(node).await, Ok(true))
    }
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
