//! [`SharedCount`]: a number that processes share.

mod count;
mod error;
mod follow;
mod requests;
mod shared;
mod tries;
mod watch;

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch::Receiver;

pub use self::count::VersionedCount;
pub use self::error::SharedCountError;
use self::follow::{Following, follow};
use self::requests::{Swapped, read_if_there, read_or_make, set, swap};
use self::shared::Shared;
use self::tries::{Effect, tried};
pub use self::watch::CountWatch;
use crate::curator::Curator;
use crate::lock_path::LockPath;

/// The version that the server takes for any.
const ANY_VERSION: i32 = -1;

/// A number that processes share, on the znode of Apache Curator's `SharedCount`: one persistent node with 4 bytes, the
/// highest first. Old Curator processes and new Rust processes read and write the same count.
///
/// * **Known here**: [`value`](Self::value) asks nobody. A task of the session's keeps it up to date, with a watch on
///   the node. While there is no connection it is the last that was known, and [`Curator::state`] says so; after
///   every reconnect, and in every new session, it is read again.
/// * **Never back**: what is known only moves to later changes.
/// * **Written** blindly by [`set`](Self::set), or over what was read by [`try_set`](Self::try_set).
/// * **Deleted**: if somebody deletes the node, the last value stays. Six times in a session timeout it is looked
///   whether the node is there again. Only [`start`](Self::start) makes it.
/// * **Foreign**: data that are no count, written while this runs, are a warning in the log, and the last value stays.
///   (Curator takes the first 4 of more bytes.)
///
/// A handle is cheap to clone. With the last one, the last [`CountWatch`] among them, the task ends and takes
/// its watch with it; the node stays.
///
/// ```no_run
/// # use zookeeper_recipes::{Curator, SharedCount};
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let curator = Curator::connect("zk1:2181,zk2:2181,zk3:2181/app").await?;
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
    shared: Arc<Shared>,
    /// As long as there is one, the node is followed.
    _in_use: Receiver<i32>,
}

impl SharedCount {
    /// Follows the count at `path`, under the curator's namespace; makes its node with `seed` if it is not there, with
    /// the curator's ACLs, and what is missing above it as containers. Of several who start with different seeds the
    /// first wins.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future may leave the node, with the seed, and what was missing above it.
    ///
    /// # Errors
    ///
    /// * [`SharedCountError::Config`] for a path that ZooKeeper does not accept;
    /// * [`SharedCountError::ForeignData`] if the node's data are no count: they are left as they are;
    /// * [`SharedCountError::NoAuth`] if it may not be read, or is missing and may not be made;
    /// * [`SharedCountError::Session`], [`SharedCountError::TimedOut`], [`SharedCountError::Refused`],
    ///   [`SharedCountError::RetriesExhausted`].
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    pub async fn start(curator: &Curator, path: &str, seed: i32) -> Result<Self, SharedCountError> {
        let path = LockPath::parse("path", path)?;
        let session = curator.session();
        let (seed, acls) = (seed.to_be_bytes(), &session.settings.acls);
        let found = tried(session, &path, Effect::Harmless, |epoch, _| {
            read_or_make(epoch, &path, seed, acls)
        });
        let (data, change) = found.await?;
        let Some(first) = VersionedCount::parse(&data, change) else {
            let path = path.to_string();
            return Err(SharedCountError::ForeignData { path, found: data });
        };
        let shared = Arc::new(Shared::new(path, first));
        let in_use = shared.subscribe();
        session.spawn(follow(session.clone(), Following::new(shared.clone())));
        Ok(Self { curator: curator.clone(), shared, _in_use: in_use })
    }

    /// The path, under the namespace.
    pub fn path(&self) -> &str {
        self.shared.path.as_str()
    }

    /// The count, as far as it is known here.
    pub fn value(&self) -> i32 {
        self.shared.latest().value
    }

    /// The count, and which change of it this was: to be given to [`try_set`](Self::try_set).
    pub fn versioned(&self) -> VersionedCount {
        self.shared.latest()
    }

    /// Writes the count, whatever it is, or whatever else is there.
    ///
    /// A write that nobody answers is repeated: it may take effect twice, and so overwrite what somebody wrote in
    /// between.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future before it is polled sends nothing. Later the write may take effect all the same: while there
    /// is no connection, when there is one again.
    ///
    /// # Errors
    ///
    /// * [`SharedCountError::Unknown`]: nobody answered, and it may have been written, or may yet be;
    /// * [`SharedCountError::NoNode`] if somebody deleted the node, [`SharedCountError::NoAuth`],
    ///   [`SharedCountError::Refused`], [`SharedCountError::RetriesExhausted`], [`SharedCountError::TimedOut`],
    ///   [`SharedCountError::Session`]: nothing was written.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with timers.
    pub async fn set(&self, value: i32) -> Result<(), SharedCountError> {
        let path = &self.shared.path;
        let writing =
            tried(self.curator.session(), path, Effect::Write, |epoch, _| set(epoch, path, value));
        let change = writing.await?;
        self.shared.publish(VersionedCount::new(value, change), false);
        Ok(())
    }

    /// Writes the count if its version is still that of `expected`, which came from [`versioned`](Self::versioned); `false` if somebody
    /// wrote since, and then what he wrote is known here, unless nobody could be asked.
    ///
    /// A write that nobody answers is tried again, which writes once at most. Whoever finds it overtaken by another
    /// value is told `false`. Where the value is the wanted one, or there were several writes since, it cannot be told
    /// who wrote: [`SharedCountError::Unknown`].
    ///
    /// # Cancel safety
    ///
    /// As for [`set`](Self::set).
    ///
    /// # Errors
    ///
    /// As for [`set`](Self::set), and nothing was written with
    ///
    /// * [`SharedCountError::ForeignData`] if what was written since is no count;
    /// * [`SharedCountError::VersionExhausted`] if the version is -1, after some four thousand million writes.
    ///
    /// # Panics
    ///
    /// As for [`set`](Self::set).
    pub async fn try_set(
        &self,
        expected: &VersionedCount,
        value: i32,
    ) -> Result<bool, SharedCountError> {
        let (path, session) = (&self.shared.path, self.curator.session());
        if expected.version == ANY_VERSION {
            return Err(SharedCountError::VersionExhausted { path: path.to_string() });
        }
        let latest = self.versioned();
        // A node that was made again has had the same version. And one change has one value, as for Curator.
        if latest.zxid > expected.zxid || (latest.zxid == expected.zxid && latest != *expected) {
            return Ok(false);
        }
        let swapping = tried(session, path, Effect::Write, |epoch, unsure| {
            swap(epoch, path, expected, value, unsure)
        });
        match swapping.await? {
            Swapped::Done(change) => {
                self.shared.publish(VersionedCount::new(value, change), false);
                Ok(true)
            }
            Swapped::Stale => {
                let reading =
                    tried(session, path, Effect::Harmless, |epoch, _| read_if_there(epoch, path));
                match reading.await {
                    Ok(Some(found)) => self.shared.take(found, false).map(|_| false),
                    // The answer is known without.
                    Ok(None) | Err(_) => Ok(false),
                }
            }
        }
    }

    /// The values from now on.
    pub fn watch(&self) -> CountWatch {
        CountWatch::new(self.clone())
    }

    /// The values from now on, for a recipe that has this handle: with the last receiver of its kind and the last
    /// handle the node is not followed any more.
    pub(crate) fn subscribe(&self) -> Receiver<i32> {
        self.shared.subscribe()
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
