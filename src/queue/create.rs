//! The protected create.
//!
//! The create and the first listing are sent together: ZooKeeper answers the requests of one session in order, so the listing
//! contains our own znode. The listing counts only if that create was answered with Ok. When the [gap rule](super::rules::gap)
//! can judge the answer, no listing is sent; when it lacks a baseline, a watch on the parent is sent between the two.
//!
//! Each create has a GUID of its own. An unknown outcome is resolved behind a barrier (see
//! [`cleanup`](crate::session::cleanup)): a znode is adopted only if this very session owns it (invariant 2; the check whose
//! absence is CURATOR-604).

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Waker};

use futures_util::future::{BoxFuture, FutureExt, maybe_done};
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use super::hold::HoldState;
use super::leaving::Leaving;
use super::node::{OwnedNode, Room, Znode};
use super::path_nodes::{CreateWith, PathNodes};
use super::request::{EntryAborted, Request};
use super::retries::Callers;
use super::session_nodes::SessionNodes;
use crate::client::{
    ChildrenWatch, Client, CreateMode, Created, Failure, LinkWatch, Listing, Node, PARENTS_AT_ONCE,
    WatchPermit, Write, WriteFailure,
};
use crate::clock::BootInstant;
use crate::error::{Error, ErrorKind};
use crate::metrics::{self, Operation};
use crate::queue::rules::admission::Position;
use crate::queue::rules::node_name::{is_safe_sequence, last_number, protected_prefix, retainable};
use crate::random;
use crate::session::Session;
use crate::session::cleanup::{CleanupTask, clean_up, find, run_once};

/// The place of a new znode in the queue, as far as it is known.
#[derive(Debug)]
pub(super) enum Placement {
    /// The gap rule tells the position.
    Position(Position),
    /// The listing that was sent behind the create; with a watch on the children, if one was asked for.
    Listing(Listing, Option<ChildrenWatch>),
    Unknown,
}

/// The answers to a create and to the requests that were sent with it.
struct Answered {
    created: Result<Created, Failure>,
    placement: Placement,
}

/// A create that was sent. If it is dropped before it is answered, a task searches for the znode.
pub(super) struct Creating {
    pub(super) nodes: Arc<SessionNodes>,
    path_nodes: Arc<PathNodes>,
    pub(super) request: Arc<Request>,
    /// The name up to the sequence number, GUID included.
    prefix: String,
    /// The connection as it was before the create was sent.
    link: Option<LinkWatch>,
    answer: BoxFuture<'static, Answered>,
    /// While nobody has the answer, the znode may exist without a task that wants it.
    leaving: Option<Leaving>,
    /// Taken by the znode.
    room: Option<Room>,
}

/// Reserves room for a znode in the session. `owner` counts the znode.
pub(super) fn reserve(
    nodes: &SessionNodes,
    request: &Request,
    owner: &TaskTracker,
) -> Result<Room, Error> {
    let path = &request.path;
    let slash_and_name = 1 + request.kind.name_bytes();
    let bytes = nodes.connection.absolute(path).as_str().len() + slash_and_name;
    let reservation = nodes.connection.reserve(&nodes.session, path, bytes)?;
    Ok(Room::new(reservation, owner.token()))
}

/// Sends a create, and the requests that belong to it. With `watch_children`, these include a listing with a watch on the children.
pub(super) fn send(
    nodes: &Arc<SessionNodes>,
    client: Client,
    request: &Arc<Request>,
    room: Room,
    watch_children: Option<WatchPermit>,
) -> Creating {
    let path_nodes = nodes.at(&request.path, &request.family);
    let leaving = path_nodes.count_leaving();
    let link = client.watch_link();
    let mut guid = random::guid();
    if !request.waiter.retention.is_zero() {
        guid = retainable(guid);
    }
    let mut prefix = protected_prefix(guid, request.kind);
    let answer = match &request.companion {
        Some(write) => {
            // A downgraded read has the number of its writer, so this is the whole name.
            prefix.push_str(write.znode().digits());
            send_companion(client, request.clone(), prefix.clone(), write)
        }
        None => {
            let session = nodes.session.clone();
            let path_nodes = path_nodes.clone();
            let request = request.clone();
            let prefix = prefix.clone();
            sent_now(create(session, client, path_nodes, request, prefix, watch_children))
        }
    };
    Creating {
        nodes: nodes.clone(),
        path_nodes,
        request: request.clone(),
        prefix,
        link: Some(link),
        answer,
        leaving: Some(leaving),
        room: Some(room),
    }
}

