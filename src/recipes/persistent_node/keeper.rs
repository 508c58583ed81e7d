//! [`Keeper`]: the task that keeps a znode.
//!
//! The task creates the znode and reads it behind the create, with a watch, in one trip. The read decides: the create only says
//! that the server's answer is not older than the create. When the watch fires, the task reads again, and creates what is missing.
//!
//! *The znode is ours* if this session owns it and this task may have created it: another [`Curator`](crate::Curator) of the same
//! client has the same session. The nodes of one `Curator` at one path take turns, so no other one of them has created it, whichever
//! creates were not answered. A turn ends when the znode is deleted.
//!
//! *Two processes never hold at once.* A hold begins only if a read shows that our session owns the znode, and ends with the session
//! lease, that is before the servers can expire the session. While the znode exists, no other session can create it. If somebody
//! deletes it, the servers may create another one before the watch fires, as for every hold.
//!
//! *A delete never passes to the next session*, in contrast to that of a contender's znode: by then another process may have a znode
//! of the same path. The delete is repeated only if a read behind a barrier shows that our session still owns the znode.
//! A delete names a path and a version of the data, but no owner: if a third party deletes our znode, and the node is closed before
//! the watch fires, the delete hits the znode that another process has created meanwhile.

use std::sync::Arc;

use futures_util::future::{OptionFuture, join};
use tokio::sync::{OwnedMutexGuard, watch};

use crate::client::{Client, CreateMode, Failed, Failure, Node, NodeEvent, PARENTS_AT_ONCE};
use crate::clock::BootInstant;
use crate::error::{Error, ErrorKind, Loss};
use crate::metrics::{self, Operation};
use crate::queue::{End, OwnedHold};
use crate::recipes::shared::hold::Hold;
use crate::recipes::shared::recipe::Recipe;
use crate::recipes::shared::task_state::{CloseOnDrop, Phase};
use crate::session::Session;
use crate::session::cleanup::{behind_barrier, delete};
use crate::session::follower::{EachSession, NodeFollower};
use crate::session::observed::HeldLock;
use crate::session::retry::{RetryLoop, RetryPolicy};

/// The data that the znode is to have.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    /// Counts the changes.
    pub(super) number: u64,
    pub(super) data: Arc<[u8]>,
}

/// See the [module](self).
pub(super) struct Keeper {
    recipe: Recipe,
    state: CloseOnDrop,
    wanted: watch::Receiver<Wanted>,
    written: watch::Sender<u64>,
    taken_by: watch::Sender<Option<i64>>,
    /// This task's turn at the path.
    turn: Option<OwnedMutexGuard<()>>,
    /// The hold of the present znode.
    hold: Option<OwnedHold>,
    /// The znode that this task may have created in the present session.
    created: Option<InSession>,
    /// The session that this task had before, whose znode may outlast it for a while.
    previous: Option<i64>,
    /// The kind of the latest failure, until the znode is ours.
    failed: Option<ErrorKind>,
}

/// The znode that a task may have created in one session.
struct InSession {
    session: Arc<Session>,
    /// The znode is there, as far as is known.
    is_there: bool,
    /// A create has no answer.
    is_unsure: bool,
}

impl Keeper {
    pub(super) fn new(
        recipe: Recipe,
        state: CloseOnDrop,
        wanted: watch::Receiver<Wanted>,
        written: watch::Sender<u64>,
        taken_by: watch::Sender<Option<i64>>,
    ) -> Self {
        Self {
            recipe,
            state,
            wanted,
            written,
            taken_by,
            turn: None,
            hold: None,
            created: None,
            previous: None,
            failed: None,
        }
    }

    /// Keeps the znode until the node is closed, or no further session will be opened.
    pub(super) async fn run(mut self) {
        let state = self.state.0.clone();
        let ended = tokio::select! {
            biased;
            () = state.close.cancelled() => Phase::Closed,
            error = self.keep() => Phase::Ended(error),
        };
        self.hold = None;
        state.enter(ended);
        self.give_up().await;
    }

    /// Keeps the znode in one session after another.
    async fn keep(&mut self) -> Error {
        self.turn = Some(self.in_turn().await);
        let path = self.recipe.path.clone();
        let mut sessions = EachSession::of(self.recipe.curator.connection());
        loop {
            let session = match sessions.next().await {
                Ok(session) => session,
                Err(error) => return error.while_doing(&path).at(&path),
            };
            self.created =
                Some(InSession { session: session.clone(), is_there: false, is_unsure: false });
            sessions.while_it_lasts(self.keep_in(&session)).await;
            self.previous = Some(session.session_id());
            self.lose(match session.ended().is_cancelled() {
                true => Loss::SessionExpired,
                false => Loss::Closed,
            });
        }
    }

