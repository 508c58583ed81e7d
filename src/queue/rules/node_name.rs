//! The names of contenders' nodes. Only this file builds and parses them.
//!
//! A name is `_c_<uuid>-<kind><sequence>`, byte for byte as Apache Curator writes it in its protected mode. Curator ranks a child
//! by the text behind the *last* occurrence of the kind. So a child is a contender if that text is a sequence number, whatever
//! stands before it. Other children are ignored.
//!
//! Sequences are compared as integers, never as text: text order breaks at the wrap to negative numbers.
//!
//! Pure: no I/O, no clock.

use std::fmt;

use uuid::{Uuid, Version};

/// The distance from the wrap of the parent's signed 32-bit counter within which new contenders are refused: past the wrap they
/// sort before the holder, and two would hold.
pub(crate) const WRAP_MARGIN: i64 = 1 << 20;

/// The kind of a contender, which is the text before the sequence number in its node's name.
///
/// ```no_run
/// # use zookeeper_recipes::interop::ContenderKind;
/// # use zookeeper_recipes::{Error, InterProcessReadWriteLock};
/// # async fn example(lock: InterProcessReadWriteLock) -> Result<(), Error> {
/// let all = lock.participants().await?;
/// let writers = all.iter().filter(|one| one.kind() == Some(ContenderKind::Write));
/// println!("{} write or wait to", writers.count());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// `lock-`: Curator's `InterProcessMutex` and `LeaderSelector`.
    Lock,
    /// `__lock__`: kazoo's `Lock` and `WriteLock`.
    KazooLock,
    /// `__rlock__`: kazoo's `ReadLock`.
    KazooRead,
    /// `__READ__`: the reading half of Curator's `InterProcessReadWriteLock`.
    Read,
    /// `__WRIT__`: the writing half of Curator's `InterProcessReadWriteLock`.
    Write,
    /// `lease-`: Curator's `InterProcessSemaphoreV2`.
    Lease,
    /// `latch-`: Curator's `LeaderLatch`.
    Latch,
}

impl Kind {
    /// Returns the kind of the contender whose node has this name, without the path above it. `None` for other children, also for
    /// a word that only ends like a contender's name.
    ///
    /// ```
    /// use zookeeper_recipes::interop::ContenderKind;
    ///
    /// assert_eq!(ContenderKind::of_node("x-lock-0000000007"), Some(ContenderKind::Lock));
    /// assert_eq!(ContenderKind::of_node("block-0000000007"), None);
    /// ```
    #[must_use]
    pub fn of_node(name: &str) -> Option<Self> {
        kind_of(name)
    }

    /// All kinds. No tag is the end of another.
    pub(crate) const ALL: [Self; 7] = [
        Self::Lock,
        Self::KazooLock,
        Self::KazooRead,
        Self::Read,
        Self::Write,
        Self::Lease,
        Self::Latch,
    ];

    pub(crate) const fn tag(self) -> &'static str {
        match self {
            Kind::Lock => "lock-",
            Kind::KazooLock => "__lock__",
            Kind::KazooRead => "__rlock__",
            Kind::Read => "__READ__",
            Kind::Write => "__WRIT__",
            Kind::Lease => "lease-",
            Kind::Latch => "latch-",
        }
    }

    /// The length of a name in bytes.
    pub(crate) fn name_bytes(self) -> usize {
        const DIGITS: usize = 10;
        let guid = if matches!(self, Kind::KazooLock | Kind::KazooRead) { 32 } else { 40 };
        guid + self.tag().len() + DIGITS
    }
}

/// Returns the name up to the sequence number, which the server appends.
pub(crate) fn protected_prefix(guid: Uuid, kind: Kind) -> String {
    match kind {
        Kind::KazooLock | Kind::KazooRead => format!("{}{}", guid.simple(), kind.tag()),
        _ => format!("{}{}", guid_prefix(guid), kind.tag()),
    }
}

/// Marks the GUID of a node that may be kept without a hold: by the version digit, which Curator and kazoo do not read.
pub(crate) fn retainable(guid: Uuid) -> Uuid {
    uuid::Builder::from_bytes(guid.into_bytes()).with_version(Version::Custom).into_uuid()
}

/// Returns true if the node may be kept without a hold.
pub(crate) fn is_retainable(name: &str) -> bool {
    // The GUID has hyphens behind Curator's prefix, and none where kazoo writes it.
    let guid = match name.strip_prefix("_c_") {
        Some(rest) => rest.get(..36),
        None => name.get(..32),
    };
    guid.and_then(|guid| Uuid::try_parse(guid).ok())
        .is_some_and(|guid| guid.get_version() == Some(Version::Custom))
}

/// Returns true if the node of readers may be kept without a hold, as others beside it may be.
pub(crate) fn is_retainable_read(name: &str) -> bool {
    kind_of(name) == Some(Kind::Read) && is_retainable(name)
}

/// The prefix of a node's name that holds its GUID.
fn guid_prefix(guid: Uuid) -> String {
    format!("_c_{}-", guid.hyphenated())
}

