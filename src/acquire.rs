//! Acquiring a lock that one contender stands for: how long a caller waits, and who re-enters.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::timeout;

use crate::admission::Family;
use crate::contender_name::Kind;
use crate::error::AcquireError;
use crate::guard::Held;
use crate::metrics;
use crate::owner::{Kept, Owner, Slot};
use crate::queue::Queued;
use crate::recipe::{Patience, Recipe};
use crate::session::clock::Moment;

/// A recipe with the rule that says who holds.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    pub(crate) recipe: Recipe,
    pub(crate) family: Family,
    /// For how long a node is kept that nobody of this session wants, and whether each hold has one of its own.
    pub(crate) retention: Duration,
    pub(crate) node_per_hold: bool,
}

impl Queue {
    pub(crate) fn new(recipe: Recipe, family: Family) -> Self {
        Self { recipe, family, retention: Duration::ZERO, node_per_hold: false }
    }

    pub(crate) async fn acquire(
        &self,
        kind: Kind,
        patience: Patience,
    ) -> Result<Option<Arc<Held>>, AcquireError> {
        match Owner::current() {
            None => self.contend(kind, None, patience, Queued::default()).await,
            Some(owner) => self.acquire_as(&owner, kind, patience).await,
        }
    }

    /// A read beside a write hold, which needs no turn; for the owner that acquired that, if one did.
    pub(crate) async fn read_beside(
        &self,
        write: &Arc<Held>,
        slot: Option<&Slot>,
    ) -> Result<Arc<Held>, AcquireError> {
        let Some(slot) = slot else { return self.beside(write).await };
        // While the write hold is there, whoever else of the owner's has it locked is served at once.
        let mut kept = slot.kept.lock().await;
        if let Some(read) = kept.shared.upgrade().filter(|read| read.loss().is_none()) {
            return Ok(read);
        }
        let read = self.beside(write).await?;
        kept.shared = Arc::downgrade(&read);
        Ok(read)
    }

    async fn beside(&self, write: &Arc<Held>) -> Result<Arc<Held>, AcquireError> {
        loop {
            let queued = Queued::default();
            let read = self.contend(Kind::Read, Some(write), Patience::Forever, queued).await?;
            if let Some(read) = read {
                return Ok(read);
            }
        }
    }

    /// What `owner` has of this lock.
    pub(crate) fn slot(&self, owner: &Owner) -> Arc<Slot> {
        let curator = Arc::as_ptr(self.recipe.curator.session()) as usize;
        owner.slot(curator, &self.recipe.path, &self.family)
    }

    /// Acquires as `owner`: nested if it holds the lock, in turn if another of its tasks acquires.
    async fn acquire_as(
        &self,
        owner: &Owner,
        kind: Kind,
        patience: Patience,
    ) -> Result<Option<Arc<Held>>, AcquireError> {
        let began = Moment::now();
        let slot = self.slot(owner);
        let locked = match patience {
            Patience::Forever => Some(slot.kept.lock().await),
            // Another task of this owner is about to have it, or has to wait for somebody.
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
        self.acquire_in(&slot, &mut kept, kind, patience).await
    }

    async fn acquire_in(
        &self,
        slot: &Slot,
        kept: &mut Kept,
        kind: Kind,
        patience: Patience,
    ) -> Result<Option<Arc<Held>>, AcquireError> {
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
                return Err(AcquireError::Upgrade { path: self.recipe.path.to_string() });
            }
            None
        };
        let held = self.contend(kind, beside.as_ref(), patience, slot.queued.clone()).await?;
        let place = if kind == Kind::Read { &mut kept.shared } else { &mut kept.exclusive };
        *place = held.as_ref().map_or_else(Weak::new, Arc::downgrade);
        Ok(held)
    }

    /// What the owner holds, if it does; an error if it has lost that.
    fn still(&self, kept: &Weak<Held>) -> Result<Option<Arc<Held>>, AcquireError> {
        let Some(held) = kept.upgrade() else { return Ok(None) };
        match held.loss() {
            None => Ok(Some(held)),
            Some(loss) => Err(AcquireError::HoldLost { path: self.recipe.path.to_string(), loss }),
        }
    }

    async fn contend(
        &self,
        kind: Kind,
        beside: Option<&Arc<Held>>,
        patience: Patience,
        queued: Queued,
    ) -> Result<Option<Arc<Held>>, AcquireError> {
        let Recipe { curator, path, .. } = &self.recipe;
        let mut request = self.recipe.request(path, self.family.clone(), kind, patience);
        if kind == Kind::Read {
            // Also beside a write hold.
            request.counted = request.counted.as_of(metrics::Recipe::ReadLock);
        }
        (request.retention, request.node_per_hold) = (self.retention, self.node_per_hold);
        request.beside = beside.map(|write| write.state().clone());
        let mut contending = curator.queues().contend(request, queued.clone());
        let answer = match patience {
            Patience::Forever | Patience::OnlyIfFree => contending.answer().await,
            Patience::For(limit) => match timeout(limit, contending.answer()).await {
                Ok(answer) => answer,
                Err(_) => return self.out_of_patience(patience, &queued),
            },
        };
        let held = |hold| Arc::new(Held::new(hold, path.clone(), curator.clone()));
        Ok(answer?.map(held))
    }

    fn out_of_patience(
        &self,
        patience: Patience,
        queued: &Queued,
    ) -> Result<Option<Arc<Held>>, AcquireError> {
        out_of_patience(&self.recipe, patience, queued).map(|()| None)
    }
}

/// Busy, if the servers said so; else there was no answer.
pub(crate) fn out_of_patience(
    recipe: &Recipe,
    patience: Patience,
    queued: &Queued,
) -> Result<(), AcquireError> {
    match patience {
        Patience::For(waited) if !*queued.borrow() => {
            Err(AcquireError::TimedOut { path: recipe.path.to_string(), waited })
        }
        _ => Ok(()),
    }
}

/// What is left of a limit.
pub(crate) fn left(limit: Duration, began: Moment) -> Duration {
    limit.saturating_sub(began.elapsed())
}

/// When it is dropped, who comes then does not find one that waits.
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
