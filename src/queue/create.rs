//! The protected create.
//!
//! The create and the first listing are sent together: ZooKeeper answers one session's requests in
//! order, so the listing contains our own node. It counts only if that create was answered with Ok. Where the
//! [gap rule](super::rules::gap) can be expected to do without, no listing is sent; where it has nothing to go by yet, a
//! watch on the parent is sent between the two.
//!
//! One GUID for each create. An unknown outcome is resolved behind a barrier
//! (see [`cleanup`](crate::session::cleanup)): the node is adopted only if this very session owns it
//! (invariant 2; the check whose absence is CURATOR-604).

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Waker};

use futures_util::future::{BoxFuture, maybe_done};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use super::hold::{HoldState, Znode};
use super::local_queue::Ticket;
use super::node::{OwnedNode, Room};
use super::path_nodes::{PathNodes, Position};
use super::request::{EntryAborted, Request};
use super::session_nodes::SessionNodes;
use crate::client::{ChildrenWatch, Client, Failure, LinkWatch, Listing, Write, WriteFailure};
use crate::clock::Moment;
use crate::error::{Error, ErrorKind};
use crate::metrics::{self, Operation};
use crate::queue::rules::node_name::{is_safe_sequence, last_number, protected_prefix};
use crate::random;
use crate::session::Session;
use crate::session::cleanup::{CleanupTask, clean_up, find, run_once};

/// What is known of a new node's place in the queue.
#[derive(Debug)]
pub(super) enum Placement {
    /// By the gap rule.
    Position(Position),
    /// From a request that was sent behind the create; with a watch on the children, if one was asked for.
    Listing(Listing, Option<ChildrenWatch>),
    Nothing,
}

/// How often a missing parent is created again at once: an operator may delete it as fast as we make it.
const PARENTS_AT_ONCE: usize = 3;

/// Number and `czxid` of the node, and what else is known.
type Answered = (Result<(i64, i64), Failure>, Placement);

/// A create that was sent. Dropping it before it is answered has a task search for the node.
pub(super) struct Creating {
    pub(super) nodes: Arc<SessionNodes>,
    path_nodes: Arc<PathNodes>,
    pub(super) request: Arc<Request>,
    /// Callers with a smaller ticket may hold by the node.
    pub(super) max_ticket: Ticket,
    /// The name up to the sequence number, GUID included.
    prefix: String,
    /// From before it was sent.
    link: Option<LinkWatch>,
    answer: BoxFuture<'static, Answered>,
    /// Until the node has it.
    room: Option<Room>,
}

/// Takes room for a node in the session; `owner` counts it.
pub(super) fn reserve(
    nodes: &SessionNodes,
    request: &Request,
    owner: &TaskTracker,
) -> Result<Room, Error> {
    let slash_and_name = 1 + request.kind.name_bytes();
    let bytes = nodes.connection.absolute(&request.path).as_str().len() + slash_and_name;
    let limit = nodes.connection.settings.ephemeral_limit;
    let reservation = nodes.session.reserve(bytes, limit).map_err(|in_use| {
        let path = &request.path;
        let text = format!(
            "{path}: this session's ephemeral nodes may take {limit} bytes (ephemeral_limit), {in_use} are in use"
        );
        Error::new(ErrorKind::LimitReached, text).at(path)
    })?;
    Ok(Room::new(reservation, owner.token()))
}

/// Sends a create, with what has to come along. With room for one, with a listing in any case, and a watch on the children.
pub(super) fn send(
    nodes: &Arc<SessionNodes>,
    request: &Arc<Request>,
    max_ticket: Ticket,
    room: Room,
    watch_children: Option<OwnedSemaphorePermit>,
) -> Result<Creating, Failure> {
    let client = nodes.session.client()?;
    let path_nodes = nodes.at(&request.path, &request.family);
    let link = Some(client.watch_link());
    let mut prefix = protected_prefix(random::guid(), request.kind);
    let answer = match &request.companion {
        Some(write) => {
            // The whole name: a down-graded read has its writer's number.
            prefix.push_str(write.digits());
            sent_now(create_beside(client, request.clone(), prefix.clone(), write.clone()))
        }
        None => {
            let (session, path_nodes) = (nodes.session.clone(), path_nodes.clone());
            sent_now(create(
                session,
                client,
                path_nodes,
                request.clone(),
                prefix.clone(),
                watch_children,
            ))
        }
    };
    let (nodes, request) = (nodes.clone(), request.clone());
    Ok(Creating { nodes, path_nodes, request, max_ticket, prefix, link, answer, room: Some(room) })
}

