//! Acquiring leases: the mutex `locks` beside them is held while their nodes are made and counted, as Curator does.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use tokio::sync::{Mutex, watch};
use tokio::time::timeout;

use crate::acquire::out_of_patience;
use crate::admission::Family;
use crate::client::{ChildrenWatch, Failure};
use crate::contender::{Hold, LeaseRequest, Limit, Queued, Request, changed, contend_for_leases};
use crate::contender_filter::ContenderFilter;
use crate::contender_name::{Kind, kind_of};
use crate::error::AcquireError;
use crate::guard::Held;
use crate::lock_path::LockPath;
use crate::metrics::{Lock, Outcome};
use crate::participants::{Participant, participants};
use crate::reading::reading;
use crate::recipe::{Patience, Recipe};
use crate::session::epoch::Epoch;
use crate::session::lease::LossPolicy;

/// A path with leases, and how many there are.
#[derive(Clone, Debug)]
pub(crate) struct Leasing {
    pub(crate) recipe: Recipe,
    pub(crate) limit: Limit,
    /// Where one at a time queues for leases.
    locks: LockPath,
    pub(crate) leases: LockPath,
    /// The session in which others were looked for.
    looked_in: Arc<AtomicI64>,
    counting: Arc<Counting>,
}

/// How the tries of a process that wait behind another holder of the mutex share their listings: the one that has the
/// turn lists, and the others go by what it finds.
#[derive(Debug, Default)]
struct Counting {
    turn: Mutex<()>,
    /// How many listings were begun.
    listings: AtomicU64,
    counted: watch::Sender<Counted>,
}

/// How many leases there were in a listing, and which one that was.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    listing: u64,
    leases: usize,
}

impl Leasing {
    pub(crate) fn new(recipe: Recipe, limit: Limit) -> Self {
        let child = |name| recipe.path.join(&LockPath::segment(name));
        let (locks, leases) = (child("locks"), child("leases"));
        Self { recipe, limit, locks, leases, looked_in: Arc::default(), counting: Arc::default() }
    }

    /// All of `count`, or none.
    pub(crate) async fn acquire(
        &self,
        count: usize,
        patience: Patience,
    ) -> Result<Option<Vec<Arc<Held>>>, AcquireError> {
        self.limit.check(&self.recipe.path, count)?;
        let mut acquiring = self.recipe.counted.acquiring();
        let acquired = self.acquire_in_time(count, patience).await;
        acquiring.ended(match (&acquired, patience) {
            (Ok(None) | Err(AcquireError::TimedOut { .. }), Patience::For(_)) => Outcome::GivenUp,
            (acquired, _) => Outcome::of(acquired),
        });
        acquired
    }

    async fn acquire_in_time(
        &self,
        count: usize,
        patience: Patience,
    ) -> Result<Option<Vec<Arc<Held>>>, AcquireError> {
        self.look_for_others();
        if matches!(patience, Patience::OnlyIfFree) && self.is_full(count).await? {
            return Ok(None);
        }
        let (full, behind) = (Queued::default(), Queued::default());
        let (locked, is_locked) = watch::channel(false);
        let exclusive = Family::Exclusive(ContenderFilter::Curator);
        let request = LeaseRequest {
            lease: self.recipe.request(&self.leases, Family::Leases, Kind::Lease, patience),
            lock: Request {
                // It keeps leases in order, not safe: to be in doubt does not end it.
                loss_policy: LossPolicy::SessionExpired,
                // Of its own.
                counted: Lock::default(),
                ..self.recipe.request(&self.locks, exclusive, Kind::Lock, Patience::Forever)
            },
            count,
            limit: self.limit.clone(),
            full: full.clone(),
            behind: behind.clone(),
            locked,
        };
        let contending = contend_for_leases(self.recipe.curator.contenders(), request);
        let leases = match patience {
            Patience::Forever => contending.answer().await?,
            // Whoever has the mutex may be about to take a lease, or wait for one; then it is full.
            Patience::OnlyIfFree => tokio::select! {
                biased;
                leases = contending.answer() => leases?,
                () = full_while_not(is_locked, || self.until_full(count)) => None,
            },
            Patience::For(limit) => match timeout(limit, contending.answer()).await {
                Ok(leases) => leases?,
                Err(_) => {
                    let said = if *full.borrow() { &full } else { &behind };
                    return out_of_patience(&self.recipe, patience, said).map(|()| None);
                }
            },
        };
        Ok(leases.map(|leases| self.held(leases)))
    }

    fn held(&self, leases: Vec<Hold>) -> Vec<Arc<Held>> {
        let Recipe { path, curator, .. } = &self.recipe;
        let held = |hold| Arc::new(Held::new(hold, path.clone(), curator.clone()));
        leases.into_iter().map(held).collect()
    }

    /// Warns of contenders right under the path, once in a session: they are of a recipe that this one does not keep out.
    fn look_for_others(&self) {
        let session = self.recipe.curator.session();
        let Ok(epoch) = session.present_epoch() else { return };
        if self.looked_in.swap(epoch.session_id(), Ordering::Relaxed) == epoch.session_id() {
            return;
        }
        let path = self.recipe.path.clone();
        session.spawn(async move {
            let Ok(client) = epoch.client() else { return };
            let listing = tokio::select! {
                biased;
                () = epoch.over().cancelled() => return,
                listing = client.list(path.as_str()) => listing,
            };
            let children = listing.map(|listing| listing.children).unwrap_or_default();
            if let Some(child) = children.iter().find(|child| kind_of(child).is_some()) {
                tracing::warn!(%path, child, "a contender of another recipe, which a semaphore does not keep out");
            }
        });
    }

