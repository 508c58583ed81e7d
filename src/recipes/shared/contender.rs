//! Acquiring a lock that one contender stands for: how long a caller waits, and which owner re-enters.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::hold::{Guard, Held};
use super::owner::{Kept, Owner, Slot};
use super::participants::Participant;
use super::recipe::{Patience, Recipe};
use crate::error::{Error, ErrorKind};
use crate::metrics;
use crate::queue::QueuedFlag;
use crate::queue::rules::admission::Family;
use crate::queue::rules::node_name::Kind;

/// The longest retention: a longer one is a mistake in units.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A recipe with the rule that says which contender holds.
#[derive(Clone, Debug)]
pub(crate) struct Contender {
    pub(crate) recipe: Recipe,
    pub(crate) family: Family,
    /// For how long a node is kept that no task of this session wants, and whether each hold has one of its own.
    pub(crate) retention: Duration,
    pub(crate) node_per_hold: bool,
}

impl Contender {
    pub(crate) fn new(recipe: Recipe, family: Family) -> Self {
        Self { recipe, family, retention: Duration::ZERO, node_per_hold: false }
    }

    pub(crate) async fn acquire(
        &self,
        kind: Kind,
        patience: Patience,
    ) -> Result<Option<Guard>, Error> {
        let slot = self.slot();
        let queued = slot.as_ref().map_or_else(QueuedFlag::default, |slot| slot.queued.clone());
        let acquiring = async {
            match &slot {
                None => self.contend(kind, None, patience, queued.clone()).await,
                Some(slot) => self.acquire_as(slot, kind, patience).await,
            }
        };
        self.recipe.in_time(patience, || *queued.borrow(), acquiring).await
    }

    /// Reads while `write` holds, under a node of its own that needs no turn. `slot` is of the owner that writes, if there is one.
    pub(crate) async fn read_beside(
        &self,
        write: &Guard,
        slot: Option<&Slot>,
    ) -> Result<Guard, Error> {
        let Some(slot) = slot else { return self.beside(write).await };
        // While the write hold is there, another task of the owner that has it locked is served at once.
        let mut kept = slot.kept.lock().await;
        if let Some(read) = Guard::of(&kept.shared).filter(|read| read.is_held()) {
            return Ok(read);
        }
        let read = self.beside(write).await?;
        kept.shared = read.weak();
        Ok(read)
    }

    async fn beside(&self, write: &Guard) -> Result<Guard, Error> {
        let read =
            |patience| self.contend(Kind::Read, Some(write), patience, QueuedFlag::default());
        Patience::forever(read).await
    }

    pub(crate) async fn wait(&self, kind: Kind) -> Result<Guard, Error> {
        Patience::forever(|patience| self.acquire(kind, patience)).await
    }

    /// The contenders in order. The tasks of this session that wait under our node come right after it.
    pub(crate) async fn participants(&self) -> Result<Vec<Participant>, Error> {
        let Recipe { curator, path, .. } = &self.recipe;
        let mut all = self.recipe.participants(&self.family).await?;
        let ours = curator.session_id().ok();
        let is_ours = |one: &Participant| ours.is_some() && one.session_id == ours;
        if let Some(place) = all.iter().rposition(is_ours) {
            let under = all[place].clone().waiting();
            let waiting = curator.queues().waiting(path, &self.family);
            all.splice(place + 1..place + 1, std::iter::repeat_n(under, waiting));
        }
        Ok(all)
    }

    /// The slot of the present owner for this lock, if there is an owner.
    pub(crate) fn slot(&self) -> Option<Arc<Slot>> {
        let curator = Arc::as_ptr(self.recipe.curator.connection()) as usize;
        Owner::present(curator, &self.recipe.path, &self.family)
    }

    /// Acquires as an owner: nested if it holds the lock, in turn if another of its tasks acquires.
    async fn acquire_as(
        &self,
        slot: &Slot,
        kind: Kind,
        patience: Patience,
    ) -> Result<Option<Guard>, Error> {
        let mut kept = tokio::select! {
            biased;
            kept = slot.kept.lock() => kept,
            // Another task of this owner is about to have it, or waits for another contender.
            () = is_queued(&slot.queued), if matches!(patience, Patience::NoWait) => return Ok(None),
        };
        let _unqueued = Unqueued(&slot.queued);
        let Kept { exclusive, shared } = &mut *kept;
        let (wanted, other) =
            if kind == Kind::Read { (shared, exclusive) } else { (exclusive, shared) };
        // The node of a lost hold stays until its guard is dropped: to contend with it would be to wait for oneself.
        if let Some(held) = self.still(wanted)? {
            return Ok(Some(held));
        }
        let beside = self.still(other)?;
        if beside.is_some() && kind != Kind::Read {
            let path = &self.recipe.path;
            let text = format!(
                "this owner reads {path}, and its own read lock would keep its write lock out; release the read guards first"
            );
            return Err(Error::new(ErrorKind::WouldDeadlock, text).at(path));
        }
        let held = self.contend(kind, beside.as_ref(), patience, slot.queued.clone()).await?;
        *wanted = held.as_ref().map_or_else(Weak::new, Guard::weak);
        Ok(held)
    }

    /// A nested guard of the owner's hold, if there is one; an error if the owner lost that hold.
    fn still(&self, kept: &Weak<Held>) -> Result<Option<Guard>, Error> {
        let Some(guard) = Guard::of(kept) else { return Ok(None) };
        match guard.loss() {
            None => Ok(Some(guard)),
            Some(loss) => Err(Error::lost(&self.recipe.path, loss)
                .while_doing("this owner has a guard that must be dropped first")),
        }
    }

    async fn contend(
        &self,
        kind: Kind,
        beside: Option<&Guard>,
        patience: Patience,
        queued: QueuedFlag,
    ) -> Result<Option<Guard>, Error> {
        if self.retention > DAY || self.node_per_hold && !self.retention.is_zero() {
            let value = format_args!("{:?} for {}", self.retention, self.recipe.path);
            let reason = "it is at most a day, and a node per hold cannot be retained";
            return Err(Error::invalid("retention", value, reason).at(&self.recipe.path));
        }
        let mut request = self.recipe.request(self.family.clone(), kind, patience);
        if kind == Kind::Read {
            // Also while the write lock is held.
            request.counted = request.counted.as_of(metrics::Recipe::READ_LOCK);
        }
        (request.retention, request.node_per_hold) = (self.retention, self.node_per_hold);
        request.companion = beside.map(|write| write.state().clone());
        let mut contending = self.recipe.curator.queues().contend(request, queued);
        Ok(contending.answer().await?.map(|hold| Guard::new(hold, &self.recipe)))
    }
}

/// When it is dropped, the owner's next task no longer sees a task that waits.
struct Unqueued<'a>(&'a QueuedFlag);

impl Drop for Unqueued<'_> {
    fn drop(&mut self) {
        self.0.send_replace(false);
    }
}

async fn is_queued(queued: &QueuedFlag) {
    // The sender is there as long as we have a reference to it.
    let _ = queued.subscribe().wait_for(|queued| *queued).await;
}
