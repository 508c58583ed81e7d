//! The rules that decide which contenders hold.
//!
//! Pure: a listing of the lock path goes in, a position comes out. It is safe to act on `First` because the set of smaller
//! contenders that keep us out can only shrink after our own create: new ones get larger sequence numbers (invariant 2). The
//! listing must therefore contain our own node.
//!
//! * *Exclusive*, *latches*, and *write*: no contender of any kind is before us.
//! * *Read*: no writer is before us. So readers hold together, and a waiting writer keeps later readers out: no stream of readers
//!   starves it. The downgraded read of an existing writer can turn up before a reader later, under the writer's number. A
//!   reader ignores it, and a writer must list again.
//! * *Leases*: no more children than the limit, whichever client created them, as Curator counts. Each contender counts the
//!   children at its own create or later; so of any set of contenders that hold, the last one to be created counted all of them.

use super::filter::ContenderFilter;
use super::node_name::{
    ContenderName, Kind, is_retainable, is_retainable_read, kind_of, sequence_of,
};

/// A set of contenders that queue together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Family {
    Exclusive(ContenderFilter),
    Latches,
    /// Latches and selectors. Only observers, which do not contend, use this family.
    Leaders,
    ReadWrite,
    Leases,
}

/// The place of a contender in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank<'a> {
    sequence: i64,
    /// The name breaks the tie of a downgraded read and its writer, and of hand-made nodes.
    name: &'a str,
    shared: bool,
}

impl Rank<'_> {
    fn is_kept_out_by(self, other: Rank<'_>) -> bool {
        // A writer and its companion read have one number.
        if self.shared { !other.shared && other.sequence < self.sequence } else { other < self }
    }

    pub(crate) fn to_name(self) -> ContenderName {
        ContenderName::new(self.sequence, self.name)
    }
}

impl Family {
    /// Returns true if one contender holds at a time, and the sequence numbers give the whole order.
    pub(crate) fn is_exclusive(&self) -> bool {
        matches!(self, Self::Exclusive(_) | Self::Latches | Self::Leaders)
    }

    /// Returns the place of a child; `None` for a child that does not contend.
    pub(crate) fn rank<'a>(&self, name: &'a str) -> Option<Rank<'a>> {
        let (sequence, shared) = match self {
            Self::Exclusive(filter) => (filter.sequence_of(name)?, false),
            Self::Latches => (sequence_of(name, Kind::Latch)?, false),
            Self::Leaders => {
                let latch = sequence_of(name, Kind::Latch);
                (latch.or_else(|| sequence_of(name, Kind::Lock))?, false)
            }
            Self::ReadWrite => match sequence_of(name, Kind::Write) {
                Some(sequence) => (sequence, false),
                None => (sequence_of(name, Kind::Read)?, true),
            },
            Self::Leases => (sequence_of(name, Kind::Lease)?, true),
        };
        Some(Rank { sequence, name, shared })
    }

    pub(crate) fn counts(&self, name: &str) -> bool {
        self.rank(name).is_some()
    }

    /// Returns a child that contends by the rules of another recipe: contenders of the two do not exclude each other.
    pub(crate) fn other_recipe<'a>(&self, children: &'a [String]) -> Option<&'a str> {
        // The author of the filter decides which contenders count.
        if matches!(self, Self::Exclusive(ContenderFilter::Custom(_))) {
            return None;
        }
        let is_other = |name: &&String| !self.counts(name) && kind_of(name).is_some();
        children.iter().find(is_other).map(String::as_str)
    }
}

/// The place of a contender in the queue, by a listing or by the [gap rule](super::gap).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// No earlier contender keeps it out.
    First,
    Behind(Predecessors),
    /// One of at most this many leases.
    Among(usize),
    /// The own node does not exist.
    Gone,
}