/// Polls `requests` once: what they send is sent when this returns, in the order of other requests.
fn sent_now<F: Future<Output: Send> + Send + 'static>(
    requests: F,
) -> BoxFuture<'static, F::Output> {
    let mut requests = Box::pin(maybe_done(requests));
    let _ = requests.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    Box::pin(async move {
        requests.as_mut().await;
        let output = requests.as_mut().take_output();
        // No other task takes it.
        output.unwrap_or_else(|| unreachable!("it was awaited, and taken once"))
    })
}

/// The create, and the answers to what was sent with it.
async fn create(
    session: Arc<Session>,
    client: Client,
    path_nodes: Arc<PathNodes>,
    request: Arc<Request>,
    prefix: String,
    watch_children: Option<OwnedSemaphorePermit>,
) -> Answered {
    let (name, path) = (request.path.child(&prefix), request.path.as_str());
    let (lacks, watches) = path_nodes.lacks();
    let stamp = Moment::now();
    let create = client.create_contender(&name, &request.data, &request.acls);
    // Before the listing: that is to be from after the watch.
    let parent = watches.then(|| watch_parent(&path_nodes, &client));
    let watched = watch_children.map(|room| (client.list_and_watch(path), room));
    let listed = (lacks && watched.is_none()).then(|| client.list(path));
    let created = session.proven(stamp, create).await;
    if created.is_err() {
        return (created, Placement::Nothing);
    }
    if let Some(parent) = parent {
        parent.await;
    }
    let known = match (watched, listed) {
        (Some((watched, room)), _) => {
            watched.await.map(|(listing, watch)| (listing, Some(watch.with(room))))
        }
        (None, Some(listed)) => listed.await.map(|listing| (listing, None)),
        (None, None) => return (created, Placement::Nothing),
    };
    (
        created,
        known.map_or(Placement::Nothing, |(listing, watch)| Placement::Listing(listing, watch)),
    )
}

/// Creates a read beside a write hold, in one transaction with a look whether that is there: so no writer can have
/// come in between.
async fn create_beside(
    client: Client,
    request: Arc<Request>,
    prefix: String,
    write: Arc<HoldState>,
) -> Answered {
    let name = request.path.child(&prefix);
    let stamp = Moment::now();
    let read = Write::Create { data: &request.data, acls: &request.acls, ephemeral: true };
    let sent = client.write_while_there(write.node(), &name, &read);
    let created = match write.session().proven(stamp, sent).await {
        // Not every server tells of a node that was created in a transaction.
        Ok(()) => Ok((write.sequence(), 0)),
        Err(WriteFailure::NotThere) => {
            write.node_is_gone();
            Err(Failure::NoNode)
        }
        // Only we know this name: an earlier try took effect.
        Err(WriteFailure::Write(exists @ Failure::NodeExists)) => {
            Err(exists.into_source().map_or(Failure::NoNode, Failure::Unknown))
        }
        Err(WriteFailure::Check(failure) | WriteFailure::Write(failure)) => Err(failure),
    };
    (created, Placement::Position(Position::First))
}

/// Asks for the watch on the parent; the future notes the answer.
fn watch_parent<'a>(
    path_nodes: &'a PathNodes,
    client: &'a Client,
) -> impl Future<Output = ()> + Send + use<'a> {
    /// However it ends, another task may ask again.
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

