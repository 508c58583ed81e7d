//! [`GroupObserver`]: reports the members of a group.
//!
//! A task lists the group with a watch, and reads the members that it does not know, each with a watch on its data. A watch that
//! fires costs one request: a listing, or the read of one member.
//!
//! *Each report is one moment.* A report is made when all requests are answered and no watch has fired since. The server sends an event
//! before each answer that follows the change, so at the last answer the server had these members with these data. If something
//! changes in each of [`ROUNDS`] rounds of requests, the last round is reported: the data are then of different moments. A member of
//! the listing that cannot be read, because it has left, is such a change.
//!
//! *Never back.* The servers never show a session an older state than it has seen, and a new session begins with a `sync`. The
//! listing has the number of changes of the group since its znode was created. A listing with a smaller number is not reported, and
//! the group is listed again behind another `sync`, until a session timeout later: then the servers have lost data.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::pending;
use std::ops::Deref;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{self, FuturesUnordered, Stream, StreamExt};
use tokio::task::unconstrained;
use tokio::time::{Instant, sleep_until};

use crate::client::{Client, Failure, LinkWatch, Listing, Node, NodeEvent};
use crate::curator::Curator;
use crate::error::Error;
use crate::fencing_token::FencingToken;
use crate::lock_path::{LockPath, unescape_segment};
use crate::recipes::shared::observation::{Feed, Look, Newest, Observation, follow};
use crate::recipes::shared::recipe::Recipe;
use crate::session::Session;
use crate::session::follower::{NodeFollower, list_or_await_create};

/// Reports the members of a group, without being one.
///
/// * **Whole**: each report has all members, in the order of their ids. Changes that come together are one report.
/// * **Never back**: no older members are reported after newer ones, even if the connected server lags or a new session began. If the
///   servers lost data, the members are reported a session timeout later.
/// * **As the servers know it**: a member that was killed is reported until its session expires. Without a connection, the last
///   members stay. A [`Membership`](super::Membership) tells a member itself in time.
/// * **Cheap**: a member that joins costs each observer a listing and a read, one that leaves a listing, and one whose data change a
///   read. Each member takes a watch of the session, as far as half of the session's room for watches allows, which is enough
///   for some 800 members with paths of 60 bytes. The other members are read in turn, 64 in each sixth of a session timeout.
///
/// Children of the group that are not ephemeral are no members. A task of the session follows the group, over reconnects and
/// sessions, until the last handle is dropped. A slow observer may skip reports.
///
/// An observer is a [`Stream`] of [`Members`], which ends where [`changed`](Self::changed) fails.
///
/// ```no_run
/// # use zookeeper_recipes::{Curator, Error};
/// # async fn example(curator: Curator) -> Result<(), Error> {
/// let mut observer = curator.observe_group("/groups/billing")?;
/// loop {
///     let members = observer.changed().await?;
///     println!("{} members: {:?}", members.len(), members.ids().collect::<Vec<_>>());
/// }
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a stream does nothing until it is polled"]
pub struct GroupObserver {
    /// The curator in the recipe keeps the session open.
    recipe: Recipe,
    members: Observation<Members>,
}

/// The members of a group at one time, in the order of their ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members(Arc<[Member]>);

/// A member of a group. If its znode may not be read, the fields that only the znode shows are `None` or empty.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Member {
    /// The id, as it was given to [`Curator::group_member`].
    pub id: String,
    /// The path of the member's znode, under the namespace.
    pub node: String,
    /// The data of the member.
    pub data: Vec<u8>,
    /// The ZooKeeper session that owns the znode.
    pub session_id: Option<i64>,
    /// The time at which the znode was created, by the clock of the servers.
    pub since: Option<SystemTime>,
    /// The token of the member's [`Hold`](crate::Hold). It grows each time that the id joins.
    pub fencing_token: Option<FencingToken>,
}

impl Curator {
    /// Follows the members of the group at `path`, of this crate or of Apache Curator's `GroupMember`.
    ///
    /// # Errors
    ///
    /// As for [`mutex`](Self::mutex).
    pub fn observe_group(&self, path: impl AsRef<str>) -> Result<GroupObserver, Error> {
        let recipe = Recipe::uncounted(self, path.as_ref())?;
        let feed = Feed::new(&recipe.path, None);
        let members = feed.observe();
        let task = ObserverTask { newest: Newest::new(), picture: Picture::default() };
        follow(feed, self.connection(), task);
        Ok(GroupObserver { recipe, members })
    }
}

impl GroupObserver {
    /// Returns the path, under the namespace.
    pub fn path(&self) -> &str {
        self.recipe.path.as_str()
    }

    /// Returns the members that were reported last; `None` before the first report and after the end.
    #[doc(alias = "getCurrentMembers")]
    pub fn members(&self) -> Option<Members> {
        self.members.last()
    }

    /// Waits until the members have changed; the first time, until they are known.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future misses no change.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::PermissionDenied`](crate::ErrorKind::PermissionDenied), [`ErrorKind::Refused`](crate::ErrorKind::Refused):
    /// the group may not be listed; [`ErrorKind::Closed`](crate::ErrorKind::Closed),
    /// [`ErrorKind::AuthenticationFailed`](crate::ErrorKind::AuthenticationFailed): no further session will be opened.
    pub async fn changed(&mut self) -> Result<Members, Error> {
        self.members.changed().await
    }
}

