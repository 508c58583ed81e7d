//! The *gap* rule: a create that gets exactly the number that was expected has no new contender before it.
//!
//! A server counts the creates under a parent, and a sequential node gets that count as its number. A
//! listing tells the count as well: `(cversion + numChildren) / 2`. Let a listing show no contender but our
//! own while the count was `c`, and let a later create of ours get the number `c`. Then no client created
//! anything in between, and since contenders only ever go, the smaller ones are a subset of our own. No
//! listing is needed (invariant 2). That create makes the count `c + 1`, with only our own again: so
//! one listing serves any number of creates in a row.
//!
//! Only if
//!
//! * the numbers are of one incarnation of the parent: a parent that is deleted and made again counts from 0.
//!   The caller has a watch on the parent's data that has not fired, armed on the incarnation of the
//!   listing: both tell its `czxid`;
//! * the link was not broken since that watch was armed: the client arms its watches again, but not before
//!   every answer;
//! * the session is the same: what is known belongs to one;
//! * the listing showed no other contender.
//!
//! Own creates are answered in the order they were sent, but the tasks that get the answers run in any
//! order. So what is known may be older than a create that was answered already: those are noted, and counted
//! when a listing comes that is from before them.
//!
//! Pure: no I/O, no clock. The watch and the link are the caller's, see [`siblings`](crate::queue::siblings).

use std::collections::BTreeMap;

/// Twice how many creates a parent has seen, as its `Stat` tells it: it wraps, and so do we.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Creates(i32);

impl Creates {
    pub(crate) fn of(cversion: i32, children: i32) -> Self {
        Self(cversion.wrapping_add(children))
    }

    /// Whether the next sequential node gets this number.
    fn gives(self, sequence: i32) -> bool {
        sequence.wrapping_mul(2) == self.0
    }

    /// That number, as long as it is not negative.
    fn number(self) -> i32 {
        (self.0.cast_unsigned() >> 1).cast_signed()
    }

    fn next(self) -> Self {
        Self(self.0.wrapping_add(2))
    }

    fn is_after(self, other: Self) -> bool {
        self.0.wrapping_sub(other.0) > 0
    }
}

/// Own creates that came when nothing was known; more than these are forgotten, and cost a listing.
const NOTED: usize = 1024;

/// What is known of a parent and its creates.
#[derive(Debug, Default)]
pub(crate) struct Gap {
    known: Option<Known>,
    /// The numbers of own creates that were not counted, and their transactions.
    noted: BTreeMap<i32, i64>,
}

/// At this count only our own were there.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// The transaction that created the parent.
    incarnation: i64,
    creates: Creates,
}

impl Gap {
    /// The incarnation that is known of.
    pub(crate) fn incarnation(&self) -> Option<i64> {
        self.known.map(|known| known.incarnation)
    }

    pub(crate) fn forget(&mut self) {
        self.known = None;
    }

    /// A listing of `incarnation` showed only our own. `false` if it is older than what is known.
    pub(crate) fn learn(&mut self, incarnation: i64, creates: Creates) -> bool {
        if self.known.is_some_and(|k| k.incarnation == incarnation && k.creates.is_after(creates)) {
            return false;
        }
        let mut creates = creates;
        // A node of this incarnation was created after it.
        self.noted.retain(|_, czxid| *czxid > incarnation);
        while self.noted.remove(&creates.number()).is_some() {
            creates = creates.next();
        }
        self.noted.clear();
        self.known = Some(Known { incarnation, creates });
        true
    }

    /// Counts an own create; whether only our own can be before it.
    pub(crate) fn created(&mut self, sequence: i32, czxid: i64) -> bool {
        if let Some(known) = &mut self.known
            && known.creates.gives(sequence)
            && czxid > known.incarnation
        {
            known.creates = known.creates.next();
            return true;
        }
        self.known = None;
        if self.noted.len() == NOTED {
            self.noted.pop_first();
        }
        self.noted.insert(sequence, czxid);
        false
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Of the parent that most of these tests are about.
    const PARENT: i64 = 100;

    /// The count after so many creates.
    fn after(creates: i32) -> Creates {
        Creates::of(creates.wrapping_mul(2), 0)
    }

    #[test]
    fn counts_are_told_by_changes_and_children() {
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
    fn any_other_number_ends_what_was_known() {
        for number in [-1, 0, 4, 6, 1_000, i32::MIN] {
            let mut gap = Gap::default();
            gap.learn(PARENT, after(5));
            assert!(!gap.created(number, PARENT + 1), "{number}");
            assert_eq!(gap.incarnation(), None);
            assert!(!gap.created(5, PARENT + 2), "though it was expected once");
        }
    }

    /// The number is right, but the node was there before the parent that is known of.
    #[test]
    fn a_node_of_an_earlier_incarnation_does_not_count() {
        for czxid in [PARENT - 1, PARENT] {
            let mut gap = Gap::default();
            gap.learn(PARENT, after(5));
            assert!(!gap.created(5, czxid));
            let mut gap = Gap::default();
            assert!(!gap.created(5, czxid), "noted");
            gap.learn(PARENT, after(5));
            assert!(!gap.created(6, PARENT + 2), "the noted one was not its fifth");
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
    fn what_is_known_does_not_go_back() {
        let mut gap = Gap::default();
        gap.learn(PARENT, after(5));
        assert!(gap.created(5, PARENT + 1));
        gap.learn(PARENT, after(5));
        assert!(gap.created(6, PARENT + 2), "the listing was an old one");
        gap.learn(PARENT + 10, after(0));
        assert_eq!(gap.incarnation(), Some(PARENT + 10));
        assert!(gap.created(0, PARENT + 11));
    }

    #[test]
    fn what_is_noted_is_bounded() {
        let mut gap = Gap::default();
        let noted = i32::try_from(NOTED).unwrap();
        for number in 0..3 * noted {
            assert!(!gap.created(number, PARENT + 1 + i64::from(number)));
            assert!(gap.noted.len() <= NOTED);
        }
        gap.learn(PARENT, after(3 * noted - 1));
        assert!(gap.created(3 * noted, PARENT + 1 + i64::from(3 * noted)), "the last are kept");
    }

    /// What can happen to a lock path, and what we do there.
    #[derive(Clone, Debug)]
    enum Step {
        /// Ours, answered at once.
        Create,
        Release(prop::sample::Index),
        Stranger,
        StrangerGoes(prop::sample::Index),
        /// A child that is no contender.
        Other,
        /// A listing is asked for.
        List,
        /// The oldest listing that was not read yet is read.
        Read,
        /// The path is deleted with all that is in it and made again, and so many creates pass.
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

    /// A parent as the servers have it.
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
            // As `Stat` tells it.
            Creates::of(self.creates + self.deletes, children)
        }

        fn made_again(&mut self, passed: u8) {
            self.zxid += 1;
            let (czxid, creates) = (self.zxid, i32::from(passed));
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
        /// Whatever happens: when the rule says that no new contender is before our node, no stranger is. The caller's
        /// part is played as it must be: it learns from listings that show no stranger, of the incarnation that it
        /// watches, and forgets when that is gone.
        #[test]
        fn nobody_but_our_own_is_before_a_create_that_the_rule_accepts(steps in steps()) {
            let mut gap = Gap::default();
            let (ours, strangers) = (Vec::new(), Vec::new());
            let mut parent =
                Parent { czxid: 1, zxid: 1, creates: 0, deletes: 0, others: 0, ours, strangers };
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

        /// Left alone, every create after a listing is accepted.
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
