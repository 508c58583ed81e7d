//! The rule that says which contenders hold.
//!
//! Pure: a listing of the lock path goes in, a decision comes out. It is safe to act on `Admitted`
//! because the set of contenders smaller than ours can only shrink after our own create: new ones get
//! larger sequence numbers (invariant 2). The listing must therefore be one that contains our own node.

use crate::contender_name::{ContenderName, Kind, sequence_of};

/// What a listing means for one contender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Nobody stands before it.
    Admitted,
    /// It waits for its immediate predecessor, so that a release wakes one (invariant 6).
    WaitFor {
        predecessor: ContenderName,
        /// The one before the predecessor, which may be the head.
        stand_by: Option<ContenderName>,
        /// The contender that holds.
        head: ContenderName,
    },
    /// Its own node is not there any more.
    Gone,
}

/// The contenders among `children`, first in the queue first.
pub(crate) fn queue(children: &[String], kind: Kind) -> Vec<ContenderName> {
    let mut queue: Vec<_> =
        children.iter().filter_map(|name| ContenderName::parse(name, kind)).collect();
    queue.sort_unstable();
    queue
}

/// Decides for the contender named `mine`: exclusive among all contenders of its kind.
pub(crate) fn decide(children: &[String], mine: &str, kind: Kind) -> Decision {
    // Order as that of `ContenderName`, but nothing is copied: there may be thousands.
    let rank = |name| sequence_of(name, kind).map(|sequence| (sequence, name));
    let Some(mine) = rank(mine) else {
        return Decision::Gone;
    };
    let mut found = false;
    let (mut head, mut stand_by, mut predecessor) = (None, None, None);
    for contender in children.iter().filter_map(|name| rank(name)) {
        if contender == mine {
            found = true;
        } else if contender < mine {
            if head.is_none_or(|head| contender < head) {
                head = Some(contender);
            }
            if predecessor.is_none_or(|nearest| contender > nearest) {
                (stand_by, predecessor) = (predecessor, Some(contender));
            } else if stand_by.is_none_or(|second| contender > second) {
                stand_by = Some(contender);
            }
        }
    }
    let name = |(sequence, name): (i64, &str)| ContenderName::new(sequence, name);
    match (found, predecessor, head) {
        (false, ..) => Decision::Gone,
        (true, Some(predecessor), Some(head)) => Decision::WaitFor {
            predecessor: name(predecessor),
            stand_by: stand_by.map(name),
            head: name(head),
        },
        (true, ..) => Decision::Admitted,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(sequence: i32) -> String {
        format!("_c_x-lock-{sequence:010}")
    }

    /// From the head to the predecessor.
    fn wait_for(before: &[&str]) -> Decision {
        let parse = |name: &&str| ContenderName::parse(name, Kind::Lock).unwrap();
        let mut nearest = before.iter().rev().map(parse);
        Decision::WaitFor {
            predecessor: nearest.next().unwrap(),
            stand_by: nearest.next(),
            head: parse(&before[0]),
        }
    }

    #[test]
    fn table() {
        let (a, b, c, d) = (&*name(1), &*name(9), &*name(10), &*name(11));
        let foreign = ["0", "zzz", "_c_x-latch-0000000000", "5f__lock__0000000000", ""];
        let rows: &[(&[&str], &str, Decision)] = &[
            (&[a], a, Decision::Admitted),
            (&[b, a], a, Decision::Admitted),
            (&[b, a], b, wait_for(&[a])),
            (&[c, a, b], c, wait_for(&[a, b])),
            (&[b, c, a, d], d, wait_for(&[a, b, c])),
            (&[c, b], c, wait_for(&[b])),
            (&[a, b], c, Decision::Gone),
            (&[], a, Decision::Gone),
            (&foreign, a, Decision::Gone),
            (&[foreign[0], foreign[1], foreign[2], foreign[3], c], c, Decision::Admitted),
            (&[&name(-5), a], a, wait_for(&[&name(-5)])),
            (&[a], "no contender", Decision::Gone),
        ];
        for (children, mine, expected) in rows {
            let children: Vec<_> = children.iter().map(|c| c.to_string()).collect();
            assert_eq!(decide(&children, mine, Kind::Lock), *expected, "{mine} in {children:?}");
        }
    }

    #[test]
    fn a_tie_of_hand_made_nodes_is_broken_by_name() {
        let children = ["b-lock-0000000001".to_owned(), "a-lock-0000000001".to_owned()];
        assert_eq!(decide(&children, &children[1], Kind::Lock), Decision::Admitted);
        assert_eq!(decide(&children, &children[0], Kind::Lock), wait_for(&["a-lock-0000000001"]));
    }

    proptest! {
        /// Invariant 1, for one listing: exactly one is admitted, and the waits form one chain.
        #[test]
        fn one_is_admitted_and_the_waits_form_a_chain(
            sequences in proptest::collection::hash_set(any::<i32>(), 1..20),
            foreign in proptest::collection::vec("[a-z0-9-]{0,12}", 0..5),
        ) {
            let mut children: Vec<_> = sequences.iter().map(|s| name(*s)).collect();
            children.extend(foreign.into_iter().filter(|f| !f.contains("lock-")));
            let queue = queue(&children, Kind::Lock);
            for (place, contender) in queue.iter().enumerate() {
                let expected = match place.checked_sub(1) {
                    None => Decision::Admitted,
                    Some(before) => Decision::WaitFor {
                        predecessor: queue[before].clone(),
                        stand_by: before.checked_sub(1).map(|second| queue[second].clone()),
                        head: queue[0].clone(),
                    },
                };
                prop_assert_eq!(decide(&children, contender.as_str(), Kind::Lock), expected);
            }
        }
    }
}