/// Creates a node: the create that was sent before, and others, until one is answered with Ok. What an earlier one may have
/// left is found or removed.
pub(super) async fn create_node(
    nodes: &Arc<SessionNodes>,
    request: &Arc<Request>,
    owner: &TaskTracker,
    opened: Option<Creating>,
) -> Result<(OwnedNode, Placement), EntryAborted> {
    let mut opened = opened;
    let mut parents_made = 0;
    loop {
        request.companion_lasts()?;
        let mut sent = match opened.take() {
            Some(sent) => sent,
            None => {
                let room = reserve(nodes, request, owner).map_err(EntryAborted::Failed)?;
                send(nodes, request, 0, room, None)
                    .map_err(|failure| EntryAborted::Retry(failure.into_source()))?
            }
        };
        let failure = match sent.answered().await {
            Ok((node, known)) => return check_sequence(request, node).map(|node| (node, known)),
            Err(failure) => failure,
        };
        request.companion_lasts()?;
        match failure {
            Failure::NoNode => {
                parents_made += 1;
                make_parents(nodes, request).await?;
                if parents_made == PARENTS_AT_ONCE {
                    return Err(EntryAborted::Retry(None));
                }
            }
            Failure::Unknown(cause) => {
                metrics::unknown(Operation::CREATE);
                return match sent.resolved().await? {
                    Some((node, known)) => check_sequence(request, node).map(|node| (node, known)),
                    None => Err(EntryAborted::Retry(Some(cause))),
                };
            }
            failure @ Failure::Refused(_) => {
                return Err(request.stop(request.path.as_str(), "create", failure));
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
        let (created, known) = (&mut self.answer).await;
        let (sequence, mut czxid) = match created {
            Ok(created) => created,
            Err(failure) => {
                if matches!(failure, Failure::Unknown(_) | Failure::SessionOver(_)) {
                    self.path_nodes.unanswered();
                } else {
                    self.room = None;
                }
                return Err(failure);
            }
        };
        let name = match &self.request.companion {
            Some(_) => self.prefix.clone(),
            None => format!("{}{sequence:010}", self.prefix),
        };
        if czxid <= 0 {
            // Servers before 3.5 do not tell at the create.
            let read = self.nodes.session.client()?.read(&self.request.path.child(&name)).await;
            czxid = match read {
                Ok(node) => node.change.czxid,
                // The create was answered: what follows must not be taken for its failure.
                Err(Failure::NotNow(error) | Failure::Refused(error)) => {
                    return Err(Failure::Unknown(error));
                }
                Err(failure) => return Err(failure),
            };
        }
        let node = self.take_place(&name, sequence, czxid).ok_or_else(Failure::session_over)?;
        let known = match known {
            Placement::Listing(listing, watch) => match self.path_nodes.by_gap(&node.node) {
                Some(position) if watch.is_none() => Placement::Position(position),
                _ => Placement::Listing(listing, watch),
            },
            Placement::Nothing => {
                self.path_nodes.by_gap(&node.node).map_or(Placement::Nothing, Placement::Position)
            }
            known => known,
        };
        Ok((node, known))
    }

    fn take_place(&mut self, name: &str, sequence: i64, czxid: i64) -> Option<OwnedNode> {
        let (room, link) = (self.room.take()?, self.link.take()?);
        let (path, shared) = (self.request.path.child(name), self.request.is_shared());
        let node = Arc::new(Znode::new(path, czxid, sequence, shared, link));
        Some(OwnedNode::new(node, self.path_nodes.clone(), self.nodes.clone(), room))
    }

    /// Finds out what became of a create that was not answered.
    async fn resolved(&mut self) -> Result<Option<(OwnedNode, Placement)>, EntryAborted> {
        let (session, path) = (self.nodes.session.clone(), self.request.path.clone());
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
        let found = self.nodes.connection.retried(&self.request.retry, search).await;
        match found.map_err(|failure| self.request.stop(path.as_str(), "list", failure))? {
            Some((name, czxid)) => {
                tracing::debug!(name, "the create had taken effect");
                let sequence = last_number(&name).unwrap_or(-1);
                let node = self.take_place(&name, sequence, czxid);
                let companion = self.request.companion.as_ref();
                let known =
                    companion.map_or(Placement::Nothing, |_| Placement::Position(Position::First));
                Ok(node.map(|node| (node, known)))
            }
            None => {
                self.room = None;
                Ok(None)
            }
        }
    }
}

impl Drop for Creating {
    /// If no answer came, and the search for the node to no end, it may be there.
    fn drop(&mut self) {
        let Some(room) = self.room.take() else { return };
        self.path_nodes.unanswered();
        let search =
            CleanupTask::Search { parent: self.request.path.clone(), prefix: self.prefix.clone() };
        let nodes = self.nodes.clone();
        let searching = async move {
            let (connection, session) = (&nodes.connection, &nodes.session);
            let first = run_once(session, &search);
            clean_up(connection, session.clone(), search.clone(), first, |_| {}).await;
            drop(room);
        };
        self.nodes.connection.spawn(searching.in_current_span());
    }
}

async fn make_parents(nodes: &SessionNodes, request: &Request) -> Result<(), EntryAborted> {
    let parent = nodes.connection.absolute(&request.path);
    let make = || async {
        let client = nodes.session.client()?;
        let made = client.make_parents(&parent, &request.acls).await;
        Ok::<_, Failure>(match made {
            Ok(()) => None,
            // Deleted while we made it: the next create tells.
            Err(gone) if matches!(gone.failure, Failure::NoNode) => None,
            Err(refused) => match refused.failure {
                failure @ Failure::Refused(_) => Some((refused.path, failure)),
                failure => return Err(failure),
            },
        })
    };
    match nodes.connection.retried(&request.retry, make).await {
        Ok(None) => Ok(()),
        Ok(Some((path, failure))) => Err(request.stop(&path, "create", failure)),
        Err(failure) => Err(request.stop(request.path.as_str(), "create", failure)),
    }
}

/// Refuses a place so close to the wrap of the sequence numbers that order would end.
fn check_sequence(request: &Request, node: OwnedNode) -> Result<OwnedNode, EntryAborted> {
    let sequence = node.node.sequence;
    if is_safe_sequence(sequence) {
        return Ok(node);
    }
    let path = &request.path;
    let text = format!(
        "the sequence numbers under {path} are used up (at {sequence}); delete it while it is not used"
    );
    Err(EntryAborted::Failed(Error::new(ErrorKind::UnusablePath, text).at(path)))
}
