//! [`Contender`]: acquires a lock on behalf of a recipe.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::hold::Guard;
use super::lock::impl_lock;
use super::owner::{Owner, OwnerEntry, OwnerHolds};
use super::participants::Participant;
use super::recipe::{Patience, Recipe};
use crate::error::{Error, ErrorKind};
use crate::queue::rules::admission::Family;
use crate::queue::rules::node_name::Kind;
use crate::queue::{OwnedHold, QueuedFlag, Request};

/// A recipe with what it asks of the queue.
#[derive(Clone)]
pub(crate) struct Contender {
    pub(crate) recipe: Recipe,
    /// The request of a caller that waits without a limit.
    request: Arc<Request>,
    /// An owner that holds the lock gets another guard of its hold.
    reenters: bool,
}

impl_lock!(Contender);

impl Contender {
    pub(crate) fn new(recipe: Recipe, family: Family, kind: Kind) -> Self {
        let request = Arc::new(recipe.request(family, kind));
        Self { recipe, request, reenters: true }
    }

    /// Fails in place of a nested hold.
    pub(crate) fn never_reenters(self) -> Self {
        Self { reenters: false, ..self }
    }

    /// Access to the options of later acquisitions.
    pub(crate) fn request_mut(&mut self) -> &mut Request {
        Arc::make_mut(&mut self.request)
    }

    pub(crate) fn path(&self) -> &str {
        self.recipe.path.as_str()
    }

    /// Waits until the lock is held, or patience ends.
    pub(crate) async fn acquire_with(&self, patience: Patience) -> Result<Guard, Error> {
        let entry = self.owner_entry();
        let queued = match (&entry, patience) {
            (Some(entry), _) => entry.queued.clone(),
            (None, Patience::Until { .. }) => QueuedFlag::default(),
            (None, Patience::NoWait { .. } | Patience::Forever) => QueuedFlag::UNREAD,
        };
        let acquiring = async {
            match &entry {
                None => self.contend(patience, None, queued.clone()).await,
                Some(entry) => self.acquire_as_owner(entry, patience).await,
            }
        };
        self.recipe.in_time(patience, || queued.is_set(), acquiring).await
    }

    /// Queues up and waits for the answer. A read with a `companion`, a write hold, needs no turn of its own.
    async fn contend(
        &self,
        patience: Patience,
        companion: Option<&Guard>,
        queued: QueuedFlag,
    ) -> Result<Guard, Error> {
        let mut request = self.request.clone();
        self.recipe.check_retention(&request.waiter)?;
        let no_wait = matches!(patience, Patience::NoWait { .. });
        if no_wait || companion.is_some() {
            let request = Arc::make_mut(&mut request);
            request.waiter_mut().no_wait = no_wait;
            request.check_first = no_wait;
            if let Some(write) = companion {
                request.companion = Some(write.state().clone());
                let waiter = request.waiter_mut();
                waiter.shares_queue = false;
                waiter.shared = false;
                waiter.retention = Duration::ZERO;
            }
        }
        let mut contending = self.recipe.curator.queues().contend(request, queued.clone());
        let hold = contending.answer().await?;
        Ok(Guard::new(Arc::new(hold), &self.recipe).with_waited(queued.is_set()))
    }

    /// The entry for this lock of the owner in whose scope the caller runs, if it runs in one.
    pub(crate) fn owner_entry(&self) -> Option<Arc<OwnerEntry>> {
        let connection_id = self.recipe.curator.connection().id;
        Owner::current_entry(connection_id, &self.recipe.path, &self.request.family)
    }