    /// Waits until no other node of this `Curator` has a znode at the path.
    async fn in_turn(&self) -> OwnedMutexGuard<()> {
        let Recipe { curator, path, .. } = &self.recipe;
        let turn = curator.queues().turn_to_keep(path);
        if let Ok(turn) = turn.clone().try_lock_owned() {
            return turn;
        }
        tracing::warn!(%path, "another node of this Curator has this znode; waits until that is closed");
        self.taken_by.send_replace(curator.session_id().ok());
        let turn = turn.lock_owned().await;
        self.taken_by.send_replace(None);
        turn
    }

    /// Keeps the znode in one session, until that ends.
    async fn keep_in(&mut self, session: &Arc<Session>) {
        let connection = self.recipe.curator.connection().clone();
        let path = self.recipe.path.clone();
        let bytes = connection.absolute(&path).as_str().len();
        let mut follower = NodeFollower::new(path.as_str());
        let mut room = None;
        let mut must_create = true;
        let mut retry = RetryLoop::new(&RetryPolicy::endless(), Operation::CREATE);
        loop {
            let looked = match &room {
                Some(_) => self.look(session, &mut follower, must_create).await,
                None => match connection.reserve(session, &path, bytes) {
                    Ok(reserved) => {
                        room = Some(reserved);
                        continue;
                    }
                    Err(error) => Err(error),
                },
            };
            let error = match looked {
                Ok(None) => {
                    self.is_deleted();
                    must_create = true;
                    continue;
                }
                Ok(Some(node)) => match self.until_changed(session, &mut follower, node).await {
                    Ok(event) => {
                        must_create = self.hears_of_a_deletion(event);
                        retry.restart();
                        continue;
                    }
                    Err(error) => error,
                },
                Err(error) => error,
            };
            self.refuse(&error);
            // The policy is endless.
            let paused = retry.backoff(&connection, &error);
            if self.hold.is_none() {
                paused.await;
                continue;
            }
            // A write was refused, and the znode is ours for as long as it is there.
            tokio::select! {
                biased;
                event = changed(&mut follower, session) => {
                    must_create = self.hears_of_a_deletion(event);
                }
                _ = paused => {}
            }
        }
    }

    /// Creates the znode if it `must_create` it, and reads it with a watch. `None` if there is none.
    async fn look(
        &mut self,
        session: &Arc<Session>,
        follower: &mut NodeFollower,
        must_create: bool,
    ) -> Result<Option<Node>, Error> {
        let path = self.recipe.path.clone();
        let mut parents_made = 0;
        loop {
            let failed = match self.look_once(session, follower, must_create).await {
                Ok(node) => return Ok(Some(node)),
                Err(Failed { failure: Failure::NoNode, operation: "read", .. }) => return Ok(None),
                Err(failed) => failed,
            };
            if !matches!(failed.failure, Failure::NoNode) || parents_made == PARENTS_AT_ONCE {
                return Err(failed.into_error());
            }
            parents_made += 1;
            let acls = &self.recipe.curator.options().acls;
            let client =
                session.client().map_err(|failure| failure.into_error(path.as_str(), "create"))?;
            let made = client.make_parents(&path, acls).await;
            made.map_err(Failed::into_error)?;
        }
    }