/// The contenders that a contender waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Predecessors {
    /// The nearest earlier contender that keeps it out, so that a release wakes one contender (invariant 6), or the readers
    /// behind it.
    pub(crate) predecessor: ContenderName,
    /// The contender before the predecessor, for the stand-by rule. Only exclusive families use it: all readers behind one
    /// writer would list when the contender before the writer is deleted.
    pub(crate) stand_by: Option<ContenderName>,
    /// True if the deletion of the predecessor admits the contender, by the head rule.
    pub(crate) admits: bool,
    /// True if some of those ahead may keep their nodes without a hold, and give them up when they see another contender.
    pub(crate) may_be_kept: bool,
}

/// Returns the contenders among `children`, in the order of the queue.
pub(crate) fn queue<'a>(children: &'a [String], family: &Family) -> Vec<Rank<'a>> {
    let mut queue: Vec<_> = children.iter().filter_map(|name| family.rank(name)).collect();
    queue.sort_unstable();
    queue
}

/// Returns the queue, and whether each contender holds, as far as the names show. For leases they do not.
pub(crate) fn standings(children: &[String], family: &Family) -> Vec<(ContenderName, bool)> {
    let queue = queue(children, family);
    let first = |exclusive: bool| {
        let mut those = queue.iter().filter(|rank| !exclusive || !rank.shared);
        those.next().map_or(i64::MAX, |rank| rank.sequence)
    };
    let first_of_all = first(false);
    let first_writer = first(true);
    let holds = |place: usize, rank: &Rank<'_>| match family {
        Family::Exclusive(_) | Family::Latches | Family::Leaders => place == 0,
        // A writer and its downgraded read have one number.
        Family::ReadWrite if rank.shared => rank.sequence <= first_writer,
        Family::ReadWrite => rank.sequence == first_of_all && rank.sequence == first_writer,
        Family::Leases => true,
    };
    let standing = |(place, rank): (usize, &Rank<'_>)| (rank.to_name(), holds(place, rank));
    queue.iter().enumerate().map(standing).collect()
}

/// Returns true if a new contender has to wait for one of `children`.
pub(crate) fn is_busy(children: &[String], family: &Family, shared: bool) -> bool {
    let keeps_out = |rank: Rank<'_>| !shared || !rank.shared;
    children.iter().any(|name| family.rank(name).is_some_and(keeps_out))
}

