//! What the handles of a count and its task share: the last that is known.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::count::VersionedCount;
use super::requests::Found;
use crate::error::Error;
use crate::lock_path::LockPath;
use crate::sync::Mutex;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(super) path: LockPath,
    latest: Mutex<VersionedCount>,
    /// Every handle has a receiver.
    values: watch::Sender<i32>,
    /// It was said in the log that the data are no count.
    is_foreign: AtomicBool,
    /// Fires when no task follows the node any more.
    over: CancellationToken,
    why: OnceLock<Error>,
}

impl Shared {
    pub(super) fn new(path: LockPath, first: VersionedCount) -> Self {
        Self {
            path,
            latest: Mutex::new(first),
            values: watch::Sender::new(first.value),
            is_foreign: AtomicBool::new(false),
            over: CancellationToken::new(),
            why: OnceLock::new(),
        }
    }

    pub(super) fn latest(&self) -> VersionedCount {
        *self.latest.lock()
    }

    /// The values from now on.
    pub(super) fn subscribe(&self) -> watch::Receiver<i32> {
        self.values.subscribe()
    }

    /// Returns when no handle is left.
    pub(super) async fn unused(&self) {
        self.values.closed().await;
    }

    /// Takes over what was read or written, if it is newer. Watches report it, with `again` also if it is
    /// not.
    pub(super) fn publish(&self, count: VersionedCount, again: bool) {
        // Held to the end: what is reported last is the latest.
        let mut latest = self.latest.lock();
        let is_newer = count.zxid > latest.zxid;
        if is_newer {
            *latest = count;
            self.is_foreign.store(false, Ordering::Relaxed);
        }
        if is_newer || again {
            self.values.send_replace(latest.value);
        }
    }

    /// The same for what was read; an error if it is no count, and then nothing changes.
    pub(super) fn take(&self, (data, change): Found, again: bool) -> Result<VersionedCount, Error> {
        let count = VersionedCount::parse(&self.path, &data, change).inspect_err(|error| {
            // A server that lags may tell of what was there before.
            if change.mzxid > self.latest().zxid && !self.is_foreign.swap(true, Ordering::Relaxed) {
                tracing::warn!(%error, "keeps the last count");
            }
        })?;
        self.publish(count, again);
        Ok(count)
    }

    /// No task follows the node any more.
    pub(super) fn end(&self, why: Error) {
        // Only the first counts.
        let _ = self.why.set(why);
        self.over.cancel();
    }

    pub(super) async fn ended(&self) -> Error {
        self.over.cancelled().await;
        self.why.get().cloned().unwrap_or_else(Error::closed).while_doing(&self.path).at(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Change;

    fn shared() -> Shared {
        let path = LockPath::parse("path", "/count").unwrap();
        Shared::new(path, VersionedCount { value: 1, version: 4, zxid: 10 })
    }

    fn change(mzxid: i64) -> Change {
        Change { czxid: 1, mzxid, version: 5 }
    }

    #[test]
    fn what_is_known_moves_to_later_changes_only() {
        let shared = shared();
        let mut values = shared.subscribe();
        let mut told = || values.has_changed().unwrap().then(|| *values.borrow_and_update());
        let older = VersionedCount { value: 9, version: 3, zxid: 9 };
        shared.publish(older, false);
        shared.publish(VersionedCount { value: 9, ..shared.latest() }, false);
        assert_eq!((shared.latest().value, told()), (1, None));
        // A server that lags, after a reconnect.
        shared.publish(older, true);
        assert_eq!((shared.latest().value, told()), (1, Some(1)));
        let newer = VersionedCount { value: 1, version: 5, zxid: 11 };
        shared.publish(newer, false);
        assert_eq!((shared.latest(), told()), (newer, Some(1)), "the same value, written again");
    }

    #[test]
    fn what_is_no_count_changes_nothing() {
        let shared = shared();
        let values = shared.subscribe();
        for (data, mzxid) in [(b"".as_slice(), 11), (b"12345", 12), (b"123", 5)] {
            let error = shared.take((data.to_vec(), change(mzxid)), true).unwrap_err();
            assert_eq!(error.kind(), crate::error::ErrorKind::UnusablePath);
        }
        assert_eq!((shared.latest().value, values.has_changed().unwrap()), (1, false));
        shared.take((vec![0, 0, 0, 7], change(13)), false).unwrap();
        assert_eq!((shared.latest().value, values.has_changed().unwrap()), (7, true));
    }
}