    async fn is_full(&self, count: usize) -> Result<bool, AcquireError> {
        let (counted, _) = self.count(false).await?;
        Ok(counted.leases + count > self.limit.now())
    }

    /// Counts the leases, with a watch for the next change where one is wanted and there is room for it.
    async fn count(&self, watched: bool) -> Result<(Counted, Option<ChildrenWatch>), AcquireError> {
        let (leases, Recipe { curator, retry, .. }) = (self.leases.as_str(), &self.recipe);
        let list = |epoch: Arc<Epoch>| async move {
            let listing = self.counting.listings.fetch_add(1, Ordering::Relaxed) + 1;
            let borrowed = epoch.borrow_client()?;
            // A server that lags would count leases whose release was confirmed elsewhere.
            let listed = match epoch.room_at_once(leases).filter(|_| watched) {
                Some(room) => {
                    let listed = epoch
                        .caught_up(&borrowed.client, |client| client.list_and_watch(leases))
                        .await;
                    listed.map(|(listing, watch)| (listing, Some(watch.with(room))))
                }
                None => {
                    let listed =
                        epoch.caught_up(&borrowed.client, |client| client.list(leases)).await;
                    listed.map(|listing| (listing, None))
                }
            };
            match listed {
                Ok((there, watch)) => {
                    Ok((Counted { listing, leases: there.children.len() }, watch))
                }
                Err(Failure::NoNode) => Ok((Counted { listing, leases: 0 }, None)),
                Err(failure) => Err(failure),
            }
        };
        reading(curator.session(), &self.leases, retry, list).await
    }

    /// Waits until there are too few.
    async fn until_full(&self, count: usize) -> Result<(), AcquireError> {
        let counting = &self.counting;
        let begun = counting.listings.load(Ordering::Relaxed);
        let (mut counted, mut limit) = (counting.counted.subscribe(), self.limit.clone());
        loop {
            let now = limit.now();
            // An older listing may be from before a release that this caller saw confirmed.
            let is_full = |last: &Counted| last.listing > begun && last.leases + count > now;
            let turn = tokio::select! {
                biased;
                () = async { drop(counted.wait_for(is_full).await) } => return Ok(()),
                () = limit.changed() => continue,
                turn = counting.turn.lock() => turn,
            };
            let full = self.list_until_full(count).await;
            drop(turn);
            return full;
        }
    }

    async fn list_until_full(&self, count: usize) -> Result<(), AcquireError> {
        let mut limit = self.limit.clone();
        loop {
            let (counted, watch) = self.count(true).await?;
            self.counting.counted.send_replace(counted);
            if counted.leases + count > limit.now() {
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
        all.sort_by_key(|lease| lease.czxid);
        let mut waiting =
            waiting.into_iter().map(|waiting| Participant { holds: false, ..waiting });
        if let Some(first) = waiting.next() {
            // It alone makes leases, so those that it does not hold yet are the newest. How many it asks for nobody tells:
            // so many as are too many. Younger ones of its session may be held by others.
            let of_first =
                |lease: &Participant| lease.session == first.session && lease.czxid > first.czxid;
            for lease in all.iter_mut().skip(self.limit.now()) {
                lease.holds = !of_first(lease);
            }
            // They stand for it; also if it holds them, and is about to leave.
            if !all.iter().any(of_first) {
                all.push(first);
            }
        }
        all.extend(waiting);
        all.sort_by_key(|participant| !participant.holds);
        Ok(all)
    }
}

/// Waits until `until_full` says so, while the mutex is not ours: then our own nodes would count. Its errors are left to
/// the contender's task.
async fn full_while_not<F>(mut is_locked: watch::Receiver<bool>, until_full: impl Fn() -> F)
where
    F: Future<Output = Result<(), AcquireError>>,
{
    while is_locked.wait_for(|is_locked| !is_locked).await.is_ok() {
        let full = tokio::select! {
            biased;
            locked = async { is_locked.wait_for(|is_locked| *is_locked).await.is_ok() } => {
                // The sender is dropped with the task that contends, whose answer is about to be polled.
                if locked { continue } else { break }
            }
            full = until_full() => full,
        };
        match full {
            // A listing that another try made may have our own nodes, which are made after the mutex is noted.
            Ok(()) if *is_locked.borrow() => {}
            Ok(()) => return,
            Err(_) => break,
        }
    }
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_contender_that_has_ended_is_not_asked_again_and_again() {
        let (sender, receiver) = watch::channel(false);
        drop(sender);
        assert!(full_while_not(receiver, std::future::pending).now_or_never().is_none());
    }

    #[test]
    fn what_was_counted_after_the_mutex_became_ours_is_not_full() {
        let (sender, receiver) = watch::channel(false);
        let until_full = || async {
            sender.send_replace(true);
            Ok(())
        };
        assert!(full_while_not(receiver, until_full).now_or_never().is_none());
    }

    #[test]
    fn it_is_full_only_while_the_mutex_is_not_ours() {
        let (sender, receiver) = watch::channel(true);
        let mut waiting = Box::pin(full_while_not(receiver, || std::future::ready(Ok(()))));
        assert!(waiting.as_mut().now_or_never().is_none());
        sender.send_replace(false);
        assert!(waiting.as_mut().now_or_never().is_some());
    }
}
