//! Acquiring leases: the mutex `locks` beside them is held while their nodes are made and counted, as Curator does.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use tokio::time::timeout;

use crate::acquire::out_of_patience;
use crate::admission::Family;
use crate::client::Failure;
use crate::contender::{
    Hold, LeaseContending, Limit, Queued, changed, contend, contend_for_leases,
};
use crate::contender_filter::ContenderFilter;
use crate::contender_name::{Kind, kind_of};
use crate::error::AcquireError;
use crate::guard::Held;
use crate::lock_path::LockPath;
use crate::participants::{Participant, participants};
use crate::reading::reading;
use crate::recipe::{Patience, Recipe};
use crate::session::clock::Moment;
use crate::session::epoch::Epoch;

/// A path with leases, and how many there are.
#[derive(Clone, Debug)]
pub(crate) struct Leasing {
    pub(crate) recipe: Recipe,
    pub(crate) limit: Limit,
    /// Where one at a time queues for leases.
    locks: LockPath,
    pub(crate) leases: LockPath,
    /// The session in which the path was seen to be of no other recipe.
    checked_in: Arc<AtomicI64>,
}

impl Leasing {
    pub(crate) fn new(recipe: Recipe, limit: Limit) -> Self {
        let child = |name| recipe.path.join(&LockPath::segment(name));
        let (locks, leases) = (child("locks"), child("leases"));
        Self { recipe, limit, locks, leases, checked_in: Arc::default() }
    }

    /// All of `count`, or none.
    pub(crate) async fn acquire(
        &self,
        count: usize,
        patience: Patience,
    ) -> Result<Option<Vec<Arc<Held>>>, AcquireError> {
        // A limit that can change may be zero for a while.
        let limit = match &self.limit {
            Limit::Fixed(_) => self.limit.now(),
            Limit::Live(_) => self.limit.now().max(1),
        };
        if count == 0 || count > limit {
            let path = self.recipe.path.to_string();
            return Err(AcquireError::LeaseCount { path, asked: count, limit });
        }
        let queued = Queued::default();
        let acquiring = self.acquire_at_last(count, patience, &queued);
        match patience {
            Patience::Forever | Patience::OnlyIfFree => acquiring.await,
            Patience::For(limit) => match timeout(limit, acquiring).await {
                Ok(acquired) => acquired,
                Err(_) => out_of_patience(&self.recipe, patience, &queued).map(|()| None),
            },
        }
    }

    async fn acquire_at_last(
        &self,
        count: usize,
        patience: Patience,
        queued: &Queued,
    ) -> Result<Option<Vec<Arc<Held>>>, AcquireError> {
        let began = Moment::now();
        let mut retry = self.recipe.retry.start();
        loop {
            let Some(lock) = self.lock(count, patience, queued).await? else { return Ok(None) };
            let leases = self.contend(count, patience, queued);
            tokio::select! {
                biased;
                leases = leases.answer() => {
                    // The lock is let go of by a task of the session's.
                    return Ok(leases?.map(|leases| self.held(leases)));
                }
                // Somebody else may have it now: to wait here would be in that one's way.
                () = lock.state().ended().cancelled() => {}
            }
            let Some(pause) = retry.next_pause(began.elapsed()) else {
                let (path, source) = (self.recipe.path.to_string(), None);
                return Err(AcquireError::RetriesExhausted { path, source });
            };
            self.recipe.curator.session().pause(pause).await;
        }
    }

    /// The right to make leases; `None` if there are too few, and the caller asked not to wait.
    async fn lock(
        &self,
        count: usize,
        patience: Patience,
        queued: &Queued,
    ) -> Result<Option<Hold>, AcquireError> {
        let family = Family::Exclusive(ContenderFilter::Curator);
        let request = self.recipe.request(&self.locks, family, Kind::Lock, Patience::Forever);
        let lock = async {
            let contenders = self.recipe.curator.contenders();
            let mut contending = contend(contenders, request, queued.clone());
            let (checked, lock) = tokio::join!(self.check_path(), contending.answer());
            checked?;
            lock
        };
        if !matches!(patience, Patience::OnlyIfFree) {
            return lock.await;
        }
        if self.is_full(count).await? {
            return Ok(None);
        }
        // Whoever has it may be about to take a lease, or wait for one; then it is full.
        tokio::select! {
            biased;
            lock = lock => lock,
            full = self.until_full(count) => full.map(|()| None),
        }
    }

