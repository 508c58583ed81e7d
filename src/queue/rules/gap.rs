//! The *gap rule*: a create that gets the expected number has no new contender before it.
//!
//! A server counts the creates under a parent, and a sequential node gets that count as its number. A listing contains the same
//! count: `(cversion + numChildren) / 2`. Suppose that a listing showed only our own contenders at count `c`, and that a later
//! create of ours gets the number `c`. Then no client created anything in between. Contenders can only leave, so the contenders
//! before ours are a subset of our own, and no listing is needed (invariant 2). That create makes the count `c + 1`, again with
//! only our own contenders: so one listing serves any number of creates in a row.
//!
//! The rule holds if
//!
//! * the numbers are of one incarnation of the parent, since a parent that is deleted and created again counts from 0. The
//!   caller has a watch on the parent's data that has not fired, armed on the incarnation of the listing: both contain its `czxid`;
//! * the connection has not been lost since the watch was armed: the client arms its watches again, but not before every answer;
//! * the session is the same, because each session has a baseline of its own;
//! * the listing showed no other contender.
//!
//! Own creates are answered in the order in which they were sent, but the tasks that get the answers run in any order. So the
//! baseline may be older than a create that was answered already: such creates are kept as *unmatched*, and counted when a
//! listing from before them comes.
//!
//! Pure: no I/O, no clock. The watch and the connection belong to [`path_nodes`](crate::queue::path_nodes).

use std::collections::BTreeMap;

/// Twice the number of creates under a parent, as its `Stat` contains it. The servers let it wrap, and so does this type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Creates(i32);

impl Creates {
    pub(crate) fn of(cversion: i32, children: i32) -> Self {
        Self(cversion.wrapping_add(children))
    }

    /// Returns true if the next sequential node gets this number.
    fn gives(self, sequence: i32) -> bool {
        sequence.wrapping_mul(2) == self.0
    }

    /// The number of the next sequential node, unless it is negative.
    pub(crate) fn number(self) -> i32 {
        (self.0.cast_unsigned() >> 1).cast_signed()
    }

    fn next(self) -> Self {
        Self(self.0.wrapping_add(2))
    }

    fn is_after(self, other: Self) -> bool {
        self.0.wrapping_sub(other.0) > 0
    }
}

/// The greatest number of unmatched creates. Older ones are forgotten, which costs a listing.
const UNMATCHED: usize = 1024;

/// The counts of a parent's creates.
#[derive(Debug, Default)]
pub(crate) struct Gap {
    baseline: Option<Baseline>,
    /// Own creates that came without a baseline: their numbers, and their transactions.
    unmatched: BTreeMap<i32, i64>,
}

/// A count at which only our own contenders existed.
#[derive(Clone, Copy, Debug)]
struct Baseline {
    /// The transaction that created the parent.
    incarnation: i64,
    creates: Creates,
}

impl Gap {
    /// The incarnation of the baseline.
    pub(crate) fn incarnation(&self) -> Option<i64> {
        self.baseline.map(|baseline| baseline.incarnation)
    }

    pub(crate) fn forget(&mut self) {
        self.baseline = None;
    }

    /// Takes the count of a listing that showed only our own contenders. Returns false if the listing is older than the baseline.
    pub(crate) fn learn(&mut self, incarnation: i64, creates: Creates) -> bool {
        let is_older = |baseline: Baseline| {
            baseline.incarnation == incarnation && baseline.creates.is_after(creates)
        };
        if self.baseline.is_some_and(is_older) {
            return false;
        }
        let mut creates = creates;
        // Nodes of this incarnation were created after the parent.
        self.unmatched.retain(|_, czxid| *czxid > incarnation);
        while self.unmatched.remove(&creates.number()).is_some() {
            creates = creates.next();
        }
        self.unmatched.clear();
        self.baseline = Some(Baseline { incarnation, creates });
        true
    }