impl Stream for GroupObserver {
    type Item = Members;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Members>> {
        self.members.poll_next(context)
    }
}

impl fmt::Debug for GroupObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupObserver")
            .field("path", &self.path())
            .field("members", &self.members())
            .finish_non_exhaustive()
    }
}

impl Members {
    /// Returns the member with this id.
    pub fn get(&self, id: &str) -> Option<&Member> {
        self.iter().find(|member| member.id == id)
    }

    /// Returns the ids.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|member| member.id.as_str())
    }
}

impl Deref for Members {
    type Target = [Member];

    fn deref(&self) -> &[Member] {
        &self.0
    }
}

impl Member {
    fn new(path: &LockPath, name: &str, node: &Node) -> Self {
        Self {
            id: unescape_segment(name),
            node: path.child(name),
            data: node.data.clone(),
            session_id: node.session_id(),
            since: node.since(),
            fencing_token: node.fencing_token(),
        }
    }
}

/// The task that follows the members.
struct ObserverTask {
    /// The [age] of the newest listing.
    newest: Newest<(i64, i32)>,
    picture: Picture,
}

/// The number of reads in flight.
const AT_ONCE: usize = 64;

/// After this many rounds of requests, members that change again and again are reported as they were read last.
const ROUNDS: u32 = 16;

/// A member's znode, as it was read last.
struct Known {
    node: Node,
    is_watched: bool,
}

/// A watch, which resolves with the name of its member.
type Watching = BoxFuture<'static, (String, Option<NodeEvent>)>;

/// The state of the task in one session.
#[derive(Default)]
struct Picture {
    members: BTreeMap<String, Known>,
    /// The names that have to be read.
    unread: BTreeSet<String>,
    watching: FuturesUnordered<Watching>,
    /// Resolves when the group has to be listed again. `None` if it has to be listed now, or at the next turn without a watch.
    listed: Option<BoxFuture<'static, ()>>,
    /// False if the session has no room for a watch on the group.
    has_watch: bool,
    /// The member without a watch that was read last in its turn.
    turn: String,
    /// The time of the last turn.
    polled: Option<Instant>,
}

impl Look<Members> for ObserverTask {
    fn begin_session(&mut self) {
        self.newest.begin_session();
        self.picture = Picture::default();
    }

    /// Lists and reads what is not known.
    async fn look(
        &mut self,
        session: &Session,
        client: &Client,
        feed: &Feed<Members>,
    ) -> Result<bool, Failure> {
        let Self { newest, picture } = self;
        let mut rounds = 0;
        loop {
            rounds += 1;
            if picture.listed.is_none() {
                let listing = picture.list(session, client, &feed.path).await?;
                if !newest.admits(listing.as_ref().map(age)) {
                    picture.listed = None;
                    return Ok(false);
                }
            }
            let read = picture.read(session, client, &feed.path).await;
            // After a failure the client may reconnect before the next look, and has missed an event.
            let all_exist = read.inspect_err(|_| picture.listed = None)?;
            picture.take_events();
            if !all_exist {
                // A member has left since the listing.
                picture.listed = None;
            }
            if rounds >= ROUNDS || all_exist && !picture.has_news() {
                feed.report(picture.members(&feed.path));
                return Ok(true);
            }
        }
    }

    async fn changed(&mut self, _: &Session, link: LinkWatch, pause: Duration) {
        self.picture.changed(link, pause).await;
    }
}

impl Picture {
    fn members(&self, path: &LockPath) -> Members {
        let is_member = |known: &Known| known.node.owner != 0 || known.node.change.czxid == 0;
        let known = self.members.iter().filter(|(_, known)| is_member(known));
        let members = known.map(|(name, known)| Member::new(path, name, &known.node));
        let mut members: Vec<_> = members.collect();
        // Escaped ids have another order than their names.
        members.sort_by(|one, other| one.id.cmp(&other.id));
        Members(members.into())
    }

    /// Lists the group, with a watch if there is room for one. `None` if the group does not exist.
    async fn list(
        &mut self,
        session: &Session,
        client: &Client,
        path: &LockPath,
    ) -> Result<Option<Listing>, Failure> {
        let room = session.try_reserve_spare_watch(path.as_str());
        self.has_watch = room.is_some();
        let listing = match room {
            Some(room) => {
                let (listing, changed) =
                    list_or_await_create(client, path.as_str(), room, true).await?;
                self.listed = Some(changed);
                listing
            }
            None => match client.list(path.as_str()).await {
                Err(Failure::NoNode) => None,
                listing => Some(listing?),
            },
        };
        // The events of changes that the listing has came before its answer.
        self.take_events();
        let names: BTreeSet<_> = listing.iter().flat_map(|listing| &listing.children).collect();
        self.members.retain(|name, _| names.contains(name));
        self.unread.retain(|name| names.contains(name));
        let new = names.into_iter().filter(|name| !self.members.contains_key(*name));
        self.unread.extend(new.cloned());
        Ok(listing)
    }

