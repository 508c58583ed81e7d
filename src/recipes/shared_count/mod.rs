//! [`SharedCount`]: a number that processes share.

mod count;
mod follow;
mod latest;
mod requests;
mod watch;

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch::Receiver;

pub use self::count::VersionedCount;
use self::follow::follow;
use self::latest::LatestCount;
use self::requests::{Swapped, read_if_there, read_or_create, set, swap};
pub use self::watch::CountWatch;
use crate::curator::Curator;
use crate::error::{Error, ErrorKind};
use crate::lock_path::LockPath;
use crate::session::retry::{Idempotent, with_retry};

/// The server takes this version for any version.
const ANY_VERSION: i32 = -1;

/// A number that processes share, on the znode of Apache Curator's `SharedCount`: one persistent node with 4 bytes,
/// big-endian. Old Curator processes and new Rust processes read and write the same count.
///
/// * **Known here**: [`value`](Self::value) sends nothing. A task of the session keeps the value up to date, with a watch on
///   the node. While there is no connection, the value is the last known one, and [`Curator::state`] says so. The task reads the
///   node again after every reconnect and in every new session.
/// * **Never back**: the known value only moves to later changes.
/// * **Written** blindly by [`set`](Self::set), or over a known version by [`try_set`](Self::try_set).
/// * **Deleted**: if the node is deleted, the last value stays. Six times in a session timeout the task checks
///   whether the node exists again. Only [`start`](Self::start) creates it.
/// * **Foreign**: data that are no count cause a warning in the log, and the last value stays. (Curator takes the first 4 of
///   more bytes.)
///
/// A handle is cheap to clone. When the last handle and the last [`CountWatch`] are dropped, the task ends and drops its watch.
/// The node stays.
///
/// ```no_run
/// # use zookeeper_recipes::interop::SharedCount;
/// # use zookeeper_recipes::{Curator, Error};
/// # async fn example(curator: Curator) -> Result<(), Error> {
/// let count = SharedCount::start(&curator, "/limits/orders", 3).await?;
/// let before = count.versioned();
/// if count.try_set(&before, before.value + 1).await? {
///     println!("now {}", count.value());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SharedCount {
    curator: Curator,
    latest: Arc<LatestCount>,
    /// The node is followed as long as a receiver lives.
    _in_use: Receiver<Option<i32>>,
}

impl SharedCount {
    /// Follows the count at `path`, under the curator's namespace. If the node does not exist, it is created with `seed` and the
    /// curator's ACLs, and its missing parents as containers. Of several seeds the first one wins.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future may leave the node with the seed, and its parents.
    ///
    /// # Errors
    ///
    /// * [`ErrorKind::InvalidInput`] for a path that ZooKeeper does not accept;
    /// * [`ErrorKind::UnusablePath`] if the node's data are no count: they are left as they are;
    /// * [`ErrorKind::PermissionDenied`] if the node may not be read, or is missing and may not be created;
    /// * [`ErrorKind::Unavailable`], after which the node may exist; [`ErrorKind::Refused`], [`ErrorKind::Closed`].
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    pub async fn start(curator: &Curator, path: &str, seed: i32) -> Result<Self, Error> {
        let path = LockPath::parse("path", path)?;
        let connection = curator.connection();
        let options = curator.options();
        let seed = seed.to_be_bytes();
        let found = with_retry(connection, &path, &options.retry, Idempotent::Yes, |session, _| {
            read_or_create(session, &path, seed, &options.acls)
        });
        let (data, change) = found.await?;
        let first = VersionedCount::parse(&path, &data, change)?;
        let latest = Arc::new(LatestCount::new(&path, first));
        let in_use = latest.feed.last.subscribe();
        follow(connection, &latest);
        Ok(Self { curator: curator.clone(), latest, _in_use: in_use })
    }

    /// Returns the path, under the namespace.
    pub fn path(&self) -> &str {
        self.latest.path().as_str()
    }

    /// Returns the latest known count.
    #[doc(alias = "getCount")]
    pub fn value(&self) -> i32 {
        self.latest.latest().value
    }

    /// Returns the latest known count with the change that wrote it, for [`try_set`](Self::try_set).
    #[doc(alias = "getVersionedValue")]
    pub fn versioned(&self) -> VersionedCount {
        self.latest.latest()
    }

