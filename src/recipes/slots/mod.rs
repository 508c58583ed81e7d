//! [`Slots`]: numbered places.
//!
//! ```text
//! <path>/locks, <path>/leases                      a semaphore of as many permits as there are slots
//! <path>/slots/<index>/_c_<guid>-lock-<number>     a mutex for each index
//! ```
//!
//! A holder has a permit and the mutex of its index. It acquires the permit first and releases it last, so fewer indexes are taken
//! than there are permits whenever a caller looks for one, and callers are served in the order of the semaphore. Uniqueness rests on
//! the mutex alone.
//!
//! An index can be taken without a permit for a while: if a third party deleted the permit's node, or if the delete of the mutex's
//! node was lost while that of the permit was confirmed. Then a caller looks again and again, with growing pauses.
//!
//! All reads go to the server of the session. A caller that knows of its permit reads a state of that server in which all earlier
//! holders of the permit have deleted the node of their mutex, because each node's delete is sent ahead of that of the permit.

mod guard;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::time::{Instant, sleep};

pub use self::guard::{SlotGuard, SlotHold};
use super::semaphore::InterProcessSemaphoreV2;
use super::shared::hold::Guard;
use super::shared::participants::{self, Participant};
use super::shared::recipe::{Patience, Recipe};
use super::shared::runs::impl_runs;
use crate::client::Failed;
use crate::curator::Curator;
use crate::error::{Error, ErrorKind};
use crate::lock_path::LockPath;
use crate::metrics;
use crate::queue::rules::admission::{Family, Rank, queue};
use crate::queue::rules::filter::ContenderFilter;
use crate::queue::rules::node_name::Kind;
use crate::queue::{QueuedFlag, Request};
use crate::random;
use crate::session::Session;
use crate::session::retry::{Idempotent, with_retry};

/// The largest number of slots. A caller may have to look at all of them.
const MOST: usize = 65_536;

/// The number of indexes that are listed in one trip.
const TOGETHER: usize = 64;

/// The pauses between two looks, while other callers look as well or no index is free.
const SHORTEST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The time for which a try looks although nodes without a permit take all indexes. A node that stays longer is as good as a holder's.
const PATIENCE: Duration = Duration::from_secs(1);

/// Numbered places: each holder has an index from 0 to N - 1 that no other live holder has. Use it for a worker number, a shard, or
/// the machine part of an id.
///
/// * **The lowest free index**, or the one that [`prefer`](Self::prefer) names if that is free.
/// * **Fair**: at most N hold. Each of the first N callers gets a slot at once, and later callers are served first come, first
///   served. The slot of a process that died is free when its session expires.
/// * **The holder knows first**: a [`SlotGuard`] is lost before another process can have its index.
///
/// All processes that use a path must agree on N. Tasks of one process contend as processes do.
///
/// ```no_run
/// # use zookeeper_recipes::{Curator, Error};
/// # async fn work_on(shard: usize) {}
/// # async fn example(curator: Curator) -> Result<(), Error> {
/// let shards = curator.slots("/workers/import", 64)?;
/// shards.with(async |slot| work_on(slot.index()).await).await // alone at this index among all processes
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is held until `acquire` or `run`"]
pub struct Slots {
    recipe: Recipe,
    permits: InterProcessSemaphoreV2,
    /// The request for the mutex of an index, with the path above the indexes.
    mutex: Arc<Request>,
    count: usize,
    preferred: Option<usize>,
}

impl_runs!(Slots, SlotHold);

impl Curator {
    /// Returns `count` slots at `path`, under the namespace, with the options of this handle.
    ///
    /// # Errors
    ///
    /// As for [`mutex`](Self::mutex); a count of zero, or above 65,536.
    pub fn slots(&self, path: impl AsRef<str>, count: usize) -> Result<Slots, Error> {
        let path = path.as_ref();
        let recipe = Recipe::new(self, path, metrics::Recipe::SLOTS)?;
        let limit = i32::try_from(count).ok().filter(|_| (1..=MOST).contains(&count));
        let Some(limit) = limit else {
            let value = format!("{count} for {path}");
            let reason = format!("it must be at least 1 and at most {MOST}");
            return Err(Error::invalid("count", value, &reason).at(path));
        };
        let exclusive = Family::Exclusive(ContenderFilter::Curator);
        let indexes = recipe.internal(recipe.path.below("slots"));
        let mut mutex = indexes.request(exclusive, Kind::Lock);
        mutex.waiter_mut().no_wait = true;
        Ok(Slots {
            permits: InterProcessSemaphoreV2::inside(recipe.clone(), limit),
            recipe,
            mutex: Arc::new(mutex),
            count,
            preferred: None,
        })
    }
}

