//! One session: a ZooKeeper session, its lease, and what it can bear.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::lease::Lease;
use crate::client::{Client, Failure};
use crate::clock::BootInstant;
use crate::error::Loss;
use crate::lock_path::LockPath;
use crate::metrics::{self, Counted};
use crate::sync::Mutex;

/// Bytes of watched paths that one session may have. With more than 128 KiB the client restores its
/// watches in two packets after a reconnect, takes the second answer for a fault, and cuts the
/// connection until it declares itself expired.
const WATCHED_BYTES: usize = 96 * 1024;

/// One ZooKeeper session. Every contender, hold and watch belongs to exactly one.
pub(crate) struct Session {
    /// Taken when the session ends, so that no request outlives it.
    client: Mutex<Option<Client>>,
    /// Whether a user may have clones of the client.
    lent: AtomicBool,
    /// Each caller that has one for the time of a request has a clone.
    borrowers: Arc<()>,
    session_id: i64,
    root: LockPath,
    timeout: Duration,
    pub(crate) lease: Lease,
    ended: CancellationToken,
    detached: CancellationToken,
    watched: Arc<Semaphore>,
    /// Bytes of the paths of its nodes, and of those that are being created.
    ephemerals: AtomicUsize,
}

impl Session {
    /// `asked` bounds the session timeout that is reckoned with: a server may give more than was
    /// asked for, but not be trusted to keep it. At `opened` the session was asked for at the earliest.
    pub(super) fn new(client: Client, asked: Duration, opened: BootInstant) -> Arc<Self> {
        let timeout = client.session_timeout().min(asked);
        Arc::new(Self {
            session_id: client.session_id(),
            root: client.root().clone(),
            timeout,
            lease: Lease::new(timeout, opened),
            ended: CancellationToken::new(),
            detached: CancellationToken::new(),
            lent: AtomicBool::new(false),
            borrowers: Arc::default(),
            watched: Arc::new(Semaphore::new(WATCHED_BYTES)),
            ephemerals: AtomicUsize::new(0),
            client: Mutex::new(Some(client)),
        })
    }

    /// The session's client. Do not keep it: the session ends with the last clone.
    pub(crate) fn client(&self) -> Result<Client, Failure> {
        let client = self.client.lock();
        client.clone().ok_or_else(Failure::session_over)
    }

    /// The client for a user, which may keep it.
    pub(crate) fn lend_client(&self) -> Result<Client, Failure> {
        self.lent.store(true, Ordering::Relaxed);
        self.client()
    }

    /// For a request whose future a caller keeps, and may not poll any more. Ask it before whether
    /// the lease lasts: then the task that closes the lease sees it.
    pub(crate) fn borrow_client(&self) -> Result<Borrowed, Failure> {
        let count = self.borrowers.clone();
        Ok(Borrowed { client: self.client()?, _count: count })
    }

    pub(super) fn is_lent(&self) -> bool {
        self.lent.load(Ordering::Relaxed) || Arc::strong_count(&self.borrowers) > 1
    }

    /// Chroot and namespace in one.
    pub(crate) fn root(&self) -> &LockPath {
        &self.root
    }

    pub(crate) fn session_id(&self) -> i64 {
        self.session_id
    }

    /// `T`, the negotiated session timeout, at most what was asked for.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Fires when the session is over.
    pub(crate) fn ended(&self) -> &CancellationToken {
        &self.ended
    }

    /// Fires when we are done with the session and another user keeps it: its nodes have to go one by one.
    pub(crate) fn detached(&self) -> &CancellationToken {
        &self.detached
    }

    /// Ends the session: its holds are lost first, then its tasks learn of it. Gives back the client.
    pub(super) fn end(&self, loss: Loss) -> Option<Client> {
        self.lease.close(loss);
        self.ended.cancel();
        self.client.lock().take()
    }

    /// Whether a holder or a waiter has a node: the lease is renewed for it.
    pub(super) fn is_demanded(&self) -> bool {
        self.ephemerals.load(Ordering::Relaxed) > 0
    }