    /// Counts an own create. Returns true if only our own contenders can be before it.
    pub(crate) fn created(&mut self, sequence: i32, czxid: i64) -> bool {
        if let Some(baseline) = &mut self.baseline
            && baseline.creates.gives(sequence)
            && czxid > baseline.incarnation
        {
            baseline.creates = baseline.creates.next();
            return true;
        }
        self.baseline = None;
        if self.unmatched.len() == UNMATCHED {
            self.unmatched.pop_first();
        }
        self.unmatched.insert(sequence, czxid);
        false
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The `czxid` of the parent in most of these tests.
    const PARENT: i64 = 100;

    /// The count after this many creates.
    fn after(creates: i32) -> Creates {
        Creates::of(creates.wrapping_mul(2), 0)
    }

    #[test]
    fn counts_come_from_changes_and_children() {
        // A create adds one to both, a delete takes one from the children and adds one to the changes.
        for (cversion, children, next) in
            [(0, 0, 0), (1, 1, 1), (2, 0, 1), (7, 3, 5), (i32::MAX, i32::MAX, i32::MAX)]
        {
            let creates = Creates::of(cversion, children);
            assert!(creates.gives(next), "{cversion} {children}");
            assert_eq!(creates.number(), next);
            assert!(!creates.gives(next.wrapping_add(1)) && !creates.gives(next.wrapping_sub(1)));
            assert!(creates.next().gives(next.wrapping_add(1)), "over the wrap, too");
            assert!(creates.next().is_after(creates) && !creates.is_after(creates.next()));
        }
    }

    #[test]
    fn one_listing_serves_any_number_of_creates_in_a_row() {
        let mut gap = Gap::default();
        gap.learn(PARENT, after(5));
        for number in 5..50 {
            assert!(gap.created(number, PARENT + 1 + i64::from(number)), "{number}");
        }
    }

    #[test]
    fn any_other_number_ends_the_baseline() {
        for number in [-1, 0, 4, 6, 1_000, i32::MIN] {
            let mut gap = Gap::default();
            gap.learn(PARENT, after(5));
            assert!(!gap.created(number, PARENT + 1), "{number}");
            assert_eq!(gap.incarnation(), None);
            assert!(!gap.created(5, PARENT + 2), "though it was expected once");
        }
    }

    /// The number is right, but the node is older than the parent.
    #[test]
    fn a_node_of_an_earlier_incarnation_does_not_count() {
        for czxid in [PARENT - 1, PARENT] {
            let mut gap = Gap::default();
            gap.learn(PARENT, after(5));
            assert!(!gap.created(5, czxid));
            let mut gap = Gap::default();
            assert!(!gap.created(5, czxid), "unmatched");
            gap.learn(PARENT, after(5));
            assert!(!gap.created(6, PARENT + 2), "the unmatched one was not the fifth");
        }
    }

    /// Answers come in the order of the requests, but a listing can be read after later creates.
    #[test]
    fn creates_that_came_before_their_listing_are_counted() {
        let mut gap = Gap::default();
        for number in [5, 6, 8] {
            assert!(!gap.created(number, PARENT + 1 + i64::from(number)));
        }
        gap.learn(PARENT, after(5));
        // Another client made the seventh.
        assert!(!gap.created(9, PARENT + 20));
        let mut gap = Gap::default();
        for number in [5, 6, 7] {
            assert!(!gap.created(number, PARENT + 1 + i64::from(number)));
        }
        gap.learn(PARENT, after(6));
        assert!(gap.created(8, PARENT + 20));
    }

    #[test]
    fn the_baseline_does_not_go_back() {
        let mut gap = Gap::default();
        assert!(gap.learn(PARENT, after(5)));
        assert!(gap.created(5, PARENT + 1));
        assert!(!gap.learn(PARENT, after(5)));
        assert!(gap.created(6, PARENT + 2), "the listing was an old one");
        assert!(gap.learn(PARENT, after(7)), "as new as the baseline");
        assert!(gap.learn(PARENT, after(8)));
        assert!(gap.learn(PARENT + 10, after(0)));
        assert_eq!(gap.incarnation(), Some(PARENT + 10));
        assert!(gap.created(0, PARENT + 11));
    }

    #[test]
    fn no_create_is_accepted_after_the_baseline_was_forgotten() {
        let mut gap = Gap::default();
        gap.learn(PARENT, after(5));
        gap.forget();
        assert_eq!(gap.incarnation(), None);
        assert!(!gap.created(5, PARENT + 1));
    }

    #[test]
    fn unmatched_creates_are_bounded() {
        let mut gap = Gap::default();
        let bound = i32::try_from(UNMATCHED).unwrap();
        for number in 0..3 * bound {
            assert!(!gap.created(number, PARENT + 1 + i64::from(number)));
            assert!(gap.unmatched.len() <= UNMATCHED);
        }
        gap.learn(PARENT, after(3 * bound - 1));
        assert!(gap.created(3 * bound, PARENT + 1 + i64::from(3 * bound)), "the last are kept");
    }

    /// The events of a lock path, and our own steps there.
    #[derive(Clone, Debug)]
    enum Step {
        /// Create a node of ours, which is answered at once.
        Create,
        Release(prop::sample::Index),
        Stranger,
        StrangerGoes(prop::sample::Index),
        /// Create a child that is no contender.
        Other,
        /// Ask for a listing.
        List,
        /// Read the oldest listing that was not read yet.
        Read,
        /// Delete the path with its children, create it again, and let this many creates pass.
        MadeAgain(u8),
        Forget,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            6 => Just(Step::Create),
            4 => any::<prop::sample::Index>().prop_map(Step::Release),
            1 => Just(Step::Stranger),
            2 => any::<prop::sample::Index>().prop_map(Step::StrangerGoes),
            1 => Just(Step::Other),
            4 => Just(Step::List),
            4 => Just(Step::Read),
            1 => (0..6_u8).prop_map(Step::MadeAgain),
            1 => Just(Step::Forget),
        ];
        prop::collection::vec(step, 0..60)
    }