    fn contend(&self, count: usize, patience: Patience, queued: &Queued) -> LeaseContending {
        let request = self.recipe.request(&self.leases, Family::Leases, Kind::Lease, patience);
        let contenders = self.recipe.curator.contenders();
        contend_for_leases(contenders, request, count, self.limit.clone(), queued.clone())
    }

    fn held(&self, leases: Vec<Hold>) -> Vec<Arc<Held>> {
        let Recipe { path, curator, .. } = &self.recipe;
        let held = |hold| Arc::new(Held::new(hold, path.clone(), curator.clone()));
        leases.into_iter().map(held).collect()
    }

    /// A contender right under the path is of another recipe, once in a session.
    async fn check_path(&self) -> Result<(), AcquireError> {
        let session = self.recipe.curator.session();
        let present = session.present_epoch().map_or(0, |epoch| epoch.session_id());
        if present != 0 && self.checked_in.load(Ordering::Relaxed) == present {
            return Ok(());
        }
        let path = &self.recipe.path;
        let list = |epoch: Arc<Epoch>| async move {
            match epoch.client()?.list(path.as_str()).await {
                Ok(listing) => Ok(listing.children),
                // Who may not look must trust.
                Err(Failure::NoNode | Failure::Refused(_)) => Ok(Vec::new()),
                Err(failure) => Err(failure),
            }
        };
        let children = reading(session, path, &self.recipe.retry, list).await?;
        if let Some(child) = children.into_iter().find(|child| kind_of(child).is_some()) {
            return Err(AcquireError::OtherRecipe { path: path.to_string(), child });
        }
        self.checked_in.store(present, Ordering::Relaxed);
        Ok(())
    }

    async fn is_full(&self, count: usize) -> Result<bool, AcquireError> {
        let (leases, Recipe { curator, retry, .. }) = (&self.leases, &self.recipe);
        let list = |epoch: Arc<Epoch>| async move {
            match epoch.client()?.list(leases.as_str()).await {
                Ok(listing) => Ok(listing.children.len()),
                Err(Failure::NoNode) => Ok(0),
                Err(failure) => Err(failure),
            }
        };
        let there = reading(curator.session(), leases, retry, list).await?;
        Ok(there + count > self.limit.now())
    }

    /// Waits until there are too few.
    async fn until_full(&self, count: usize) -> Result<(), AcquireError> {
        let (leases, Recipe { curator, retry, .. }) = (&self.leases, &self.recipe);
        let mut limit = self.limit.clone();
        loop {
            let list = |epoch: Arc<Epoch>| async move {
                match epoch.client()?.list_and_watch(leases.as_str()).await {
                    Ok((listing, watch)) => Ok((listing.children.len(), Some(watch))),
                    Err(Failure::NoNode) => Ok((0, None)),
                    Err(failure) => Err(failure),
                }
            };
            let (there, watch) = reading(curator.session(), leases, retry, list).await?;
            if there + count > limit.now() {
                return Ok(());
            }
            tokio::select! {
                () = changed(watch) => {}
                () = limit.changed() => {}
            }
        }
    }

    /// Who has leases, then who waits for them.
    pub(crate) async fn participants(&self) -> Result<Vec<Participant>, AcquireError> {
        let (session, retry) = (self.recipe.curator.session(), &self.recipe.retry);
        let family = Family::Exclusive(ContenderFilter::Curator);
        let waiting = participants(session, &self.locks, &family, retry).await?;
        let mut all = participants(session, &self.leases, &Family::Leases, retry).await?;
        let mut waiting =
            waiting.into_iter().map(|waiting| Participant { holds: false, ..waiting });
        // Whoever is first may have made leases that it does not hold yet.
        if let Some(first) = waiting.next() {
            let counted = all.len();
            for lease in &mut all {
                lease.holds = lease.session != first.session || lease.czxid < first.czxid;
            }
            if all[..counted].iter().all(|lease| lease.holds) {
                all.push(first);
            }
        }
        all.extend(waiting);
        all.sort_by_key(|participant| !participant.holds);
        Ok(all)
    }
}