/// The name of a child that contends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContenderName {
    name: Box<str>,
    sequence: i64,
}

impl ContenderName {
    pub(crate) fn new(sequence: i64, name: &str) -> Self {
        Self { name: name.into(), sequence }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.name
    }

    pub(crate) fn sequence(&self) -> i64 {
        self.sequence
    }
}

impl fmt::Display for ContenderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// The order of the queue: by the integer sequence. The name breaks a tie, which only a hand-made node can cause, so that all
/// clients see one order.
impl Ord for ContenderName {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.sequence.cmp(&other.sequence).then_with(|| self.name.cmp(&other.name))
    }
}

impl PartialOrd for ContenderName {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Returns the sequence number of a child; `None` for a child that is no contender of this kind.
pub(crate) fn sequence_of(name: &str, kind: Kind) -> Option<i64> {
    let behind = name.rfind(kind.tag())? + kind.tag().len();
    parse_sequence(&name[behind..])
}

/// Returns the kind whose tag is before the number, whatever stands before the tag.
pub(crate) fn tagged(name: &str) -> Option<Kind> {
    // This first check rejects most names that are no contenders'.
    last_number(name)?;
    Kind::ALL.into_iter().find(|kind| sequence_of(name, *kind).is_some())
}

/// Returns the kind of a contender, if it is one of the known kinds.
pub(crate) fn kind_of(name: &str) -> Option<Kind> {
    // Other children have words for names, which may end in one of the tags.
    let is_word = |kind: &Kind| {
        let before = name.rfind(kind.tag()).and_then(|start| name[..start].chars().next_back());
        kind.tag().starts_with('_') || before.is_none_or(|before| before == '-')
    };
    tagged(name).filter(is_word)
}

/// Returns the number that ends a child's name, whatever stands before it.
pub(crate) fn last_number(name: &str) -> Option<i64> {
    let last = |length| name.get(name.len().checked_sub(length)?..).and_then(parse_sequence);
    // A number of ten digits with a sign is longer.
    last(11).or_else(|| last(10))
}

/// Returns true if a contender may hold with this sequence number.
pub(crate) fn is_safe_sequence(sequence: i64) -> bool {
    (0..=i64::from(i32::MAX) - WRAP_MARGIN).contains(&sequence)
}

/// Parses ten digits, zero padded (Java's `%010d` of a signed 32-bit number: the sign counts as a digit).
fn parse_sequence(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let negative = digits.len() < text.len();
    // The servers print no longer number.
    if !(10..=11).contains(&text.len()) || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let sequence = i64::from(i32::try_from(text.parse::<i64>().ok()?).ok()?);
    let printed_by_server = match text.len() {
        // The servers print zero without a sign.
        10 => !negative || sequence != 0,
        // Only a negative number of ten digits is this long.
        _ => negative && sequence <= -1_000_000_000,
    };
    printed_by_server.then_some(sequence)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GUID: &str = "1b4e28ba-2fa1-41d2-883f-0016d3cca427";

    fn parse(name: &str) -> Option<ContenderName> {
        Some(ContenderName::new(sequence_of(name, Kind::Lock)?, name))
    }

    #[test]
    fn names_are_curators_byte_for_byte() {
        let guid: Uuid = GUID.parse().unwrap();
        assert_eq!(guid_prefix(guid), format!("_c_{GUID}-"));
        assert_eq!(guid_prefix(guid).len(), 40);
        assert_eq!(protected_prefix(guid, Kind::Lock), format!("_c_{GUID}-lock-"));
        for (kind, length) in [
            (Kind::Lock, 55),
            (Kind::Lease, 56),
            (Kind::Latch, 56),
            (Kind::Read, 58),
            (Kind::Write, 58),
        ] {
            let name = format!("{}{:010}", protected_prefix(guid, kind), 7);
            assert_eq!((name.len(), kind_of(&name)), (length, Some(kind)));
            assert_eq!(kind.name_bytes(), length);
        }
    }

    #[test]
    fn names_are_kazoos_byte_for_byte() {
        let guid: Uuid = GUID.parse().unwrap();
        let kazoo = "1b4e28ba2fa141d2883f0016d3cca427__lock__";
        assert_eq!(protected_prefix(guid, Kind::KazooLock), kazoo);
        assert_eq!(kind_of(&format!("{kazoo}0000000003")), Some(Kind::KazooLock));
        assert_eq!(Kind::KazooLock.name_bytes(), kazoo.len() + 10);
    }

    #[test]
    fn words_that_end_in_a_tag_are_no_contenders_of_that_kind() {
        for name in ["release-0000000001", "block-0000000001", "x_latch-0000000001"] {
            assert_eq!(kind_of(name), None, "{name}");
            // A contender with that tag yields to them all the same.
            assert!(tagged(name).is_some(), "{name}");
        }
        for name in ["lease-0000000001", "x-lease-0000000001"] {
            assert_eq!(kind_of(name), Some(Kind::Lease), "{name}");
        }
    }

    #[test]
    fn the_last_number_is_read_whatever_stands_before() {
        let table = [
            ("0000000007", Some(7)),
            ("x0000000007", Some(7)),
            ("é0000000007", Some(7)),
            ("n_0000000007", Some(7)),
            ("x--2147483648", Some(-2_147_483_648)),
            ("x--000000007", Some(-7)),
            ("x-0000000007", Some(7)),
            ("000000007", None),
            ("", None),
            ("x9999999999", None),
            ("é", None),
            ("éééééé", None),
        ];
        for (name, number) in table {
            assert_eq!(last_number(name), number, "{name:?}");
        }
    }

    #[test]
    fn what_counts_as_a_contender() {
        let table: &[(&str, Option<i64>)] = &[
            ("_c_1b4e28ba-2fa1-41d2-883f-0016d3cca427-lock-0000000000", Some(0)),
            ("_c_1b4e28ba-2fa1-41d2-883f-0016d3cca427-lock-2147483647", Some(2_147_483_647)),
            ("_c_1b4e28ba-2fa1-41d2-883f-0016d3cca427-lock--2147483648", Some(-2_147_483_648)),
            ("_c_1b4e28ba-2fa1-41d2-883f-0016d3cca427-lock--000000001", Some(-1)),
            // go-zookeeper: a GUID without dashes.
            ("_c_1b4e28ba2fa141d2883f0016d3cca427-lock-0000000031", Some(31)),
            ("lock-0000000005", Some(5)),
            ("x-lock-lock-0000000005", Some(5)),
            // Not contenders of a mutex.
            ("", None),
            ("0", None),
            ("zzz", None),
            ("lock-", None),
            ("lock-5", None),
            ("lock-00000000005", None),
            ("lock-9999999999", None),
            ("lock-000000000x", None),
            ("lock-+000000001", None),
            ("lock--0", None),
            ("lock--00000001", None),
            ("lock-0000000005-lock-", None),
            ("lock-0000000005/x", None),
            ("lock-٠٠٠٠٠٠٠٠٠٠", None),
            ("_c_1b4e28ba-2fa1-41d2-883f-0016d3cca427-latch-0000000000", None),
            ("_c_1b4e28ba-2fa1-41d2-883f-0016d3cca427-__WRIT__0000000000", None),
            // kazoo
            ("5f3c28ba2fa141d2883f0016d3cca427__lock__0000000003", None),
        ];
        for (name, sequence) in table {
            let parsed = parse(name);
            assert_eq!(parsed.map(|c| c.sequence()), *sequence, "{name:?}");
        }
    }

    #[test]
    fn order_is_by_integer_then_by_name() {
        let mut names: Vec<_> =
            ["z-lock-0000000009", "a-lock-0000000010", "b-lock-0000000010", "c-lock--000000001"]
                .iter()
                .map(|n| parse(n).unwrap())
                .collect();
        names.sort();
        let order: Vec<_> = names.iter().map(ContenderName::as_str).collect();
        assert_eq!(
            order,
            ["c-lock--000000001", "z-lock-0000000009", "a-lock-0000000010", "b-lock-0000000010"]
        );
    }

    #[test]
    fn sequences_near_the_wrap_are_refused() {
        let last = i64::from(i32::MAX) - WRAP_MARGIN;
        for (sequence, safe) in [(0, true), (1, true), (last, true), (last + 1, false), (-1, false)]
        {
            assert_eq!(is_safe_sequence(sequence), safe, "{sequence}");
        }
        assert!(!is_safe_sequence(i32::MAX.into()));
        assert!(!is_safe_sequence(i32::MIN.into()));
    }

    #[test]
    fn a_million_digits_are_no_sequence() {
        for digit in ["0", "1", "9"] {
            for count in [11, 19, 20, 40, 1_000_000] {
                let name = format!("lock-{}", digit.repeat(count));
                assert_eq!(parse(&name), None, "{count} times {digit}");
            }
        }
    }

    proptest! {
        #[test]
        fn what_the_server_appends_is_read_back(bits in any::<u128>(), sequence in any::<i32>()) {
            let name = format!("{}{sequence:010}", protected_prefix(Uuid::from_u128(bits), Kind::Lock));
            let parsed = parse(&name).unwrap();
            prop_assert_eq!(parsed.sequence(), i64::from(sequence));
            prop_assert_eq!(parsed.as_str(), &name);
            prop_assert_eq!(parsed.to_string(), name);
        }

        #[test]
        fn no_name_panics(name in "\\PC{0,80}") {
            let _ = parse(&name);
        }

        /// Any bytes that are text, control characters among them, with every part missing or doubled.
        #[test]
        fn only_what_a_server_would_append_is_a_sequence(
            before in "(_c_)?([0-9a-f-]{0,40})?(-)?(lock-){0,3}",
            behind in "(-{0,2}[0-9]{0,25}|[\\x00-\\x7f]{0,12}|.{0,12})",
        ) {
            let name = format!("{before}{behind}");
            if let Some(contender) = parse(&name) {
                let sequence = i32::try_from(contender.sequence()).unwrap();
                let printed = format!("lock-{sequence:010}");
                prop_assert!(name.ends_with(&printed), "{name:?} is read as {printed}");
            }
        }

    }
}