/// Polls `requests` once, which sends them: they are sent in the order in which this function is called. The futures of the
/// client borrow it, so a plain function could not return them.
fn sent_now<F: Future<Output: Send> + Send + 'static>(
    requests: F,
) -> BoxFuture<'static, F::Output> {
    let mut requests = Box::pin(maybe_done(requests));
    let _ = requests.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    Box::pin(async move {
        requests.as_mut().await;
        let output = requests.as_mut().take_output();
        // The output is taken here only, and after the await it is there.
        output.unwrap_or_else(|| unreachable!("the output was taken before"))
    })
}

/// Sends the create, and what has to be sent with it, and waits for the answers.
async fn create(
    session: Arc<Session>,
    client: Client,
    path_nodes: Arc<PathNodes>,
    request: Arc<Request>,
    prefix: String,
    watch_children: Option<WatchPermit>,
) -> Answered {
    let path = request.path.as_str();
    let name = request.path.child(&prefix);
    let with = path_nodes.next_create();
    let stamp = BootInstant::now();
    let node = &request.waiter.node;
    let create = client.create_contender(&name, &node.data, &node.acls);
    // The watch on the parent is sent before the listing, so that the listing is from after it.
    let parent = (with == CreateWith::WatchAndListing).then(|| watch_parent(&path_nodes, &client));
    let watched = watch_children.map(|room| (client.list_and_watch(path), room));
    let needs_listing = with != CreateWith::Nothing && watched.is_none();
    let listed = needs_listing.then(|| client.list(path));
    let created = session.renew_on_success(stamp, create).await;
    if created.is_err() {
        return Answered { created, placement: Placement::Unknown };
    }
    if let Some(parent) = parent {
        parent.await;
    }
    let listing = match (watched, listed) {
        (Some((watched, room)), _) => {
            let watched = watched.await;
            watched.ok().map(|(listing, watch)| (listing, Some(watch.with(room))))
        }
        (None, Some(listed)) => listed.await.ok().map(|listing| (listing, None)),
        (None, None) => None,
    };
    let placement = match listing {
        Some((listing, watch)) => Placement::Listing(listing, watch),
        None => Placement::Unknown,
    };
    Answered { created, placement }
}

/// Sends the create of a read alongside a write hold, unless that has ended.
fn send_companion(
    client: Client,
    request: Arc<Request>,
    prefix: String,
    write: &Arc<HoldState>,
) -> BoxFuture<'static, Answered> {
    let send = || sent_now(create_companion(client, request, prefix, write.clone()));
    // The caller reports how the write hold ended.
    let ended = |_| {
        let created = Err(Failure::NoNode);
        let answered = Answered { created, placement: Placement::Unknown };
        std::future::ready(answered).boxed()
    };
    write.accompany(send).unwrap_or_else(ended)
}

/// Creates a read alongside a write hold, in one transaction that checks that the write hold's znode exists: so no writer can
/// have come in between.
async fn create_companion(
    client: Client,
    request: Arc<Request>,
    prefix: String,
    write: Arc<HoldState>,
) -> Answered {
    let name = request.path.child(&prefix);
    let node = &request.waiter.node;
    let stamp = BootInstant::now();
    let read = Write::Create { data: &node.data, acls: &node.acls, mode: CreateMode::Ephemeral };
    let sent = client.write_while_there(write.node(), &name, &read);
    let created = match write.session().renew_on_success(stamp, sent).await {
        // Not all servers return the `Stat` of a node that a transaction creates: it is read afterwards.
        Ok(()) => Ok(Created { sequence: write.znode().sequence, czxid: 0, owner: 0 }),
        Err(WriteFailure::NotThere) => {
            write.mark_node_gone();
            Err(Failure::NoNode)
        }
        // Only this process knows the name, so an earlier try took effect.
        Err(WriteFailure::Write(exists @ Failure::NodeExists)) => {
            Err(exists.into_source().map_or(Failure::NoNode, Failure::Unknown))
        }
        Err(WriteFailure::Check(failure) | WriteFailure::Write(failure)) => Err(failure),
    };
    Answered { created, placement: Placement::Position(Position::First) }
}