    /// Awaits the answer to a write or a `sync` that was handed to the client at `stamp`; a good one
    /// renews the lease.
    pub(crate) async fn proven<T, E>(
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

    /// Asks the leader for a sign of life, which renews the lease.
    pub(crate) async fn probe(&self) -> Result<(), Failure> {
        let client = self.client()?;
        let stamp = BootInstant::now();
        let answer = client.sync().await;
        let counts = answer.is_ok() && self.is_demanded();
        let left = self.lease.left_ratio(BootInstant::now()).filter(|_| counts);
        let answer = self.proven(stamp, std::future::ready(answer)).await;
        // After the renewal: a recorder that takes its time does not shorten the lease.
        if let Some(left) = left {
            metrics::lease_left(left);
        }
        answer
    }

    /// Lets the server of `client` catch up with the leader, and sends `read` behind that, in one trip: so it shows every
    /// write that any client saw confirmed before. One exception: a leader that is asked itself may not have applied yet
    /// what a follower has confirmed. Renews the lease as a probe does.
    pub(crate) async fn caught_up<'a, T, F>(
        &self,
        client: &'a Client,
        read: impl FnOnce(&'a Client) -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let stamp = BootInstant::now();
        // Both are sent before the first is awaited.
        let (sync, read) = (client.sync(), read(client));
        self.proven(stamp, sync).await?;
        read.await
    }

    /// Room to watch all of `nodes`; waits for it in turn. For paths too long to ever be watched that is for
    /// ever.
    pub(crate) async fn room_to_watch(&self, nodes: &[&str]) -> OwnedSemaphorePermit {
        let bytes = nodes.iter().map(|node| self.watched_bytes(node)).sum::<usize>();
        if let Ok(permits) = u32::try_from(bytes)
            && bytes <= WATCHED_BYTES
            && let Ok(permit) = self.watched.clone().acquire_many_owned(permits).await
        {
            return permit;
        }
        std::future::pending().await
    }

    /// Room to watch `node`, if there is some and no task waits for it.
    pub(crate) fn room_at_once(&self, node: &str) -> Option<OwnedSemaphorePermit> {
        let permits = u32::try_from(self.watched_bytes(node)).ok()?;
        self.watched.clone().try_acquire_many_owned(permits).ok()
    }

    /// Room to watch `node` for a task that can do without: half is kept for those that cannot.
    pub(crate) fn spare_room(&self, node: &str) -> Option<OwnedSemaphorePermit> {
        if self.has_spare_room() { self.room_at_once(node) } else { None }
    }

    /// Whether more than half of the room is free.
    pub(crate) fn has_spare_room(&self) -> bool {
        self.used_room() < WATCHED_BYTES / 2
    }

    /// Whether more than half of the room for nodes is free.
    pub(crate) fn has_spare_nodes(&self, limit: usize) -> bool {
        self.ephemerals.load(Ordering::Relaxed) < limit / 2
    }

    /// What watched paths take, and what they may, for the metrics.
    pub(super) fn watch_budget(&self) -> (Counted, Counted) {
        metrics::watch_budget(WATCHED_BYTES)
    }

    pub(super) fn used_room(&self) -> usize {
        WATCHED_BYTES - self.watched.available_permits()
    }

    /// The server's whole path counts.
    pub(crate) fn watched_bytes(&self, node: &str) -> usize {
        self.root.as_str().len() + node.len()
    }

    /// Sets bytes aside for the path of an ephemeral node; `Err` tells how many are in use.
    pub(crate) fn reserve(
        self: &Arc<Self>,
        bytes: usize,
        limit: usize,
    ) -> Result<Reservation, usize> {
        let room = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= limit);
        match self.ephemerals.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room) {
            Ok(_) => Ok(Reservation { session: self.clone(), bytes }),
            Err(used) => Err(used),
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Epoch")
            .field("session", &format_args!("{:#x}", self.session_id))
            .field("timeout", &self.timeout)
            .field("ended", &self.ended.is_cancelled())
            .finish_non_exhaustive()
    }
}

/// A client for the time of a request.
pub(crate) struct Borrowed {
    pub(crate) client: Client,
    _count: Arc<()>,
}

/// Room for the path of one ephemeral node.
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