    /// Reads what has to be read. Returns false if one of these znodes does not exist.
    async fn read(
        &mut self,
        session: &Session,
        client: &Client,
        path: &LockPath,
    ) -> Result<bool, Failure> {
        let names = self.unread.iter().cloned();
        let reads = names.map(|name| async move {
            let read = read(session, client, path, &name).await;
            (name, read)
        });
        let mut reads = stream::iter(reads).buffer_unordered(AT_ONCE);
        let mut all_exist = true;
        let mut answered = BTreeSet::new();
        let mut failed = None;
        while let Some((name, read)) = reads.next().await {
            match read {
                Ok((node, watch)) => {
                    let is_watched = watch.is_some();
                    self.watching.extend(watch);
                    self.members.insert(name.clone(), Known { node, is_watched });
                }
                Err(Failure::NoNode) => {
                    self.members.remove(&name);
                    all_exist = false;
                }
                Err(failure) => {
                    failed = Some(failure);
                    continue;
                }
            }
            answered.insert(name);
        }
        drop(reads);
        self.unread.retain(|name| !answered.contains(name));
        failed.map_or(Ok(all_exist), Err)
    }

    /// Waits until something has to be listed or read.
    async fn changed(&mut self, mut link: LinkWatch, pause: Duration) {
        let is_polled = self.listed.is_none() || self.members.values().any(|one| !one.is_watched);
        // Not from now on: changes that come again and again would put it off.
        let last = *self.polled.get_or_insert_with(Instant::now);
        let mut polled = pin!(sleep_until(last + pause));
        if self.has_news() {
            return;
        }
        let mut reconnected = pin!(link.reconnected());
        loop {
            let listed = async {
                match &mut self.listed {
                    Some(listed) => listed.await,
                    None => pending().await,
                }
            };
            tokio::select! {
                biased;
                () = listed => self.listed = None,
                Some((name, event)) = self.watching.next() => self.has_changed(name, event),
                // The client may have missed an event while it was disconnected.
                () = &mut reconnected => self.listed = None,
                () = &mut polled, if is_polled => self.unread_in_turn(),
            }
            self.take_events();
            // The watch on the group fires as well when a member leaves.
            if self.listed.is_none() || !self.unread.is_empty() {
                return;
            }
        }
    }

    /// Returns true if a watch has fired since the last request.
    fn has_news(&self) -> bool {
        !self.unread.is_empty() || self.listed.is_none() && self.has_watch
    }

    /// Takes the events that have come, so that changes that came together are one report.
    fn take_events(&mut self) {
        if self.listed.as_mut().is_some_and(|listed| listed.now_or_never().is_some()) {
            self.listed = None;
        }
        // Without a budget, which would hide events.
        while let Some(Some((name, event))) = unconstrained(self.watching.next()).now_or_never() {
            self.has_changed(name, event);
        }
    }

    fn has_changed(&mut self, name: String, event: Option<NodeEvent>) {
        if event == Some(NodeEvent::Deleted) {
            self.members.remove(&name);
        } else if self.members.contains_key(&name) {
            self.unread.insert(name);
        }
    }

    /// Has the next members without a watch read again.
    fn unread_in_turn(&mut self) {
        let is_unwatched =
            |(name, known): (&String, &Known)| (!known.is_watched).then(|| name.clone());
        let later = self.members.range(self.turn.clone()..).filter_map(is_unwatched);
        let next: Vec<_> = later.skip_while(|name| *name == self.turn).take(AT_ONCE).collect();
        self.polled = Some(Instant::now());
        self.turn = next.last().cloned().unwrap_or_default();
        self.unread.extend(next);
    }
}

/// Reads a member's znode, with a watch if there is room for one.
async fn read(
    session: &Session,
    client: &Client,
    path: &LockPath,
    name: &str,
) -> Result<(Node, Option<Watching>), Failure> {
    let (mut follower, node) = NodeFollower::of(session, client, &path.child(name)).await?;
    let name = name.to_owned();
    let is_watched = follower.is_watched();
    let fired = async move { (name, follower.changed(None).await) };
    Ok((node, is_watched.then(|| fired.boxed())))
}

/// The transaction that created the group's znode, and the number of changes of its children.
fn age(listing: &Listing) -> (i64, i32) {
    (listing.czxid, listing.cversion)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipes::shared::observation::OLDER_READS;

    fn listing(czxid: i64, cversion: i32) -> Listing {
        Listing { children: Vec::new(), czxid, cversion, num_children: 0 }
    }

    #[test]
    fn an_older_listing_is_reported_when_it_stays_the_last_one() {
        let mut newest = Newest::new();
        assert!(newest.admits(Some(age(&listing(7, 3)))));
        assert!(newest.admits(None), "the group was deleted");
        for _ in 0..OLDER_READS {
            assert!(!newest.admits(Some(age(&listing(7, 2)))));
        }
        assert!(newest.admits(Some(age(&listing(7, 2)))));
        assert!(newest.admits(Some(age(&listing(8, 0)))), "the group was created again");
    }
}