    /// As [`look`](Self::look), once.
    async fn look_once(
        &mut self,
        session: &Arc<Session>,
        follower: &mut NodeFollower,
        must_create: bool,
    ) -> Result<Node, Failed> {
        let path = &self.recipe.path.clone();
        let of = |operation| move |failure| Failed::at(path, operation, failure);
        let client = session.client().map_err(of("read"))?;
        if must_create {
            // A watch from before would report the deletion of an earlier znode.
            *follower = NodeFollower::new(path.as_str());
        }
        let room = match follower.is_watched() {
            true => None,
            false => session.try_reserve_spare_watch(path.as_str()),
        };
        let data = self.wanted.borrow().data.clone();
        let acls = self.recipe.curator.options().acls.clone();
        let ours = self.created.as_mut().ok_or_else(Failure::session_over).map_err(of("read"))?;
        let was_unsure = ours.is_unsure;
        // A caller that drops this future leaves a create without an answer.
        ours.is_unsure |= must_create;
        let create = async {
            let stamp = BootInstant::now();
            let sent = client.create(path.as_str(), &data, &acls, CreateMode::Ephemeral);
            session.renew_on_success(stamp, sent).await
        };
        // The first poll sends both in this order.
        let create = OptionFuture::from(must_create.then_some(create));
        let (created, read) = join(create, follower.read(&client, room)).await;
        let mut czxid = None;
        match created {
            None | Some(Err(Failure::NodeExists)) => ours.is_unsure = was_unsure,
            Some(Ok(change)) => {
                czxid = Some(change.czxid);
                ours.is_there = true;
                ours.is_unsure = false;
            }
            Some(Err(failure)) => {
                if let Failure::Unknown(_) | Failure::SessionOver(_) = failure {
                    metrics::unknown(Operation::CREATE);
                } else {
                    ours.is_unsure = was_unsure;
                }
                return Err(of("create")(failure));
            }
        }
        let node = read.map_err(of("read"))?;
        // A server that answers a reconnect with another session tells the client nothing else of it.
        if czxid == Some(node.change.czxid) && node.owner != session.session_id() {
            session.replaced_by(node.owner);
            return Err(of("create")(Failure::session_over()));
        }
        Ok(node)
    }

    /// Holds while the znode is there and ours, with the data that are wanted. Returns what ended that, `None` if the znode has to
    /// be read again.
    async fn until_changed(
        &mut self,
        session: &Arc<Session>,
        follower: &mut NodeFollower,
        node: Node,
    ) -> Result<Option<NodeEvent>, Error> {
        let is_ours = self.created.as_mut().is_some_and(|created| {
            let may_be_its = created.is_there || created.is_unsure;
            created.is_there = may_be_its && node.owner == session.session_id();
            created.is_unsure &= !created.is_there;
            created.is_there
        });
        if !is_ours {
            self.is_taken_by(&node);
            return Ok(changed(follower, session).await);
        }
        self.taken_by.send_replace(None);
        self.hold(session, &node).await;
        if !self.write(session, &node).await? {
            return Ok(None);
        }
        self.failed = None;
        let Some(hold) = &self.hold else { return Ok(None) };
        tokio::select! {
            biased;
            () = hold.state().ended().cancelled() => Ok(None),
            // The senders live in the handles, and the last one closes the node.
            Ok(()) = self.wanted.changed() => Ok(None),
            event = changed(follower, session) => Ok(event),
        }
    }

    /// Begins to hold by the znode, unless this task holds by it already. Waits until the session lease allows it.
    async fn hold(&mut self, session: &Arc<Session>, node: &Node) {
        let is_it = |hold: &OwnedHold| {
            hold.state().end().is_none()
                && hold.state().fencing_token().value() == node.change.czxid
        };
        if self.hold.as_ref().is_some_and(is_it) {
            return;
        }
        self.lose(Loss::NodeDeleted);
        let Recipe { curator, path, counted, .. } = &self.recipe;
        let lock = HeldLock { path, kind: "", counted };
        let term = curator.options().loss_policy.into();
        let hold = loop {
            let mut renewals = session.lease.renewals();
            let node = (path.to_string(), node.change.czxid);
            if let Some(hold) = OwnedHold::without_queue(&lock, node, session, term) {
                break hold;
            }
            // The sender lives in the session.
            let _ = renewals.changed().await;
        };
        tracing::info!(%path, "the znode is there");
        self.state.0.enter(Phase::Holding(Hold::new(hold.state(), &self.recipe)));
        self.hold = Some(hold);
    }

    /// Writes the data that are wanted, if the znode has others. Returns false if the znode has changed meanwhile.
    async fn write(&mut self, session: &Session, node: &Node) -> Result<bool, Error> {
        let Wanted { number, data } = self.wanted.borrow_and_update().clone();
        if *node.data != *data {
            let path = self.recipe.path.as_str();
            let version = Some(node.change.version);
            match session.request(|client| client.set_data(path, &data, version)).await {
                Ok(_) => {}
                Err(Failure::NoNode) => return Ok(false),
                Err(Failure::Refused(error)) if error.is_bad_version() => return Ok(false),
                Err(failure) => return Err(failure.into_error(path, "set")),
            }
        }
        self.written.send_replace(number);
        Ok(true)
    }