    /// Writes the count over any data.
    ///
    /// A write without an answer is repeated. It may take effect twice, and so overwrite a value that another client wrote in
    /// between.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it is polled sends nothing. Dropped later, the write may still take effect. If there is no
    /// connection, that may be after the next reconnect.
    ///
    /// # Errors
    ///
    /// * [`ErrorKind::OutcomeUnknown`]: no server answered, and the write may have taken effect, or may yet do so;
    /// * [`ErrorKind::NotFound`] if the node was deleted, [`ErrorKind::PermissionDenied`], [`ErrorKind::Refused`],
    ///   [`ErrorKind::Unavailable`], [`ErrorKind::Closed`]: nothing was written.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    #[doc(alias = "setCount")]
    pub async fn set(&self, value: i32) -> Result<(), Error> {
        let path = self.latest.path();
        let connection = self.curator.connection();
        let retry = &self.curator.options().retry;
        let writing = with_retry(connection, path, retry, Idempotent::No, |session, _| {
            set(session, path, value)
        });
        let change = writing.await?;
        self.latest.publish(VersionedCount::new(value, change), false);
        Ok(())
    }

    /// Writes the count if its version is still that of `expected`, which came from [`versioned`](Self::versioned). Returns `false`
    /// if another client has written since. That client's value is then known here, if a server answered.
    ///
    /// Servers compare the version alone, and the version of a node that was created again starts at zero. If the count is deleted,
    /// created again and written as often as before, the write succeeds over a value that the caller has not seen, unless the new
    /// node is known here. Curator's method does the same. Delete a count only while no process writes it.
    ///
    /// A write without an answer is tried again, and takes effect once at most. If another value came first, the result is
    /// `false`. If the count has the wanted value, or was written several times, the writer is not known:
    /// [`ErrorKind::OutcomeUnknown`].
    ///
    /// # Cancel safety
    ///
    /// As for [`set`](Self::set).
    ///
    /// # Errors
    ///
    /// As for [`set`](Self::set);
    ///
    /// * [`ErrorKind::UnusablePath`], and nothing was written: another client has written data that are no count, or the version
    ///   is -1, which it reaches after some four thousand million writes.
    ///
    /// # Panics
    ///
    /// As for [`set`](Self::set).
    #[doc(alias = "trySetCount")]
    pub async fn try_set(&self, expected: &VersionedCount, value: i32) -> Result<bool, Error> {
        let path = self.latest.path();
        let connection = self.curator.connection();
        let retry = &self.curator.options().retry;
        if expected.version == ANY_VERSION {
            let text =
                format!("the version of {path} is -1, which cannot be compared; `set` moves it on");
            return Err(Error::new(ErrorKind::UnusablePath, text).at(path));
        }
        let latest = self.versioned();
        // The versions of a node that was created again repeat, so the transactions are compared. One transaction has one
        // value, as for Curator.
        if latest.zxid > expected.zxid || (latest.zxid == expected.zxid && latest != *expected) {
            return Ok(false);
        }
        let swapping = with_retry(connection, path, retry, Idempotent::No, |session, unsure| {
            swap(session, path, expected, value, unsure)
        });
        match swapping.await? {
            Swapped::Done(change) => {
                self.latest.publish(VersionedCount::new(value, change), false);
                Ok(true)
            }
            Swapped::Stale => {
                let read = |session, _| read_if_there(session, path);
                match with_retry(connection, path, retry, Idempotent::Yes, read).await {
                    Ok(Some((data, change))) => {
                        self.latest.take(data, change, false).map(|_| false)
                    }
                    // The result does not depend on this read.
                    Ok(None) | Err(_) => Ok(false),
                }
            }
        }
    }

    /// Returns a watch on the values from now on.
    #[doc(alias = "addListener")]
    pub fn watch(&self) -> CountWatch {
        CountWatch::new(&self.curator, self.latest.feed.observe())
    }

    /// A receiver of the values from now on, for a recipe that uses this handle. The node is followed until the last receiver
    /// and the last handle are dropped.
    pub(crate) fn subscribe(&self) -> Receiver<Option<i32>> {
        self.latest.feed.last.subscribe()
    }
}

impl fmt::Debug for SharedCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedCount")
            .field("path", &self.path())
            .field("latest", &self.versioned())
            .finish_non_exhaustive()
    }
}