    /// A parent at the servers.
    #[derive(Debug)]
    struct Parent {
        czxid: i64,
        zxid: i64,
        creates: i32,
        deletes: i32,
        others: i32,
        ours: Vec<i32>,
        strangers: Vec<i32>,
    }

    impl Parent {
        fn create(&mut self) -> i32 {
            self.zxid += 1;
            self.creates += 1;
            self.creates - 1
        }

        fn delete(&mut self) {
            self.zxid += 1;
            self.deletes += 1;
        }

        fn counts(&self) -> Creates {
            let children = self.ours.len() + self.strangers.len();
            let children = i32::try_from(children).unwrap() + self.others;
            Creates::of(self.creates + self.deletes, children)
        }

        fn made_again(&mut self, passed: u8) {
            self.zxid += 1;
            let czxid = self.zxid;
            let creates = i32::from(passed);
            let zxid = self.zxid + 2 * i64::from(passed);
            *self = Self {
                czxid,
                zxid,
                creates,
                deletes: creates,
                others: 0,
                ours: Vec::new(),
                strangers: Vec::new(),
            };
        }
    }

    proptest! {
        /// When the rule says that no new contender is before our node, no stranger is, whatever happened. The test plays
        /// the caller: it learns from listings that show no stranger, of the incarnation that it watches, and forgets when that
        /// is deleted.
        #[test]
        fn nobody_but_our_own_is_before_a_create_that_the_rule_accepts(steps in steps()) {
            let mut gap = Gap::default();
            let mut parent = Parent {
                czxid: 1,
                zxid: 1,
                creates: 0,
                deletes: 0,
                others: 0,
                ours: Vec::new(),
                strangers: Vec::new(),
            };
            let mut listings = std::collections::VecDeque::new();
            for step in steps {
                match step {
                    Step::Create => {
                        let number = parent.create();
                        let accepted = gap.created(number, parent.zxid);
                        prop_assert!(!accepted || parent.strangers.is_empty());
                        parent.ours.push(number);
                    }
                    Step::Release(which) if !parent.ours.is_empty() => {
                        parent.ours.remove(which.index(parent.ours.len()));
                        parent.delete();
                    }
                    Step::Stranger => {
                        let number = parent.create();
                        parent.strangers.push(number);
                    }
                    Step::StrangerGoes(which) if !parent.strangers.is_empty() => {
                        parent.strangers.remove(which.index(parent.strangers.len()));
                        parent.delete();
                    }
                    Step::Other => {
                        parent.create();
                        parent.others += 1;
                    }
                    Step::List => {
                        let is_ours = parent.strangers.is_empty();
                        listings.push_back((is_ours, parent.czxid, parent.counts()));
                    }
                    Step::Read => {
                        if let Some((true, czxid, creates)) = listings.pop_front()
                            && czxid == parent.czxid
                        {
                            gap.learn(czxid, creates);
                        }
                    }
                    Step::MadeAgain(passed) => {
                        parent.made_again(passed);
                        gap.forget();
                    }
                    Step::Forget => gap.forget(),
                    Step::Release(_) | Step::StrangerGoes(_) => {}
                }
            }
        }

        /// Without strangers, every create after a listing is accepted.
        #[test]
        fn left_alone_every_create_is_accepted(before in 0..1_000_i32, held in 0..20_i32) {
            let mut gap = Gap::default();
            let held = held.min(before);
            gap.learn(PARENT, Creates::of(2 * before - held, held));
            for number in before..before + 100 {
                prop_assert!(gap.created(number, PARENT + 1 + i64::from(number)));
            }
        }
    }
}