impl Slots {
    /// Prefers `index`: an acquisition takes it if it is free, and otherwise the lowest free one. So a process that restarts keeps
    /// its number, if it remembers the number and its earlier session has ended.
    ///
    /// ```no_run
    /// # use zookeeper_recipes::{Curator, Error};
    /// # async fn example(curator: Curator, last: usize) -> Result<(), Error> {
    /// let slot = curator.slots("/workers/import", 64)?.prefer(last)?.acquire().await?;
    /// println!("worker {}", slot.index());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidInput`] if there is no such index.
    pub fn prefer(mut self, index: usize) -> Result<Self, Error> {
        if index >= self.count {
            let path = &self.recipe.path;
            let value = format!("{index} for {path}");
            let reason = format!("there are {} slots, and the first is 0", self.count);
            return Err(Error::invalid("preferred index", value, &reason).at(path));
        }
        self.preferred = Some(index);
        Ok(self)
    }

    /// Waits until a slot is held. If the session ends meanwhile, the call queues again in the next one.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future, at any point, gives up the place in the queue, and what was acquired.
    ///
    /// # Errors
    ///
    /// As for [`InterProcessMutex::acquire`](crate::InterProcessMutex::acquire).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    pub async fn acquire(&self) -> Result<SlotGuard, Error> {
        self.acquire_with(Patience::Forever).await
    }

    /// Acquires a slot if one is free. The future waits for the servers' answers and for callers that are entering, never for a
    /// holder.
    ///
    /// # Cancel safety
    ///
    /// As for [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Busy`] if at some instant of the call no slot was free; those of callers that came before it are not free. Also
    /// as for [`InterProcessSemaphoreV2::try_acquire`](crate::InterProcessSemaphoreV2::try_acquire).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    pub async fn try_acquire(&self) -> Result<SlotGuard, Error> {
        self.acquire_with(Patience::TRY).await
    }

    /// Waits until a slot is held, at most for `limit`: see
    /// [`InterProcessMutex::acquire_timeout`](crate::InterProcessMutex::acquire_timeout). A limit of zero is a try that does not wait
    /// for a connection.
    ///
    /// # Cancel safety
    ///
    /// As for [`acquire`](Self::acquire).
    ///
    /// # Errors
    ///
    /// As for [`InterProcessMutex::acquire_timeout`](crate::InterProcessMutex::acquire_timeout).
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    pub async fn acquire_timeout(&self, limit: Duration) -> Result<SlotGuard, Error> {
        self.acquire_with(Patience::within(limit)).await
    }

    /// Lists the holders, then the waiters, as the connected server knows them, without their indexes. The holder of an index is
    /// the holder of the mutex at [`index_path`](SlotHold::index_path).
    ///
    /// # Cancel safety
    ///
    /// The future only reads.
    ///
    /// # Errors
    ///
    /// As for [`acquire`](Self::acquire), where they apply to reading.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    pub async fn participants(&self) -> Result<Vec<Participant>, Error> {
        self.permits.participants().await
    }

    /// Returns the number of slots.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the path, under the namespace.
    pub fn path(&self) -> &str {
        self.recipe.path.as_str()
    }

    async fn acquire_with(&self, patience: Patience) -> Result<SlotGuard, Error> {
        let mut acquiring = self.recipe.counted.acquiring();
        let acquired = self.contend(patience).await;
        let acquired = acquired.map_err(|error| if error.is_busy() { self.busy() } else { error });
        acquiring.answered(&acquired);
        acquired
    }

    fn busy(&self) -> Error {
        let Self { recipe: Recipe { path, .. }, count, .. } = self;
        let text = format!("no slot of {path} is free, of {count}");
        Error::new(ErrorKind::Busy, text).at(path)
    }

    async fn contend(&self, patience: Patience) -> Result<SlotGuard, Error> {
        loop {
            let permit = self.permits.acquire_with(patience).await?;
            let queued = QueuedFlag::default();
            queued.set(permit.has_waited());
            let finding = self.find(patience, &queued);
            let found = tokio::select! {
                biased;
                _ = permit.lost() => continue,
                found = self.recipe.in_time(patience, || queued.is_set(), finding) => found,
            };
            let (index, mutex) = found?;
            let guard = SlotGuard::new(index, mutex, permit);
            // Both holds last now, so both are of the present session.
            if guard.is_held() {
                return Ok(guard);
            }
        }
    }

    /// Acquires the mutex of a free index. The caller has a permit.
    async fn find(&self, patience: Patience, queued: &QueuedFlag) -> Result<(usize, Guard), Error> {
        if let Some(index) = self.preferred
            && let Look::Free(_) = self.look(index..index + 1).await?
            && let Some(mutex) = self.try_mutex(index).await?
        {
            return Ok((index, mutex));
        }
        let mut pause = Duration::ZERO;
        let mut choice = 1;
        let mut full: Option<(Vec<String>, Instant)> = None;
        loop {
            match self.look(0..self.count).await? {
                Look::Free(free) => {
                    // Callers that look at the same time see the same indexes, and all but one lose. A loser chooses among more.
                    let nth = random::guid().as_u128() as usize % choice.min(free.len());
                    if let Some(mutex) = self.try_mutex(free[nth]).await? {
                        return Ok((free[nth], mutex));
                    }
                    choice = 2 * choice.min(TOGETHER);
                    full = None;
                }
                Look::Full(nodes) => match &full {
                    // Each of these nodes existed from the look before until this one, so all existed between the looks.
                    Some((before, since)) if *before == nodes => {
                        queued.set(true);
                        let is_try = matches!(patience, Patience::NoWait { .. });
                        if is_try && since.elapsed() > PATIENCE {
                            return Err(self.busy());
                        }
                    }
                    _ => full = Some((nodes, Instant::now())),
                },
            }
            sleep(pause).await;
            pause = (2 * pause).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        }
    }

    /// Lists the contenders of `indexes`, the lowest indexes first, until one is free.
    async fn look(&self, indexes: Range<usize>) -> Result<Look, Error> {
        let Recipe { curator, path, retry, .. } = &self.recipe;
        let mut taken = Vec::new();
        for start in indexes.clone().step_by(TOGETHER) {
            let together = start..indexes.end.min(start + TOGETHER);
            let list = |session: Arc<Session>, _| {
                let paths: Vec<_> = together.clone().map(|index| self.path_of(index)).collect();
                async move {
                    // All requests are sent before the first answer is awaited.
                    let lists = paths.iter().map(|path| participants::list(&session, path));
                    let lists = try_join_all(lists).await;
                    lists.map_err(|failure| Failed::at(path, "list the slots of", failure))
                }
            };
            let lists =
                with_retry(curator.connection(), path, retry, Idempotent::Yes, list).await?;
            let mut free = Vec::new();
            for (index, children) in together.zip(lists) {
                match queue(&children, &self.mutex.family).into_iter().next().map(Rank::to_name) {
                    Some(first) => taken.push(first.as_str().to_owned()),
                    None => free.push(index),
                }
            }
            if !free.is_empty() {
                return Ok(Look::Free(free));
            }
        }
        Ok(Look::Full(taken))
    }

    /// Acquires the mutex of an index; `None` if another contender was faster.
    async fn try_mutex(&self, index: usize) -> Result<Option<Guard>, Error> {
        let request = Request { path: self.path_of(index), ..Request::clone(&self.mutex) };
        let queues = self.recipe.curator.queues();
        let mut contending = queues.contend(Arc::new(request), QueuedFlag::UNREAD);
        match contending.answer().await {
            Ok(hold) => Ok(Some(Guard::new(Arc::new(hold), &self.recipe))),
            Err(error) if error.is_busy() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn path_of(&self, index: usize) -> LockPath {
        self.mutex.path.below(&index.to_string())
    }
}

/// The answer to a look at several indexes.
enum Look {
    /// The lowest indexes without a contender, in order.
    Free(Vec<usize>),
    /// The name of the first contender of each index.
    Full(Vec<String>),
}
