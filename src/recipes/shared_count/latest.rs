//! [`LatestCount`]: the latest known count, which the handles share with the task that follows the node.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::count::VersionedCount;
use crate::client::Change;
use crate::error::Error;
use crate::lock_path::LockPath;
use crate::recipes::shared::observation::Feed;
use crate::sync::Mutex;

#[derive(Debug)]
pub(crate) struct LatestCount {
    latest: Mutex<VersionedCount>,
    /// The values, the first one included.
    pub(super) feed: Arc<Feed<i32>>,
    /// True after a warning was logged that the data are no count.
    has_warned: AtomicBool,
}

impl LatestCount {
    pub(super) fn new(path: &LockPath, first: VersionedCount) -> Self {
        Self {
            latest: Mutex::new(first),
            feed: Feed::new(path, Some(first.value)),
            has_warned: AtomicBool::new(false),
        }
    }

    pub(super) fn path(&self) -> &LockPath {
        &self.feed.path
    }

    pub(super) fn latest(&self) -> VersionedCount {
        *self.latest.lock()
    }

    /// Stores a count that was read or written, if it is newer. Watches report it; with `again` they report the latest count
    /// even if it is the same.
    pub(super) fn publish(&self, count: VersionedCount, again: bool) {
        // Locked to the end, so that the last value that is reported is the latest.
        let mut latest = self.latest.lock();
        let is_newer = count.zxid > latest.zxid;
        if is_newer {
            *latest = count;
            self.has_warned.store(false, Ordering::Relaxed);
        }
        if is_newer || again {
            self.feed.last.send_replace(Some(latest.value));
        }
    }

    /// Parses and [publishes](Self::publish) data that were read. Data that are no count are an error, and change nothing.
    pub(super) fn take(
        &self,
        data: Vec<u8>,
        change: Change,
        again: bool,
    ) -> Result<VersionedCount, Error> {
        let count = VersionedCount::parse(self.path(), &data, change).inspect_err(|error| {
            // A lagging server may return older data.
            if change.mzxid > self.latest().zxid && !self.has_warned.swap(true, Ordering::Relaxed) {
                tracing::warn!(%error, "keeps the last count");
            }
        })?;
        self.publish(count, again);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latest() -> LatestCount {
        let path = LockPath::parse("path", "/count").unwrap();
        LatestCount::new(&path, VersionedCount { value: 1, version: 4, zxid: 10 })
    }

    fn change(mzxid: i64) -> Change {
        Change { czxid: 1, mzxid, version: 5 }
    }

    #[test]
    fn what_is_known_moves_to_later_changes_only() {
        let latest = latest();
        let mut values = latest.feed.last.subscribe();
        let mut reported = || match values.has_changed().unwrap() {
            true => *values.borrow_and_update(),
            false => None,
        };
        let older = VersionedCount { value: 9, version: 3, zxid: 9 };
        latest.publish(older, false);
        latest.publish(VersionedCount { value: 9, ..latest.latest() }, false);
        assert_eq!((latest.latest().value, reported()), (1, None));
        // A lagging server, after a reconnect.
        latest.publish(older, true);
        assert_eq!((latest.latest().value, reported()), (1, Some(1)));
        let newer = VersionedCount { value: 1, version: 5, zxid: 11 };
        latest.publish(newer, false);
        assert_eq!(
            (latest.latest(), reported()),
            (newer, Some(1)),
            "the same value, written again"
        );
    }

    #[test]
    fn what_is_no_count_changes_nothing() {
        let latest = latest();
        let values = latest.feed.last.subscribe();
        for (data, mzxid) in [(b"".as_slice(), 11), (b"12345", 12), (b"123", 5)] {
            let error = latest.take(data.to_vec(), change(mzxid), true).unwrap_err();
            assert_eq!(error.kind(), crate::error::ErrorKind::UnusablePath);
        }
        assert_eq!((latest.latest().value, values.has_changed().unwrap()), (1, false));
        latest.take(vec![0, 0, 0, 7], change(13), false).unwrap();
        assert_eq!((latest.latest().value, values.has_changed().unwrap()), (7, true));
    }
}
