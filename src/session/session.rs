//! [`Session`]: one ZooKeeper session, its lease, and the limits on its watches and nodes.

use std::fmt;
use std::future::{Future, Ready, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::Either;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::lease::Lease;
use crate::client::{Client, Failure, WatchPermit};
use crate::clock::BootInstant;
use crate::error::Loss;
use crate::lock_path::LockPath;
use crate::metrics::{self, Counted};
use crate::sync::Mutex;

/// The watch budget: how many bytes the watched paths of one session may take. With more than 128 KiB the client restores its
/// watches in two packets after a reconnect, takes the second answer for a fault, and cuts the connection until it declares
/// itself expired.
const WATCH_BUDGET: usize = 96 * 1024;

/// One ZooKeeper session. Every contender, hold and watch belongs to exactly one.
pub(crate) struct Session {
    /// Taken when the session ends, so that no request outlives it.
    client: Mutex<Option<Client>>,
    /// True if a user may have clones of the client.
    lent: AtomicBool,
    /// Cloned by each caller that borrows the client for the time of a request.
    borrowers: Arc<()>,
    session_id: i64,
    root: LockPath,
    timeout: Duration,
    pub(crate) lease: Lease,
    ended: CancellationToken,
    replaced: CancellationToken,
    detached: CancellationToken,
    /// Has a permit for each free byte of the watch budget.
    watch_budget: Arc<Semaphore>,
    /// Bytes of the paths of the session's nodes, and of those that are being created.
    ephemerals: AtomicUsize,
}

impl Session {
    /// The effective timeout never exceeds `requested`: a server may grant more but cannot be relied on to honour it. The session
    /// was asked for at `opened` at the earliest.
    pub(super) fn new(client: Client, requested: Duration, opened: BootInstant) -> Arc<Self> {
        let timeout = client.session_timeout().min(requested);
        let session_id = client.session_id();
        let root = client.root().clone();
        Self::with(Some(client), session_id, root, timeout, opened)
    }

    /// Makes a session without a client, with a lease that has just begun. Its requests fail as those of a session that ended.
    #[cfg(feature = "simulation")]
    pub(crate) fn without_client(timeout: Duration) -> Arc<Self> {
        let now = BootInstant::now();
        let session = Self::with(None, 1, LockPath::root(), timeout, now);
        session.lease.renew(now, now);
        session
    }

    fn with(
        client: Option<Client>,
        session_id: i64,
        root: LockPath,
        timeout: Duration,
        opened: BootInstant,
    ) -> Arc<Self> {
        Arc::new(Self {
            session_id,
            root,
            timeout,
            lease: Lease::new(timeout, opened),
            ended: CancellationToken::new(),
            replaced: CancellationToken::new(),
            detached: CancellationToken::new(),
            lent: AtomicBool::new(false),
            borrowers: Arc::default(),
            watch_budget: Arc::new(Semaphore::new(WATCH_BUDGET)),
            ephemerals: AtomicUsize::new(0),
            client: Mutex::new(client),
        })
    }

    /// Returns the session's client. Do not keep it: the session ends with the last clone.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        let client = self.client.lock();
        client.clone().ok_or_else(Failure::session_over)
    }

    /// Sends a request. The future keeps no client while it awaits the answer, so a caller may keep it without polling it
    /// (invariant 7).
    pub(crate) fn request<T, F>(
        &self,
        send: impl FnOnce(&Client) -> F,
    ) -> Either<F, Ready<Result<T, Failure>>>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        match self.client() {
            Ok(client) => Either::Left(send(&client)),
            Err(failure) => Either::Right(ready(Err(failure))),
        }
    }

    /// Returns a client that the user may keep.
    pub(crate) fn lend_client(&self) -> Result<Client, Failure> {
        let client = self.client.lock();
        let lent = client.clone().ok_or_else(Failure::session_over)?;
        self.lent.store(true, Ordering::Relaxed);
        Ok(lent)
    }

    /// Returns the client for a request whose future a caller keeps, perhaps without polling it. Borrow before you check the
    /// lease: then the task that closes the lease sees the borrower.
    pub(crate) fn borrow_client(&self) -> Result<Borrowed, Failure> {
        let client = self.client.lock();
        let borrowed = client.clone().ok_or_else(Failure::session_over)?;
        Ok(Borrowed { client: borrowed, _count: self.borrowers.clone() })
    }

    /// Ends the session and returns its client, unless a caller outside the library may have a clone. None is lent meanwhile: a
    /// clone that nobody knows of would keep the session, with all its nodes.
    pub(super) fn end_unless_lent(&self, loss: Loss) -> Option<Client> {
        let mut client = self.client.lock();
        if self.lent.load(Ordering::Relaxed) || Arc::strong_count(&self.borrowers) > 1 {
            return None;
        }
        let taken = client.take();
        drop(client);
        drop(self.end(loss));
        taken
    }

    /// Returns the chroot and the namespace, joined.
    pub(crate) fn root(&self) -> &LockPath {
        &self.root
    }

    pub(crate) fn session_id(&self) -> i64 {
        self.session_id
    }

    /// Returns `T`, the negotiated session timeout, at most the requested one.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Cancelled when the session is over.
    pub(crate) fn ended(&self) -> &CancellationToken {
        &self.ended
    }

    /// Cancelled when a server is known to have replaced the session by another one, without an error.
    pub(crate) fn replaced(&self) -> &CancellationToken {
        &self.replaced
    }

    /// Ends the session as expired, because its client is in another session by now.
    pub(crate) fn replaced_by(&self, other: i64) {
        if !self.replaced.is_cancelled() {
            tracing::warn!(session = %format_args!("{:#x}", self.session_id), other = %format_args!("{other:#x}"), "a server replaced the session, which ZooKeeper never does");
        }
        self.replaced.cancel();
    }

    /// Cancelled when we stop using a session that another handle keeps open: its nodes must be deleted one by one.
    pub(crate) fn detached(&self) -> &CancellationToken {
        &self.detached
    }

    /// Returns true if the session has ended or is left to others, so that its nodes are given up.
    pub(crate) fn is_over(&self) -> bool {
        self.ended.is_cancelled() || self.detached.is_cancelled()
    }

    /// Ends the session: first its holds are lost, then its tasks end. Returns the client.
    pub(crate) fn end(&self, loss: Loss) -> Option<Client> {
        self.lease.close(loss);
        self.ended.cancel();
        self.client.lock().take()
    }

    /// Returns true if a holder or a waiter has a node, or creates one: then the lease must be renewed.
    pub(super) fn has_nodes(&self) -> bool {
        self.ephemerals.load(Ordering::Relaxed) > 0
    }

    /// Awaits the answer to a write or a `sync` that was handed to the client at `stamp`, and renews the lease if that
    /// succeeded.
    pub(crate) async fn renew_on_success<T, E>(
        &self,
        stamp: BootInstant,
        answer: impl Future<Output = Result<T, E>> + Send,
    ) -> Result<T, E> {
        let answer = answer.await;
        if answer.is_ok() {
            self.lease.renew(stamp, BootInstant::now());
        }
        answer
    }

    /// Sends a `sync` to the leader. The answer renews the lease.
    pub(crate) async fn probe(&self) -> Result<(), Failure> {
        let client = self.client()?;
        let stamp = BootInstant::now();
        let answer = client.sync().await;
        let counts = answer.is_ok() && self.has_nodes();
        let left = self.lease.left_ratio(BootInstant::now()).filter(|_| counts);
        let answer = self.renew_on_success(stamp, std::future::ready(answer)).await;
        // Recorded after the renewal, so that a slow recorder does not shorten the lease.
        if let Some(left) = left {
            metrics::lease_left(left);
        }
        answer
    }

    /// Sends a `sync` and `read` behind it, in one trip: so the server catches up with the leader, and the read shows every write
    /// that any client saw confirmed before. One exception: if the server is the leader, it may not have applied yet what a
    /// follower has confirmed. Renews the lease as a probe does.
    pub(crate) async fn read_after_sync<'a, T, F>(
        &self,
        client: &'a Client,
        read: impl FnOnce(&'a Client) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let stamp = BootInstant::now();
        // Both are sent before the first is awaited.
        let sync = client.sync();
        let read = read(client);
        self.renew_on_success(stamp, sync).await?;
        read.await
    }

    /// Waits in turn for the budget to watch all of `nodes`. Never resolves if the paths are too long to ever be watched.
    pub(crate) async fn reserve_watch(&self, nodes: &[&str]) -> WatchPermit {
        let bytes = nodes.iter().map(|node| self.watched_bytes(node)).sum::<usize>();
        if let Ok(permits) = u32::try_from(bytes)
            && bytes <= WATCH_BUDGET
            && let Ok(permit) = self.watch_budget.clone().acquire_many_owned(permits).await
        {
            return permit;
        }
        std::future::pending().await
    }

    /// Returns a permit to watch `node`, if the budget covers it and no task waits for budget.
    pub(crate) fn try_reserve_watch(&self, node: &str) -> Option<WatchPermit> {
        let permits = u32::try_from(self.watched_bytes(node)).ok()?;
        self.watch_budget.clone().try_acquire_many_owned(permits).ok()
    }

    /// As [`try_reserve_watch`](Self::try_reserve_watch), for a task that can do without a watch. Half of the budget is kept for
    /// tasks that cannot.
    pub(crate) fn try_reserve_spare_watch(&self, node: &str) -> Option<WatchPermit> {
        if self.has_spare_watches() { self.try_reserve_watch(node) } else { None }
    }

    /// Returns true if more than half of the watch budget is free.
    pub(crate) fn has_spare_watches(&self) -> bool {
        self.used_watch_budget() < WATCH_BUDGET / 2
    }

    /// Returns true if more than half of `limit`, the limit on the paths of nodes, is free.
    pub(crate) fn has_spare_nodes(&self, limit: usize) -> bool {
        self.ephemerals.load(Ordering::Relaxed) < limit / 2
    }

    /// Returns the gauges of the used and of the whole watch budget.
    pub(super) fn watch_budget_gauges(&self) -> (Counted, Counted) {
        metrics::watch_budget(WATCH_BUDGET)
    }

    pub(super) fn used_watch_budget(&self) -> usize {
        WATCH_BUDGET - self.watch_budget.available_permits()
    }

    /// Returns how much budget a watch on `node` takes: the server's whole path counts.
    pub(crate) fn watched_bytes(&self, node: &str) -> usize {
        self.root.as_str().len() + node.len()
    }

    /// Reserves bytes for the path of an ephemeral node. `Err` holds the number of bytes in use.
    pub(crate) fn reserve(
        self: &Arc<Self>,
        bytes: usize,
        limit: usize,
    ) -> Result<Reservation, usize> {
        let add = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= limit);
        match self.ephemerals.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add) {
            Ok(_) => Ok(Reservation { session: self.clone(), bytes }),
            Err(used) => Err(used),
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("session", &format_args!("{:#x}", self.session_id))
            .field("timeout", &self.timeout)
            .field("ended", &self.ended.is_cancelled())
            .finish_non_exhaustive()
    }
}

/// A client that is borrowed for the time of a request.
pub(crate) struct Borrowed {
    pub(crate) client: Client,
    _count: Arc<()>,
}

/// The bytes that are reserved for the path of one ephemeral node.
#[derive(Debug)]
pub(crate) struct Reservation {
    session: Arc<Session>,
    bytes: usize,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.session.ephemerals.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