/// Sends the request for a watch on the parent. The future takes the answer.
fn watch_parent<'a>(
    path_nodes: &'a PathNodes,
    client: &'a Client,
) -> impl Future<Output = ()> + Send + use<'a> {
    /// Dropping this without an answer allows another task to set the watch.
    struct Asked<'a> {
        path_nodes: &'a PathNodes,
        link: Option<LinkWatch>,
    }
    impl Drop for Asked<'_> {
        fn drop(&mut self) {
            if self.link.is_some() {
                self.path_nodes.parent_watched(None);
            }
        }
    }
    let mut asked = Asked { path_nodes, link: Some(client.watch_link()) };
    let sent = client.watch(path_nodes.path.as_str());
    async move {
        if let Ok(watch) = sent.await
            && let Some(link) = asked.link.take()
        {
            path_nodes.parent_watched(Some((watch, link)));
        }
    }
}

/// Creates a znode, beginning with the create that was sent already, if there is one, until a create is answered with Ok. A znode
/// that an earlier create may have left is found or deleted.
pub(super) async fn create_node(
    nodes: &Arc<SessionNodes>,
    request: &Arc<Request>,
    owner: &TaskTracker,
    callers: Callers<'_>,
    mut sent: Option<Creating>,
) -> Result<(OwnedNode, Placement), EntryAborted> {
    let mut parents_made = 0;
    loop {
        request.check_companion()?;
        let mut creating = match sent.take() {
            Some(creating) => creating,
            None => {
                let room = match reserve(nodes, request, owner) {
                    Ok(room) => room,
                    // The node that this one follows may have room, until its delete is confirmed.
                    Err(_) => {
                        nodes.at(&request.path, &request.family).leaving.until_all_gone().await;
                        reserve(nodes, request, owner).map_err(EntryAborted::Failed)?
                    }
                };
                let client = nodes.session.client();
                let client =
                    client.map_err(|failure| EntryAborted::Retry(failure.into_source()))?;
                send(nodes, client, request, room, None)
            }
        };
        let failure = match creating.answered().await {
            Ok((node, placement)) => {
                check_sequence(request, node.znode.sequence)?;
                return Ok((node, placement));
            }
            Err(failure) => failure,
        };
        request.check_companion()?;
        match failure {
            Failure::NoNode => {
                parents_made += 1;
                make_parents(nodes, request, callers).await?;
                if parents_made == PARENTS_AT_ONCE {
                    return Err(EntryAborted::Retry(None));
                }
            }
            Failure::Unknown(cause) => {
                metrics::unknown(Operation::CREATE);
                let Some((node, placement)) = creating.resolved(callers).await? else {
                    return Err(EntryAborted::Retry(Some(cause)));
                };
                check_sequence(request, node.znode.sequence)?;
                return Ok((node, placement));
            }
            failure @ Failure::Refused(_) => {
                return Err(request.aborted(request.path.as_str(), "create", failure));
            }
            Failure::SessionOver(cause) => return Err(EntryAborted::Retry(Some(cause))),
            other @ (Failure::NotNow(_) | Failure::NodeExists) => {
                return Err(EntryAborted::Retry(other.into_source()));
            }
        }
    }
}

impl Creating {
    /// Waits for the answers.
    async fn answered(&mut self) -> Result<(OwnedNode, Placement), Failure> {
        let Answered { created, placement } = (&mut self.answer).await;
        let mut created = match created {
            Ok(created) => created,
            Err(failure @ (Failure::Unknown(_) | Failure::SessionOver(_))) => {
                self.path_nodes.unanswered();
                return Err(failure);
            }
            Err(failure) => {
                self.room = None;
                return Err(failure);
            }
        };
        let name = match &self.request.companion {
            Some(_) => self.prefix.clone(),
            None => format!("{}{:010}", self.prefix, created.sequence),
        };
        let session = self.nodes.session.clone();
        if created.czxid == 0 {
            let origin = read_origin(&session, &self.request.path.child(&name)).await?;
            created.czxid = origin.change.czxid;
            created.owner = origin.owner;
        }
        // A server that answers a reconnect with another session tells the client nothing else of it.
        if created.owner != 0 && created.owner != session.session_id() {
            session.replaced_by(created.owner);
            return Err(Failure::session_over());
        }
        let node = self
            .take_place(&name, created.sequence, created.czxid)
            .ok_or_else(Failure::session_over)?;
        if self.request.companion.is_some() {
            return Ok((node, placement));
        }
        let by_gap = self.path_nodes.by_gap(&node.znode);
        // A listing with a watch answers whether the znode is the sole contender, so that listing decides.
        let is_watched = matches!(placement, Placement::Listing(_, Some(_)));
        let by_gap = by_gap.filter(|_| !is_watched).map(Placement::Position);
        Ok((node, by_gap.unwrap_or(placement)))
    }