/// Decides for the contender named `mine`.
pub(crate) fn decide(children: &[String], mine: &str, family: &Family) -> Position {
    if *family == Family::Leases {
        return match children.iter().any(|name| name == mine) {
            true => Position::Among(children.len()),
            false => Position::Gone,
        };
    }
    // No name is copied, because there may be thousands.
    let Some(mine) = family.rank(mine) else {
        return Position::Gone;
    };
    let mut found = false;
    let mut second = None;
    let mut predecessor = None;
    for contender in children.iter().filter_map(|name| family.rank(name)) {
        if contender == mine {
            found = true;
        } else if mine.is_kept_out_by(contender) {
            if predecessor.is_none_or(|nearest| contender > nearest) {
                second = predecessor;
                predecessor = Some(contender);
            } else if second.is_none_or(|second| contender > second) {
                second = Some(contender);
            }
        }
    }
    if !found {
        return Position::Gone;
    }
    let Some(predecessor) = predecessor else {
        return Position::First;
    };
    let is_head = second.is_none();
    let is_exclusive = family.is_exclusive();
    Position::Behind(Predecessors {
        predecessor: predecessor.to_name(),
        stand_by: second.filter(|_| is_exclusive).map(Rank::to_name),
        // A writer may meet the downgraded read of another writer: see the head rule.
        admits: is_head && (is_exclusive || mine.shared),
        may_be_kept: is_retainable_read(predecessor.name)
            || is_head && is_retainable(predecessor.name),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MUTEX: Family = Family::Exclusive(ContenderFilter::Curator);

    fn name(sequence: i32) -> String {
        format!("_c_x-lock-{sequence:010}")
    }

    /// The position behind these contenders, from the head to the predecessor.
    fn behind(before: &[&str]) -> Position {
        let parse = |name: &&str| MUTEX.rank(name).unwrap().to_name();
        let mut nearest = before.iter().rev().map(parse);
        Position::Behind(Predecessors {
            predecessor: nearest.next().unwrap(),
            stand_by: nearest.next(),
            admits: before.len() == 1,
            may_be_kept: false,
        })
    }

    #[test]
    fn table() {
        let [a, b, c, d] = &[1, 9, 10, 11].map(name);
        let [a, b, c, d] = [a, b, c, d].map(String::as_str);
        let foreign = ["0", "zzz", "_c_x-latch-0000000000", "5f__lock__0000000000", ""];
        let rows: &[(&[&str], &str, Position)] = &[
            (&[a], a, Position::First),
            (&[b, a], a, Position::First),
            (&[b, a], b, behind(&[a])),
            (&[c, a, b], c, behind(&[a, b])),
            (&[b, c, a, d], d, behind(&[a, b, c])),
            (&[c, a, b, d], d, behind(&[a, b, c])),
            (&[c, b], c, behind(&[b])),
            (&[a, b], c, Position::Gone),
            (&[], a, Position::Gone),
            (&foreign, a, Position::Gone),
            (&[foreign[0], foreign[1], foreign[2], foreign[3], c], c, Position::First),
            (&[&name(-5), a], a, behind(&[&name(-5)])),
            (&[a], "no contender", Position::Gone),
        ];
        for (children, mine, expected) in rows {
            let children: Vec<_> = children.iter().map(|c| c.to_string()).collect();
            assert_eq!(decide(&children, mine, &MUTEX), *expected, "{mine} in {children:?}");
        }
    }

    #[test]
    fn a_tie_of_hand_made_nodes_is_broken_by_name() {
        let children = ["b-lock-0000000001".to_owned(), "a-lock-0000000001".to_owned()];
        assert_eq!(decide(&children, &children[1], &MUTEX), Position::First);
        assert_eq!(decide(&children, &children[0], &MUTEX), behind(&["a-lock-0000000001"]));
    }

    fn read(sequence: i32) -> String {
        format!("_c_r-__READ__{sequence:010}")
    }

    fn write(sequence: i32) -> String {
        format!("_c_w-__WRIT__{sequence:010}")
    }

    fn owned(children: &[&str]) -> Vec<String> {
        children.iter().map(|child| (*child).to_owned()).collect()
    }

    #[test]
    fn readers_wait_for_the_nearest_writer_and_writers_for_all() {
        let (r1, r2, w3, r4, w5, r6) =
            (&*read(1), &*read(2), &*write(3), &*read(4), &*write(5), &*read(6));
        let down = &*read(3);
        // A read that sorts after its writer.
        let beside = &*format!("_c_z-__READ__{:010}", 3);
        // Each row ends with the predecessor, and whether its deletion admits.
        type Row<'a> = (&'a [&'a str], &'a str, Option<(&'a str, bool)>);
        let rows: &[Row<'_>] = &[
            (&[r2, r1], r2, None),
            (&[w3, r2, r1], r1, None),
            (&[w3, r2, r1], w3, Some((r2, false))),
            (&[r4, w3, r1], r4, Some((w3, true))),
            (&[r6, w5, r4, w3, r1], r6, Some((w5, false))),
            (&[w5, r4], w5, Some((r4, false))),
            // A downgraded read keeps writers out under its writer's number, and no reader.
            (&[down, r4, w5], w5, Some((r4, false))),
            (&[down, w5], w5, Some((down, false))),
            (&[down, r4], r4, None),
            (&[down, w3], down, None),
            (&[w3], w3, None),
            (&[w3, down], down, None),
            (&[w3, beside], beside, None),
            (&[w3, beside, r4], r4, Some((w3, true))),
            (&[w3, beside, w5], w5, Some((beside, false))),
        ];
        for (children, mine, waits_for) in rows {
            let position = decide(&owned(children), mine, &Family::ReadWrite);
            let waits = match &position {
                Position::Behind(ahead) => {
                    assert_eq!(ahead.stand_by, None, "{mine} in {children:?}");
                    Some((ahead.predecessor.as_str(), ahead.admits))
                }
                Position::First => None,
                other => panic!("{mine} in {children:?}: {other:?}"),
            };
            assert_eq!(waits, *waits_for, "{mine} in {children:?}");
        }
    }

    #[test]
    fn the_nodes_of_readers_and_a_head_may_be_kept() {
        // The version digit of the GUID says that the node may be kept.
        let kept = "_c_1b4e28ba-2fa1-81d2-883f-0016d3cca427-";
        let read = |sequence: i32| format!("{kept}__READ__{sequence:010}");
        let write = |sequence: i32| format!("{kept}__WRIT__{sequence:010}");
        let (r1, w1, r2, w2, w3) = (&*read(1), &*write(1), &*read(2), &*write(2), &*write(3));
        let rows: &[(&[&str], bool)] = &[
            (&[w2, w3], true),
            (&[w1, w2, w3], false),
            (&[r2, w3], true),
            (&[r1, r2, w3], true),
            (&[r1, w2, w3], false),
            (&["_c_x-__WRIT__0000000001", w3], false),
        ];
        for (children, may_be_kept) in rows {
            let Position::Behind(ahead) = decide(&owned(children), w3, &Family::ReadWrite) else {
                panic!("{children:?}");
            };
            assert_eq!(ahead.may_be_kept, *may_be_kept, "{children:?}");
        }
    }

    #[test]
    fn a_lease_is_one_of_all_children() {
        let lease = "_c_x-lease-0000000002";
        let children = owned(&[lease, "_c_x-lease-0000000001", "foreign"]);
        assert_eq!(decide(&children, lease, &Family::Leases), Position::Among(3));
        assert_eq!(decide(&children[1..], lease, &Family::Leases), Position::Gone);
    }

    #[test]
    fn standings_show_the_holders_of_the_whole_queue() {
        let (r1, w3, r4, w5) = (&*read(1), &*write(3), &*read(4), &*write(5));
        let down = &*read(3);
        let rows: &[(&[&str], &[&str])] = &[
            (&[r4, r1], &[r1, r4]),
            (&[r4, w3, r1], &[r1]),
            (&[r4, w3], &[w3]),
            (&[w5, w3, down, r4], &[w3, down]),
            (&[w5, down, r4], &[down, r4]),
            (&[], &[]),
        ];
        for (children, holding) in rows {
            let standings = standings(&owned(children), &Family::ReadWrite);
            assert_eq!(standings.len(), children.len());
            let mut holds: Vec<_> = standings
                .iter()
                .filter(|(_, holds)| *holds)
                .map(|(name, _)| name.as_str())
                .collect();
            holds.sort_by_key(|name| holding.iter().position(|other| other == name));
            assert_eq!(&holds, holding, "{children:?}");
        }
    }

    #[test]
    fn the_numbers_give_the_whole_order_of_exclusive_families() {
        for (family, is_exclusive) in [
            (MUTEX, true),
            (Family::Latches, true),
            (Family::Leaders, true),
            (Family::ReadWrite, false),
            (Family::Leases, false),
        ] {
            assert_eq!(family.is_exclusive(), is_exclusive, "{family:?}");
        }
    }

    /// Children, then whether a reader and whether a writer has to wait.
    #[test]
    fn a_new_contender_waits_for_those_that_exclude_it() {
        let rows: &[(&[&str], bool, bool)] = &[
            (&[], false, false),
            (&["0", "zzz", &name(1)], false, false),
            (&[&read(1)], false, true),
            (&[&write(1)], true, true),
            (&[&read(1), &write(2)], true, true),
        ];
        for (children, read_waits, write_waits) in rows {
            let waits = |shared| is_busy(&owned(children), &Family::ReadWrite, shared);
            assert_eq!(waits(true), *read_waits, "{children:?}");
            assert_eq!(waits(false), *write_waits, "{children:?}");
        }
    }

    #[test]
    fn one_contender_of_an_exclusive_family_holds_and_each_lease_may() {
        let lease = |sequence| format!("_c_x-lease-{sequence:010}");
        let latch = |sequence| format!("_c_x-latch-{sequence:010}");
        let rows = [
            (MUTEX, [name(2), name(1)], [true, false]),
            (Family::Latches, [latch(2), latch(1)], [true, false]),
            (Family::Leaders, [name(2), latch(1)], [true, false]),
            (Family::Leases, [lease(2), lease(1)], [true, true]),
        ];
        for (family, [later, earlier], holds) in rows {
            let standings = standings(&[later.clone(), earlier.clone()], &family);
            let order: Vec<_> = standings.iter().map(|(name, _)| name.as_str()).collect();
            assert_eq!(order, [earlier, later]);
            let held: Vec<_> = standings.iter().map(|(_, holds)| *holds).collect();
            assert_eq!(held, holds, "{family:?}");
        }
    }

    #[test]
    fn other_recipes_are_recognized_by_their_names() {
        let mutex = &*name(1);
        let kazoo = "5f__lock__0000000000";
        let rows: &[(&Family, &[&str], Option<&str>)] = &[
            (&MUTEX, &[mutex, "0", "zzz", "locks", "x-0000000001"], None),
            (&MUTEX, &[mutex, kazoo], Some(kazoo)),
            (&MUTEX, &[&write(1)], Some(&write(1))),
            (&MUTEX, &["_c_x-latch-0000000000"], Some("_c_x-latch-0000000000")),
            (&Family::Exclusive(ContenderFilter::Inclusive), &[mutex, kazoo], None),
            (&Family::Exclusive(ContenderFilter::Kazoo), &[mutex, kazoo], Some(mutex)),
            (&Family::Exclusive(ContenderFilter::custom("all", |_| true)), &[&write(1)], None),
            (&Family::ReadWrite, &[&read(1), &write(2)], None),
            (&Family::ReadWrite, &[mutex], Some(mutex)),
            (&Family::Latches, &["_c_x-latch-0000000000", "0", "latch-"], None),
            (&Family::Latches, &[mutex], Some(mutex)),
            (&Family::Leases, &["_c_x-lease-0000000001", "foreign"], None),
            (&Family::Leases, &[mutex], Some(mutex)),
        ];
        for (family, children, other) in rows {
            assert_eq!(family.other_recipe(&owned(children)), *other, "{children:?} {family:?}");
        }
    }

    proptest! {
        /// Invariant 1, for one listing of readers and writers: a writer that is admitted is alone, and all readers before the
        /// first writer are admitted.
        #[test]
        fn a_writer_is_alone(kinds in proptest::collection::vec(any::<bool>(), 1..20)) {
            let children: Vec<_> = (0..).zip(&kinds).map(|(at, reads)| {
                if *reads { read(at) } else { write(at) }
            }).collect();
            let admitted: Vec<_> = children
                .iter()
                .filter(|name| decide(&children, name, &Family::ReadWrite) == Position::First)
                .collect();
            let first_writer = kinds.iter().position(|reads| !reads);
            let expected = if first_writer == Some(0) { 1 } else { first_writer.unwrap_or(kinds.len()) };
            prop_assert_eq!(admitted.len(), expected);
            prop_assert_eq!(&admitted[0], &&children[0]);
        }

        /// Invariant 1, for one listing: exactly one contender is admitted, and the waits form one chain.
        #[test]
        fn one_is_admitted_and_the_waits_form_a_chain(
            sequences in proptest::collection::hash_set(any::<i32>(), 1..20),
            foreign in proptest::collection::vec("[a-z0-9-]{0,12}", 0..5),
        ) {
            let mut children: Vec<_> = sequences.iter().map(|s| name(*s)).collect();
            children.extend(foreign.into_iter().filter(|f| !f.contains("lock-")));
            let queue: Vec<_> = queue(&children, &MUTEX).into_iter().map(Rank::to_name).collect();
            for (place, contender) in queue.iter().enumerate() {
                let expected = match place.checked_sub(1) {
                    None => Position::First,
                    Some(before) => Position::Behind(Predecessors {
                        predecessor: queue[before].clone(),
                        stand_by: before.checked_sub(1).map(|second| queue[second].clone()),
                        admits: before == 0,
                        may_be_kept: false,
                    }),
                };
                prop_assert_eq!(decide(&children, contender.as_str(), &MUTEX), expected);
            }
        }
    }
}
