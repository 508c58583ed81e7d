//! Acquiring a lock that one contender stands for: how long a caller waits, and which owner re-enters.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::timeout;

use super::hold::Held;
use super::owner::{Kept, Owner, Slot};
use super::participants::Participant;
use super::recipe::{Patience, Recipe};
use crate::clock::Moment;
use crate::error::{Error, ErrorKind};
use crate::metrics;
use crate::queue::Queued;
use crate::queue::rules::admission::Family;
use crate::queue::rules::node_name::Kind;

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
    ) -> Result<Option<Arc<Held>>, Error> {
        match self.slot() {
            None => self.contend(kind, None, patience, Queued::default()).await,
            Some(slot) => self.acquire_as(&slot, kind, patience).await,
        }
    }

    /// A read beside a write hold, which needs no turn; for the owner that acquired that, if one did.
    pub(crate) async fn read_beside(
        &self,
        write: &Arc<Held>,
        slot: Option<&Slot>,
    ) -> Result<Arc<Held>, Error> {
        let Some(slot) = slot else { return self.beside(write).await };
        // While the write hold is there, another task of the owner that has it locked is served at once.
        let mut kept = slot.kept.lock().await;
        if let Some(read) = kept.shared.upgrade().filter(|read| read.view().is_held()) {
            return Ok(read);
        }
        let read = self.beside(write).await?;
        kept.shared = Arc::downgrade(&read);
        Ok(read)
    }

    async fn beside(&self, write: &Arc<Held>) -> Result<Arc<Held>, Error> {
        loop {
            let queued = Queued::default();
            let read = self.contend(Kind::Read, Some(write), Patience::Forever, queued).await?;
            if let Some(read) = read {
                return Ok(read);
            }
        }
    }

    /// Without a bound on its patience it never comes back without a hold or an error.
    pub(crate) async fn wait(&self, kind: Kind) -> Result<Arc<Held>, Error> {
        loop {
            if let Some(held) = self.acquire(kind, Patience::Forever).await? {
                return Ok(held);
            }
        }
    }

    /// All that hold or wait; after our node, the tasks of this session that wait under it.
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

    /// What the present owner has of this lock, if there is one.
    pub(crate) fn slot(&self) -> Option<Arc<Slot>> {
        let curator = Arc::as_ptr(self.recipe.curator.session()) as usize;
        Owner::present(curator, &self.recipe.path, &self.family)
    }

    /// Acquires as an owner: nested if it holds the lock, in turn if another of its tasks acquires.
    async fn acquire_as(
        &self,
        slot: &Slot,
        kind: Kind,
        patience: Patience,
    ) -> Result<Option<Arc<Held>>, Error> {
        let began = Moment::now();
        let locked = match patience {
            Patience::Forever => Some(slot.kept.lock().await),
            // Another task of this owner is about to have it, or waits for another contender.
            Patience::OnlyIfFree => tokio::select! {
                biased;
                kept = slot.kept.lock() => Some(kept),
                () = is_queued(&slot.queued) => None,
            },
            Patience::For(limit) => timeout(limit, slot.kept.lock()).await.ok(),
        };
        let Some(mut kept) = locked else {
            return self.out_of_patience(patience, &slot.queued);
        };
        let patience = match patience {
            Patience::For(limit) => Patience::For(left(limit, began)),
            patience => patience,
        };
        let _unqueued = Unqueued(&slot.queued);
        self.acquire_in(slot, &mut kept, kind, patience).await
    }

    async fn acquire_in(
        &self,
        slot: &Slot,
        kept: &mut Kept,
        kind: Kind,
        patience: Patience,
    ) -> Result<Option<Arc<Held>>, Error> {
        // The node of a lost hold stays until its guard goes: to contend with it would be to wait for oneself.
        let beside = if kind == Kind::Read {
            if let Some(held) = self.still(&kept.shared)? {
                return Ok(Some(held));
            }
            self.still(&kept.exclusive)?
        } else {
            if let Some(held) = self.still(&kept.exclusive)? {
                return Ok(Some(held));
            }
            if self.still(&kept.shared)?.is_some() {
                let path = &self.recipe.path;
                let text = format!(
                    "this owner reads {path}, and its own read lock would keep its write lock out; release the read guards first"
                );
                return Err(Error::new(ErrorKind::WouldDeadlock, text).at(path));
            }
            None
        };
        let held = self.contend(kind, beside.as_ref(), patience, slot.queued.clone()).await?;
        let place = if kind == Kind::Read { &mut kept.shared } else { &mut kept.exclusive };
        *place = held.as_ref().map_or_else(Weak::new, Arc::downgrade);
        Ok(held)
    }

    /// What the owner holds, if it does; an error if it has lost that.
    fn still(&self, kept: &Weak<Held>) -> Result<Option<Arc<Held>>, Error> {
        let Some(held) = kept.upgrade() else { return Ok(None) };
        match held.view().loss() {
            None => Ok(Some(held)),
            Some(loss) => Err(Error::lost(&self.recipe.path, loss)
                .while_doing("this owner has a guard that must be dropped first")),
        }
    }

    async fn contend(
        &self,
        kind: Kind,
        beside: Option<&Arc<Held>>,
        patience: Patience,
        queued: Queued,
    ) -> Result<Option<Arc<Held>>, Error> {
        let Recipe { curator, path, .. } = &self.recipe;
        let mut request = self.recipe.request(path, self.family.clone(), kind, patience);
        if kind == Kind::Read {
            // Also beside a write hold.
            request.counted = request.counted.as_of(metrics::Recipe::ReadLock);
        }
        (request.retention, request.node_per_hold) = (self.retention, self.node_per_hold);
        request.beside = beside.map(|write| write.view().state().clone());
        let mut contending = curator.queues().contend(request, queued.clone());
        let answer = match patience {
            Patience::Forever | Patience::OnlyIfFree => contending.answer().await,
            Patience::For(limit) => match timeout(limit, contending.answer()).await {
                Ok(answer) => answer,
                Err(_) => return self.out_of_patience(patience, &queued),
            },
        };
        Ok(answer?.map(|hold| Held::new(hold, &self.recipe)))
    }

    fn out_of_patience(
        &self,
        patience: Patience,
        queued: &Queued,
    ) -> Result<Option<Arc<Held>>, Error> {
        out_of_patience(&self.recipe, patience, queued).map(|()| None)
    }
}

/// Busy, if the servers said so; else there was no answer.
pub(crate) fn out_of_patience(
    recipe: &Recipe,
    patience: Patience,
    queued: &Queued,
) -> Result<(), Error> {
    match patience {
        Patience::For(waited) if !*queued.borrow() => {
            Err(Error::unavailable(&recipe.path, Some(waited)))
        }
        _ => Ok(()),
    }
}

/// What is left of a limit.
pub(crate) fn left(limit: Duration, began: Moment) -> Duration {
    limit.saturating_sub(began.elapsed())
}

/// When it is dropped, the next task of the owner finds none that waits.
struct Unqueued<'a>(&'a Queued);

impl Drop for Unqueued<'_> {
    fn drop(&mut self) {
        self.0.send_replace(false);
    }
}

async fn is_queued(queued: &Queued) {
    // The sender is there as long as we have a reference to it.
    let _ = queued.subscribe().wait_for(|queued| *queued).await;
}