    fn take_place(&mut self, name: &str, sequence: i64, czxid: i64) -> Option<OwnedNode> {
        let room = self.room.take()?;
        let link = self.link.take()?;
        let path = self.request.path.child(name);
        let session = self.nodes.session.clone();
        let znode =
            Arc::new(Znode::new(path, czxid, sequence, self.request.is_shared(), session, link));
        Some(OwnedNode::new(znode, self.path_nodes.clone(), self.nodes.clone(), room))
    }

    /// Searches for the znode of a create that was not answered.
    async fn resolved(
        &mut self,
        callers: Callers<'_>,
    ) -> Result<Option<(OwnedNode, Placement)>, EntryAborted> {
        let session = self.nodes.session.clone();
        let path = self.request.path.clone();
        let search = || async {
            for name in find(&session, &path, &self.prefix).await? {
                match session.client()?.read(&path.child(&name)).await {
                    Ok(node) if node.owner == session.session_id() => {
                        return Ok(Some((name, node.change.czxid)));
                    }
                    Ok(_) | Err(Failure::NoNode) => {}
                    Err(failure) => return Err(failure),
                }
            }
            Ok(None)
        };
        let found = callers.retried(search).await?;
        let found =
            found.map_err(|failure| self.request.aborted(path.as_str(), "list", failure))?;
        let Some((name, czxid)) = found else {
            self.room = None;
            return Ok(None);
        };
        tracing::debug!(name, "the create had taken effect");
        let sequence = last_number(&name).unwrap_or(-1);
        let placement = match &self.request.companion {
            Some(_) => Placement::Position(Position::First),
            None => Placement::Unknown,
        };
        Ok(self.take_place(&name, sequence, czxid).map(|node| (node, placement)))
    }
}

/// Reads the origin of the node of a companion read, which the answer to its transaction does not tell.
async fn read_origin(session: &Session, node: &str) -> Result<Node, Failure> {
    match session.request(|client| client.read(node)).await {
        Ok(node) => Ok(node),
        // The create was answered, so a failure of the read must not count as a failure of the create.
        Err(Failure::NotNow(error) | Failure::Refused(error)) => Err(Failure::Unknown(error)),
        Err(failure) => Err(failure),
    }
}

impl Drop for Creating {
    /// If neither the create nor the search completed, the znode may exist, and a task cleans up.
    fn drop(&mut self) {
        let Some(room) = self.room.take() else { return };
        self.path_nodes.unanswered();
        let parent = self.request.path.clone();
        let search = CleanupTask::Search { parent, prefix: self.prefix.clone() };
        let nodes = self.nodes.clone();
        let leaving = self.leaving.take();
        let searching = async move {
            let session = &nodes.session;
            let first = run_once(session, &search);
            clean_up(&nodes.connection, session.clone(), search.clone(), first, |_| {}).await;
            drop(room);
            drop(leaving);
        };
        self.nodes.connection.spawn(searching.in_current_span());
    }
}

async fn make_parents(
    nodes: &SessionNodes,
    request: &Request,
    callers: Callers<'_>,
) -> Result<(), EntryAborted> {
    let make = || async {
        let client = nodes.session.client()?;
        let Err(failed) = client.make_path(&request.path, &request.waiter.node.acls).await else {
            return Ok(None);
        };
        match failed.failure {
            // A parent was deleted at the same time: the next create reports that.
            Failure::NoNode => Ok(None),
            Failure::Refused(_) => Ok(Some(failed)),
            failure => Err(failure),
        }
    };
    match callers.retried(make).await? {
        Ok(None) => Ok(()),
        Ok(Some(refused)) => {
            Err(request.aborted(&refused.path, refused.operation, refused.failure))
        }
        Err(failure) => Err(request.aborted(request.path.as_str(), "create", failure)),
    }
}

/// Refuses a sequence number so close to the wrap that the order would end.
pub(super) fn check_sequence(request: &Request, sequence: i64) -> Result<(), EntryAborted> {
    if is_safe_sequence(sequence) {
        return Ok(());
    }
    let path = &request.path;
    let text = format!(
        "the sequence numbers under {path} are used up (at {sequence}); delete it while it is not used"
    );
    Err(EntryAborted::Failed(Error::new(ErrorKind::UnusablePath, text).at(path)))
}
