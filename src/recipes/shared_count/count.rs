//! The format of a count, and the outcome of a write without an answer (pure).

use crate::client::Change;
use crate::error::{Error, ErrorKind};
use crate::lock_path::LockPath;

/// A count with the change that wrote it.
///
/// ```no_run
/// # use zookeeper_recipes::Error;
/// # use zookeeper_recipes::interop::SharedCount;
/// # async fn example(count: SharedCount) -> Result<(), Error> {
/// let before = count.versioned();
/// let was_last = count.try_set(&before, before.value + 1).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct VersionedCount {
    /// The count.
    pub value: i32,
    /// The number of writes since the node was created.
    /// [`SharedCount::try_set`](crate::interop::SharedCount::try_set) compares this.
    pub version: i32,
    /// The transaction that wrote the count. The number grows with each change, even if the node is created again.
    pub zxid: i64,
}

impl VersionedCount {
    pub(super) fn new(value: i32, change: Change) -> Self {
        Self { value, version: change.version, zxid: change.mzxid }
    }

    /// Fails if the data are no count. A count of Curator's is 4 bytes, big-endian.
    pub(super) fn parse(path: &LockPath, data: &[u8], change: Change) -> Result<Self, Error> {
        let bytes = data.try_into().map_err(|_| foreign(path, data))?;
        Ok(Self::new(i32::from_be_bytes(bytes), change))
    }
}

/// The error for data of the node at `path` that are no count.
fn foreign(path: &LockPath, found: &[u8]) -> Error {
    /// The number of bytes that are shown, so that a reader recognises the data.
    const SHOWN: usize = 32;
    let end = if found.len() > SHOWN { "…" } else { "" };
    let beginning = found[..found.len().min(SHOWN)].escape_ascii();
    let bytes = found.len();
    let text = format!("{path} has {bytes} bytes where a count has 4: \"{beginning}{end}\"");
    Error::new(ErrorKind::UnusablePath, text).at(path)
}

/// The outcome of a write of `value` over `expected` that no server answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The server has seen no write since.
    Unseen,
    /// Another client's write came first. Ours was not done, and will not be.
    Overtaken,
    /// Our write was done, or a write of another client that looks the same.
    Unclear,
}

/// Judges by the data that were found afterwards.
///
/// Only one write over one version of a node succeeds. So a client that finds other data with the next version knows
/// that its own write did not succeed. Equal data say nothing, because another client may have written them. Later versions
/// say nothing either, nor does a node that was created again.
pub(super) fn judge(expected: &VersionedCount, value: i32, data: &[u8], found: Change) -> Verdict {
    if found.mzxid <= expected.zxid {
        return Verdict::Unseen;
    }
    let same_node = found.czxid <= expected.zxid;
    let is_next = found.version == expected.version.wrapping_add(1);
    if same_node && is_next && data != value.to_be_bytes() {
        Verdict::Overtaken
    } else {
        Verdict::Unclear
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn change(czxid: i64, mzxid: i64, version: i32) -> Change {
        Change { czxid, mzxid, version }
    }

    fn path() -> LockPath {
        LockPath::parse("path", "/count").unwrap()
    }

    #[test]
    fn only_four_bytes_are_a_count() {
        let bad: [&[u8]; 5] = [b"", b"\x01", b"\x00\x00\x01", b"\x00\x00\x00\x00\x01", b"17"];
        for data in bad {
            let error = VersionedCount::parse(&path(), data, change(1, 1, 0)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::UnusablePath, "{data:?}");
        }
        let good = [
            ([0, 0, 0, 0], 0),
            ([0, 0, 1, 2], 258),
            ([0x7f, 0xff, 0xff, 0xff], i32::MAX),
            ([0x80, 0, 0, 0], i32::MIN),
            ([0xff, 0xff, 0xff, 0xff], -1),
        ];
        for (data, value) in good {
            let read = VersionedCount::parse(&path(), &data, change(1, 5, 3)).unwrap();
            assert_eq!(read, VersionedCount { value, version: 3, zxid: 5 });
        }
    }

    #[test]
    fn a_write_is_judged_by_what_is_found_after_it() {
        let expected = VersionedCount { value: 1, version: 7, zxid: 20 };
        let ours = 2_i32.to_be_bytes();
        let other = 3_i32.to_be_bytes();
        let table: [(&[u8], Change, Verdict); 9] = [
            (&1_i32.to_be_bytes(), change(10, 20, 7), Verdict::Unseen),
            (&other, change(10, 15, 6), Verdict::Unseen),
            (&other, change(10, 21, 8), Verdict::Overtaken),
            (b"foreign", change(10, 21, 8), Verdict::Overtaken),
            (&ours, change(10, 21, 8), Verdict::Unclear),
            (&other, change(10, 22, 9), Verdict::Unclear),
            (&ours, change(10, 22, 9), Verdict::Unclear),
            // The node was created again.
            (&other, change(25, 30, 8), Verdict::Unclear),
            (&other, change(25, 25, 0), Verdict::Unclear),
        ];
        for (data, found, verdict) in table {
            assert_eq!(judge(&expected, 2, data, found), verdict, "{data:?} {found:?}");
        }
        let last = VersionedCount { version: i32::MAX, ..expected };
        let verdict = judge(&last, 2, &other, change(10, 21, i32::MIN));
        assert_eq!(verdict, Verdict::Overtaken);
    }

    /// A write to the node: over the version that it expects, or blind, or by creating the node again.
    #[derive(Clone, Debug)]
    enum Step {
        Ours,
        Swap(i32),
        Set(i32),
        MakeAgain,
    }

    proptest! {
        /// In any history of others' writes, with or without ours in it, a write that comes out as `Overtaken` was not done.
        #[test]
        fn overtaken_is_never_said_of_a_write_that_was_done(
            steps in proptest::collection::vec(prop_oneof![
                Just(Step::Ours),
                (0..4).prop_map(Step::Swap),
                (0..4).prop_map(Step::Set),
                Just(Step::MakeAgain),
            ], 0..6),
            later in 0..6_usize,
        ) {
            let expected = VersionedCount { value: 0, version: 0, zxid: 1 };
            let mut value = 0;
            let mut node = change(1, 1, 0);
            let mut done = false;
            let mut zxid = 1;
            let mut seen = None;
            for (at, step) in steps.iter().enumerate() {
                zxid += 1;
                let next = match step {
                    Step::Ours if node.version == expected.version => { done = true; Some(2) }
                    Step::Swap(next) if node.version == expected.version => Some(*next),
                    Step::Set(next) => Some(*next),
                    Step::MakeAgain => { node = change(zxid, zxid, 0); value = 0; None }
                    Step::Ours | Step::Swap(_) => None,
                };
                if let Some(next) = next {
                    value = next;
                    node = Change { mzxid: zxid, version: node.version + 1, ..node };
                }
                if at == later {
                    seen = Some(judge(&expected, 2, &value.to_be_bytes(), node));
                }
            }
            // The verdict is final at any moment, unless the node is created again.
            let made_again = steps.iter().any(|step| matches!(step, Step::MakeAgain));
            if seen == Some(Verdict::Overtaken) && !made_again {
                prop_assert!(!done);
            }
        }
    }
}