    /// Acquires as an owner. If the owner holds the lock, the guard is nested; if another of its tasks is acquiring, this one
    /// waits for it.
    async fn acquire_as_owner(
        &self,
        entry: &OwnerEntry,
        patience: Patience,
    ) -> Result<Guard, Error> {
        let _acquiring = tokio::select! {
            biased;
            acquiring = entry.acquiring.lock() => acquiring,
            // Another task of this owner waits for another contender.
            () = entry.queued.wait(), if matches!(patience, Patience::NoWait { .. }) => {
                return Err(Error::busy(&self.recipe.path));
            }
        };
        let _reset = ResetOnDrop(&entry.queued);
        let reads = self.request.kind == Kind::Read;
        let OwnerHolds { exclusive, shared } = entry.holds.lock().clone();
        let (wanted, other) = if reads { (shared, exclusive) } else { (exclusive, shared) };
        // A lost hold keeps its node until its guard is dropped: a new contender would wait for that node.
        match self.nested(&wanted)? {
            Some(held) if self.reenters => return Ok(held),
            Some(_) => {
                let path = &self.recipe.path;
                let text =
                    format!("this owner has {path} already, and this call would wait for it");
                return Err(Error::new(ErrorKind::WouldDeadlock, text).at(path));
            }
            None => {}
        }
        let companion = self.nested(&other)?;
        if companion.is_some() && !reads {
            let path = &self.recipe.path;
            let text = format!(
                "this owner reads {path}, and its own read lock would keep its write lock out; release the read guards first"
            );
            return Err(Error::new(ErrorKind::WouldDeadlock, text).at(path));
        }
        let queued = entry.queued.clone();
        let acquired = self.contend(patience, companion.as_ref(), queued).await?;
        let mut holds = entry.holds.lock();
        *(if reads { &mut holds.shared } else { &mut holds.exclusive }) = acquired.downgrade();
        drop(holds);
        Ok(acquired)
    }

    /// A nested guard of the owner's hold, if there is one; an error if the owner lost that hold.
    fn nested(&self, hold: &Weak<OwnedHold>) -> Result<Option<Guard>, Error> {
        let Some(guard) = Guard::nested(hold, &self.recipe) else { return Ok(None) };
        match guard.loss() {
            None => Ok(Some(guard)),
            Some(loss) => Err(Error::lost(&self.recipe.path, loss)
                .while_doing("this owner has a guard that must be dropped first")),
        }
    }

    /// Reads while `write` holds, under a node of its own that needs no turn. `entry` is that of the owner that writes, if an
    /// owner does.
    pub(crate) async fn read_alongside(
        &self,
        write: &Guard,
        entry: Option<&OwnerEntry>,
    ) -> Result<Guard, Error> {
        let read = self.contend(Patience::Forever, Some(write), QueuedFlag::UNREAD);
        let Some(entry) = entry else { return read.await };
        // Another task of the owner that has locked this acquires a read as well, which the write hold lets in at once.
        let _acquiring = entry.acquiring.lock().await;
        let shared = entry.holds.lock().shared.clone();
        let nested = Guard::nested(&shared, &self.recipe);
        if let Some(read) = nested.filter(|read| read.is_held()) {
            return Ok(read);
        }
        let read = read.await?;
        entry.holds.lock().shared = read.downgrade();
        Ok(read)
    }

    /// The contenders in order. The tasks of this session that wait under our node follow it.
    pub(crate) async fn participants(&self) -> Result<Vec<Participant>, Error> {
        let curator = &self.recipe.curator;
        let family = &self.request.family;
        let mut all = self.recipe.participants(family).await?;
        let ours = curator.session_id().ok();
        for kind in [self.request.kind, Kind::Read] {
            let is_ours = |one: &Participant| {
                ours.is_some() && one.session_id == ours && one.kind() == Some(kind)
            };
            if let Some(place) = all.iter().rposition(is_ours) {
                let under = all[place].clone().waiting();
                let waiting = curator.queues().waiting(&self.recipe.path, family, kind);
                all.splice(place + 1..place + 1, std::iter::repeat_n(under, waiting));
            }
        }
        Ok(all)
    }
}

impl fmt::Debug for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contender")
            .field("path", &self.recipe.path)
            .field("family", &self.request.family)
            .finish_non_exhaustive()
    }
}

/// Resets the flag, so that the owner's next task no longer sees a task that waits.
struct ResetOnDrop<'a>(&'a QueuedFlag);

impl Drop for ResetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}
