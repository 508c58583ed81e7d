//! [`Permits`]: the places of a semaphore. As in Curator, a caller holds the mutex at `locks` while it creates the nodes of its
//! permits under `leases` and counts the children there.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use crate::error::{Error, ErrorKind};
use crate::queue::rules::admission::Family;
use crate::queue::rules::filter::ContenderFilter;
use crate::queue::rules::node_name::{Kind, kind_of};
use crate::queue::{Limit, PermitRequest, QueuedFlag, Request};
use crate::recipes::shared::guards::Guards;
use crate::recipes::shared::hold::Guard;
use crate::recipes::shared::participants::Participant;
use crate::recipes::shared::recipe::{Patience, Recipe};
use crate::session::lease::LossPolicy;

/// The permits of one path, and how many there are.
#[derive(Clone, Debug)]
pub(super) struct Permits {
    pub(super) recipe: Recipe,
    pub(super) limit: Limit,
    /// The mutex that callers hold one at a time.
    locks: Recipe,
    /// The request for that mutex.
    mutex: Arc<Request>,
    /// The parent of the permits' nodes.
    leases: Recipe,
    /// The request for each permit.
    permit: Arc<Request>,
    /// The id of the session in which other recipes' contenders were searched for.
    checked_in: Arc<AtomicI64>,
}

impl Permits {
    pub(super) fn new(recipe: Recipe, limit: Limit) -> Arc<Self> {
        let locks = recipe.internal(recipe.path.below("locks"));
        let exclusive = Family::Exclusive(ContenderFilter::Curator);
        let mut mutex = locks.request(exclusive, Kind::Lock);
        // The mutex only keeps permits in order. A doubt about it is no reason to give it up.
        mutex.waiter_mut().term = LossPolicy::SessionExpired.into();
        let leases = Recipe { path: recipe.path.below("leases"), ..recipe.clone() };
        let permit = Arc::new(leases.request(Family::Leases, Kind::Lease));
        Arc::new(Self {
            recipe,
            limit,
            locks,
            mutex: Arc::new(mutex),
            leases,
            permit,
            checked_in: Arc::default(),
        })
    }

    pub(super) fn set_retention(&mut self, retention: Duration) {
        Arc::make_mut(&mut self.permit).waiter_mut().retention = retention;
    }

    /// Waits until all of `count` are held, or patience ends.
    pub(super) async fn acquire(&self, count: usize, patience: Patience) -> Result<Guards, Error> {
        self.limit.check(&self.recipe.path, count)?;
        self.recipe.check_retention(&self.permit.waiter)?;
        let queued = QueuedFlag::default();
        let acquiring = async {
            let mut acquiring = self.recipe.counted.acquiring();
            let answer = self.contend(count, patience, &queued).await;
            acquiring.answered(&answer);
            answer
        };
        let acquired = self.recipe.in_time(patience, || queued.is_set(), acquiring).await;
        // The error of the queue names the parent of the nodes.
        acquired.map_err(|error| if error.is_busy() { self.busy(count) } else { error })
    }

    fn busy(&self, count: usize) -> Error {
        let path = &self.recipe.path;
        let text = format!("too few leases of {path} are free: {count} needed");
        Error::new(ErrorKind::Busy, text).at(path)
    }

    /// `queued` is set when too few permits are free, or another caller has the mutex.
    async fn contend(
        &self,
        count: usize,
        patience: Patience,
        queued: &QueuedFlag,
    ) -> Result<Guards, Error> {
        self.warn_of_others();
        let mut permit = self.permit.clone();
        if matches!(patience, Patience::NoWait { .. }) {
            Arc::make_mut(&mut permit).waiter_mut().no_wait = true;
        }
        let acquiring = self.recipe.curator.queues().acquire_permits(PermitRequest {
            permit,
            mutex: self.mutex.clone(),
            count,
            limit: self.limit.clone(),
            queued: queued.clone(),
        });
        let holds = acquiring.await?;
        let guard = |hold| Guard::new(Arc::new(hold), &self.recipe).with_waited(queued.is_set());
        let guards = holds.into_iter().map(guard);
        Ok(Guards::new(guards.collect()))
    }

    /// Warns once in a session of contenders right under the path: they belong to a recipe that a semaphore does not keep out.
    fn warn_of_others(&self) {
        let connection = self.recipe.curator.connection();
        let Ok(session) = connection.current_session() else { return };
        if self.checked_in.swap(session.session_id(), Ordering::Relaxed) == session.session_id() {
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

    /// The holders of permits, then the waiters.
    pub(super) async fn participants(&self) -> Result<Vec<Participant>, Error> {
        let family = Family::Exclusive(ContenderFilter::Curator);
        let waiting = self.locks.participants(&family).await?;
        let mut all = self.leases.participants(&Family::Leases).await?;
        all.sort_by_key(|permit| permit.fencing_token);
        let mut waiting = waiting.into_iter().map(Participant::waiting);
        if let Some(first) = waiting.next() {
            // The first waiter has the mutex, so it alone creates permits, and those that it does not hold yet are the newest.
            // The number of these is not known: the nodes beyond the limit are taken for its own. Other callers may hold younger
            // permits of the same session.
            let of_first = |permit: &Participant| {
                let is_younger =
                    first.fencing_token.is_some() && permit.fencing_token > first.fencing_token;
                is_younger && permit.session_id == first.session_id
            };
            for permit in all.iter_mut().skip(self.limit.now()) {
                permit.holds = !of_first(permit);
            }
            // The first waiter's permits stand for it, even if it holds them and is about to release the mutex.
            if !all.iter().any(of_first) {
                all.push(first);
            }
        }
        all.extend(waiting);
        all.sort_by_key(|participant| !participant.holds);
        Ok(all)
    }
}
