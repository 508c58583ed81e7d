//! Acquires leases. As in Curator, a caller holds the mutex `locks` while it creates and counts the nodes of its leases.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use super::guards::Guards;
use super::hold::Guard;
use super::participants::Participant;
use super::recipe::{Patience, Recipe};
use crate::client::Failure;
use crate::error::Error;
use crate::metrics::Lock;
use crate::queue::rules::admission::Family;
use crate::queue::rules::filter::ContenderFilter;
use crate::queue::rules::node_name::{Kind, kind_of};
use crate::queue::{LeaseRequest, Limit, QueuedFlag, Request};
use crate::session::Session;
use crate::session::lease::LossPolicy;
use crate::session::tries::{Effect, Failed, tried};

/// A path with leases, and how many there are.
#[derive(Clone, Debug)]
pub(crate) struct Leasing {
    pub(crate) recipe: Recipe,
    pub(crate) limit: Limit,
    /// Where one at a time queues for leases.
    locks: Recipe,
    leases: Recipe,
    /// The session in which others were looked for.
    looked_in: Arc<AtomicI64>,
}

impl Leasing {
    pub(crate) fn new(recipe: Recipe, limit: Limit) -> Self {
        let (locks, leases) = (recipe.below("locks"), recipe.below("leases"));
        Self { recipe, limit, locks, leases, looked_in: Arc::default() }
    }

    /// All of `count`, however long it takes.
    pub(crate) async fn wait(&self, count: usize) -> Result<Guards, Error> {
        Patience::forever(|patience| self.acquire(count, patience)).await
    }

    /// All of `count`, or none.
    pub(crate) async fn acquire(
        &self,
        count: usize,
        patience: Patience,
    ) -> Result<Option<Guards>, Error> {
        self.limit.check(&self.recipe.path, count)?;
        let (full, behind) = (QueuedFlag::default(), QueuedFlag::default());
        let mut acquiring = self.recipe.counted.acquiring();
        let asking = async {
            let answer = self.ask(count, patience, &full, &behind).await;
            acquiring.answered(&answer);
            answer
        };
        self.recipe.in_time(patience, || *full.borrow() || *behind.borrow(), asking).await
    }

    async fn ask(
        &self,
        count: usize,
        patience: Patience,
        full: &QueuedFlag,
        behind: &QueuedFlag,
    ) -> Result<Option<Guards>, Error> {
        self.look_for_others();
        if matches!(patience, Patience::NoWait) && self.is_full(count).await? {
            return Ok(None);
        }
        let exclusive = Family::Exclusive(ContenderFilter::Curator);
        let request = LeaseRequest {
            lease: self.leases.request(Family::Leases, Kind::Lease, patience),
            lock: Request {
                // It keeps leases in order, not safe: to be in doubt does not end it.
                loss_policy: LossPolicy::SessionExpired,
                // Of its own.
                counted: Lock::default(),
                // The leases were looked at. A waiter in `locks` has nodes among them.
                check_first: false,
                ..self.locks.request(exclusive, Kind::Lock, patience)
            },
            count,
            limit: self.limit.clone(),
            full: full.clone(),
            behind: behind.clone(),
        };
        let contending = self.recipe.curator.queues().contend_for_leases(request);
        let leases = contending.answer().await?;
        let guard = |hold| Guard::new(hold, &self.recipe);
        Ok(leases.map(|leases| Guards::new(leases.into_iter().map(guard).collect())))
    }

    /// Warns of contenders right under the path, once in a session: they are of a recipe that this one does not keep out.
    fn look_for_others(&self) {
        let connection = self.recipe.curator.connection();
        let Ok(session) = connection.current_session() else { return };
        if self.looked_in.swap(session.session_id(), Ordering::Relaxed) == session.session_id() {
            return;
        }
        let path = self.recipe.path.clone();
        connection.spawn(async move {
            let Ok(client) = session.client() else { return };
            let listing = tokio::select! {
                biased;
                () = session.ended().cancelled() => return,
                listing = client.list(path.as_str()) => listing,
            };
            let children = listing.map(|listing| listing.children).unwrap_or_default();
            if let Some(child) = children.iter().find(|child| kind_of(child).is_some()) {
                tracing::warn!(%path, child, "a contender of another recipe, which a semaphore does not keep out");
            }
        });
    }

    async fn is_full(&self, count: usize) -> Result<bool, Error> {
        let Recipe { curator, path: leases, retry, .. } = &self.leases;
        let list = |session: Arc<Session>, _| async move {
            let caught_up = async {
                let borrowed = session.borrow_client()?;
                // A server that lags would count leases whose release was confirmed elsewhere.
                session.caught_up(&borrowed.client, |client| client.list(leases.as_str())).await
            };
            match caught_up.await {
                Ok(listing) => Ok(listing.children.len()),
                Err(Failure::NoNode) => Ok(0),
                Err(failure) => Err(Failed::at(leases, "list", failure)),
            }
        };
        let there = tried(curator.connection(), leases, retry, Effect::Harmless, list).await?;
        Ok(there + count > self.limit.now())
    }

    /// The holders of leases, then the waiters.
    pub(crate) async fn participants(&self) -> Result<Vec<Participant>, Error> {
        let family = Family::Exclusive(ContenderFilter::Curator);
        let waiting = self.locks.participants(&family).await?;
        let mut all = self.leases.participants(&Family::Leases).await?;
        all.sort_by_key(|lease| lease.fencing_token);
        let mut waiting = waiting.into_iter().map(Participant::waiting);
        if let Some(first) = waiting.next() {
            // It alone makes leases, so those that it does not hold yet are the newest. How many it asks for is not known:
            // as many as are too many. Younger ones of its session may be held by others.
            let of_first = |lease: &Participant| {
                let is_younger =
                    first.fencing_token.is_some() && lease.fencing_token > first.fencing_token;
                is_younger && lease.session_id == first.session_id
            };
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