    /// Another session has a znode at the path.
    fn is_taken_by(&mut self, node: &Node) {
        self.lose(Loss::NodeDeleted);
        let path = &self.recipe.path;
        let Node { owner, data, .. } = node;
        if self.taken_by.send_replace(Some(*owner)) == Some(*owner) {
            return;
        }
        let session = format_args!("{owner:#x}");
        if *owner == 0 {
            let text = format!("a znode that is not ephemeral is at {path}: no session keeps it");
            self.refuse(&Error::new(ErrorKind::UnusablePath, text).at(path));
        } else if self.previous == Some(*owner) {
            tracing::debug!(%path, %session, "waits until the previous session expires");
        } else {
            let data = data.escape_ascii();
            tracing::warn!(%path, %session, %data, "another session or Curator has this znode; waits until it is deleted");
        }
    }

    /// Takes an event of the znode. Returns true if the znode is deleted.
    fn hears_of_a_deletion(&mut self, event: Option<NodeEvent>) -> bool {
        let is_deleted = event == Some(NodeEvent::Deleted);
        if is_deleted {
            self.is_deleted();
        }
        is_deleted
    }

    /// No znode is at the path.
    fn is_deleted(&mut self) {
        if let Some(created) = &mut self.created {
            created.is_there = false;
        }
        self.lose(Loss::NodeDeleted);
        self.taken_by.send_replace(None);
    }

    /// Ends the hold, if this task has one, and it has not ended before.
    fn lose(&mut self, loss: Loss) {
        if let Some(hold) = self.hold.take() {
            let end = hold.state().finish(End::Lost(loss));
            tracing::info!(path = %self.recipe.path, ?end, "the znode is lost");
        }
    }

    /// Reports an error to the calls that wait. The first one of its kind in a row is logged as a warning. If no server answered,
    /// the calls wait on.
    fn refuse(&mut self, error: &Error) {
        let path = &self.recipe.path;
        if error.kind() == ErrorKind::Unavailable {
            tracing::debug!(%path, %error, "looks again");
            return;
        }
        if self.failed.replace(error.kind()) != Some(error.kind()) {
            tracing::warn!(%path, %error, "the znode cannot be kept; tries again");
        }
        self.state.0.refuse(error.clone());
    }

    /// Deletes the znode, if this task may have one. Meanwhile no handle of the [`Curator`](crate::Curator) keeps the session open,
    /// so a znode that the servers refuse to delete goes with the session.
    async fn give_up(self) {
        let Self { recipe, state, created, turn: _turn, .. } = self;
        let path = recipe.path.clone();
        let connection = recipe.curator.connection().clone();
        drop(recipe);
        let Some(InSession { session, is_there, mut is_unsure }) = created else { return };
        if !is_there && !is_unsure {
            return;
        }
        let path = path.as_str();
        let mut retry = RetryLoop::new(&RetryPolicy::endless(), Operation::CLEANUP);
        loop {
            let deleted = async {
                if is_unsure && !still_owns_it(&session, path).await? {
                    return Ok(());
                }
                delete(&session, path).await.map(drop)
            };
            let deleted = tokio::select! {
                biased;
                // The servers delete it.
                () = session.ended().cancelled() => return,
                deleted = deleted => deleted,
            };
            let Err(failure) = deleted else { return };
            if let Failure::Refused(_) = failure {
                let error = failure.clone().into_error(path, "delete");
                tracing::warn!(path, %error, "the znode stays until the session ends");
                state.0.set_outcome(Err(error));
            }
            is_unsure = true;
            tokio::select! {
                biased;
                () = session.ended().cancelled() => return,
                _ = retry.backoff(&connection, &failure) => {}
            }
        }
    }
}

/// Returns true if our session still has a znode there. The answer is from after all earlier requests of the session.
async fn still_owns_it(session: &Session, path: &str) -> Result<bool, Failure> {
    let look = |client: &Client| client.look(path);
    let node = behind_barrier(session, &format!("{path}_b_"), look).await?;
    Ok(node.is_some_and(|node| node.owner == session.session_id()))
}

/// Waits until the watch fires; without one, about as long as between two renewals of the session lease.
async fn changed(follower: &mut NodeFollower, session: &Session) -> Option<NodeEvent> {
    let limit = (!follower.is_watched()).then_some(session.timeout() / 6);
    follower.changed(limit).await
}
