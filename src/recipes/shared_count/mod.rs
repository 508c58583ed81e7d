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
use self::follow::{EndOnDrop, follow};
use self::latest::LatestCount;
use self::requests::{Swapped, read_if_there, read_or_create, set, swap};
pub use self::watch::CountWatch;
use crate::curator::Curator;
use crate::error::{Error, ErrorKind};
use crate::lock_path::LockPath;
use crate::session::tries::{Effect, tried};

/// The version that the server takes for any.
const ANY_VERSION: i32 = -1;

/// A number that processes share, on the znode of Apache Curator's `SharedCount`: one persistent node with 4 bytes, the
/// highest first. Old Curator processes and new Rust processes read and write the same count.
///
/// * **Known here**: [`value`](Self::value) sends nothing. A task of the session keeps it up to date, with a watch on
///   the node. While there is no connection it is the last that was known, and [`Curator::state`] says so; after
///   every reconnect, and in every new session, it is read again.
/// * **Never back**: what is known only moves to later changes.
/// * **Written** blindly by [`set`](Self::set), or over what was read by [`try_set`](Self::try_set).
/// * **Deleted**: if the node is deleted, the last value stays. Six times in a session timeout the task looks
///   whether the node exists again. Only [`start`](Self::start) makes it.
/// * **Foreign**: data that are no count, written while this runs, are a warning in the log, and the last value stays.
///   (Curator takes the first 4 of more bytes.)
///
/// A handle is cheap to clone. With the last one, the last [`CountWatch`] among them, the task ends and takes
/// its watch with it; the node stays.
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
    _in_use: Receiver<i32>,
}

impl SharedCount {
    /// Follows the count at `path`, under the curator's namespace; makes its node with `seed` if it is not there, with
    /// the curator's ACLs, and what is missing above it as containers. Of several seeds the
    /// first wins.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future may leave the node, with the seed, and what was missing above it.
    ///
    /// # Errors
    ///
    /// * [`ErrorKind::InvalidInput`] for a path that ZooKeeper does not accept;
    /// * [`ErrorKind::UnusablePath`] if the node's data are no count: they are left as they are;
    /// * [`ErrorKind::PermissionDenied`] if it may not be read, or is missing and may not be made;
    /// * [`ErrorKind::Unavailable`], after which the node may have been made; [`ErrorKind::Refused`], [`ErrorKind::Closed`].
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    pub async fn start(curator: &Curator, path: &str, seed: i32) -> Result<Self, Error> {
        let path = LockPath::parse("path", path)?;
        let connection = curator.connection();
        let options = curator.options();
        let seed = seed.to_be_bytes();
        let found = tried(connection, &path, &options.retry, Effect::Harmless, |session, _| {
            read_or_create(session, &path, seed, &options.acls)
        });
        let (data, change) = found.await?;
        let first = VersionedCount::parse(&path, &data, change)?;
        let latest = Arc::new(LatestCount::new(path, first));
        let in_use = latest.subscribe();
        connection.spawn(follow(connection.clone(), EndOnDrop::new(latest.clone())));
        Ok(Self { curator: curator.clone(), latest, _in_use: in_use })
    }

    /// The path, under the namespace.
    pub fn path(&self) -> &str {
        self.latest.path.as_str()
    }

    /// The count, as far as it is known here.
    pub fn value(&self) -> i32 {
        self.latest.latest().value
    }

    /// The count, and which change of it this was: to be given to [`try_set`](Self::try_set).
    pub fn versioned(&self) -> VersionedCount {
        self.latest.latest()
    }

    /// Writes the count, whatever it is, or whatever else is there.
    ///
    /// A write without an answer is repeated: it may take effect twice, and so overwrite a value that another client wrote in
    /// between.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it is polled sends nothing. Later the write may take effect all the same: while there
    /// is no connection, when there is one again.
    ///
    /// # Errors
    ///
    /// * [`ErrorKind::OutcomeUnknown`]: no server answered, and it may have been written, or may yet be;
    /// * [`ErrorKind::NotFound`] if the node was deleted, [`ErrorKind::PermissionDenied`], [`ErrorKind::Refused`],
    ///   [`ErrorKind::Unavailable`], [`ErrorKind::Closed`]: nothing was written.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    pub async fn set(&self, value: i32) -> Result<(), Error> {
        let path = &self.latest.path;
        let connection = self.curator.connection();
        let retry = &self.curator.options().retry;
        let writing =
            tried(connection, path, retry, Effect::Write, |session, _| set(session, path, value));
        let change = writing.await?;
        self.latest.publish(VersionedCount::new(value, change), false);
        Ok(())
    }

    /// Writes the count if its version is still that of `expected`, which came from [`versioned`](Self::versioned); `false` if another
    /// client wrote since. Its value is then known here, if a server answered.
    ///
    /// A write without an answer is tried again, which writes once at most. If another value has overtaken it, the result is
    /// `false`. If the value is the wanted one, or there were several writes since, the writer is not known:
    /// [`ErrorKind::OutcomeUnknown`].
    ///
    /// # Cancel safety
    ///
    /// As for [`set`](Self::set).
    ///
    /// # Errors
    ///
    /// As for [`set`](Self::set), and nothing was written with
    ///
    /// * [`ErrorKind::UnusablePath`] if what was written since is no count, or the version is -1, after some four thousand
    ///   million writes.
    ///
    /// # Panics
    ///
    /// As for [`set`](Self::set).
    pub async fn try_set(&self, expected: &VersionedCount, value: i32) -> Result<bool, Error> {
        let path = &self.latest.path;
        let connection = self.curator.connection();
        let retry = &self.curator.options().retry;
        if expected.version == ANY_VERSION {
            let text =
                format!("the version of {path} is -1, which cannot be compared; `set` moves it on");
            return Err(Error::new(ErrorKind::UnusablePath, text).at(path));
        }
        let latest = self.versioned();
        // A node that was made again has had the same version. And one change has one value, as for Curator.
        if latest.zxid > expected.zxid || (latest.zxid == expected.zxid && latest != *expected) {
            return Ok(false);
        }
        let swapping = tried(connection, path, retry, Effect::Write, |session, unsure| {
            swap(session, path, expected, value, unsure)
        });
        match swapping.await? {
            Swapped::Done(change) => {
                self.latest.publish(VersionedCount::new(value, change), false);
                Ok(true)
            }
            Swapped::Stale => {
                let read = |session, _| read_if_there(session, path);
                match tried(connection, path, retry, Effect::Harmless, read).await {
                    Ok(Some((data, change))) => {
                        self.latest.take(data, change, false).map(|_| false)
                    }
                    // The answer is known without.
                    Ok(None) | Err(_) => Ok(false),
                }
            }
        }
    }

    /// The values from now on.
    pub fn watch(&self) -> CountWatch {
        CountWatch::new(&self.curator, &self.latest)
    }

    /// The values from now on, for a recipe that has this handle: with the last receiver of its kind and the last
    /// handle the node is not followed any more.
    pub(crate) fn subscribe(&self) -> Receiver<i32> {
        self.latest.subscribe()
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
