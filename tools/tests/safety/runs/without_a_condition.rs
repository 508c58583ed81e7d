//! The rules that save round trips, each without one of its conditions: the column "only if".

use super::*;
use crate::rules::ParentWatch;

fn tasks(tasks: &[u8], model: Contention) -> Contention {
    Contention { tasks: tasks.to_vec(), ..model }
}

mod head {
    use super::*;

    fn without(head: Head, lags: &[u8], faults: Faults) -> Contention {
        super::without(Rules { head, ..Rules::ALL }, lags, 1, faults)
    }

    #[test]
    fn the_predecessor_was_the_first() {
        let head = Head { was_first: false, ..Head::ALL };
        let faults = Faults { withdrawals: 1, ..NONE };
        breaks("head: was-first", ALONE, without(head, &[0, 0, 0], faults));
    }

    #[test]
    fn the_listing_followed_the_create() {
        let head = Head { listed_after_create: false, ..Head::ALL };
        breaks("head: listed-after-create", ALONE, without(head, &[0, 0, 1], NONE));
    }

    #[test]
    fn the_own_watch_is_armed_first() {
        let head = Head { own_armed_first: false, ..Head::ALL };
        let faults = Faults { deletions: 1, ..NONE };
        breaks("head: own-armed-first", ALONE, without(head, &[0, 0, 0], faults));
    }

    #[test]
    fn the_own_watch_is_polled_first() {
        let head = Head { own_polled_first: false, ..Head::ALL };
        let faults = Faults { deletions: 1, ..NONE };
        breaks("head: own-polled-first", ALONE, without(head, &[0, 0, 0], faults));
    }

    #[test]
    fn a_change_does_not_admit() {
        let head = Head { only_deletion: false, ..Head::ALL };
        let faults = Faults { changes: 1, ..NONE };
        breaks("head: only-deletion", ALONE, without(head, &[0, 0], faults));
        holds(model(&[1, 0], 2, faults));
    }

    #[test]
    fn no_reconnect_since_the_arming() {
        let head = Head { no_reconnect: false, ..Head::ALL };
        let faults = Faults { cuts: 1, deletions: 1, ..NONE };
        breaks("head: no-reconnect", IN_ORDER, without(head, &[0, 0], faults));
    }

    /// A writer that goes on as a reader, with a node that has its number.
    #[test]
    fn mutexes_only() {
        let faults = Faults { downgrades: 1, ..NONE };
        breaks("head: mutexes-only", ALONE, without(Head::ALL, &[0, 0], faults));
        let head = Head { on: false, ..Head::ALL };
        holds(Contention { interchange: true, ..without(head, &[0, 0], faults) });
    }
}

mod gap {
    use super::*;

    fn without(gap: Gap, lags: &[u8], faults: Faults) -> Contention {
        super::without(Rules { gap, ..Rules::ALL }, lags, 2, faults)
    }

    const REAPED: Faults = Faults { reaps: 1, ..NONE };

    #[test]
    fn the_number_is_the_next() {
        let gap = Gap { number_compared: false, ..Gap::ALL };
        breaks("gap: number-compared", ALONE, without(gap, &[0, 0], NONE));
    }

    #[test]
    fn the_parent_is_watched() {
        let gap = Gap { parent_watch: ParentWatch::Never, ..Gap::ALL };
        breaks("gap: parent-watched", ALONE, without(gap, &[0, 0], REAPED));
    }

    #[test]
    fn the_parent_is_watched_before_the_listing() {
        let gap = Gap { parent_watch: ParentWatch::BehindTheDelete, ..Gap::ALL };
        breaks("gap: parent-watched-before", ALONE, without(gap, &[0, 0], REAPED));
    }

    #[test]
    fn the_parents_watch_is_polled() {
        let gap = Gap { watch_polled: false, ..Gap::ALL };
        breaks("gap: watch-polled", ALONE, without(gap, &[0, 0], REAPED));
    }

    #[test]
    fn no_reconnect_since_the_arming() {
        let gap = Gap { no_reconnect: false, ..Gap::ALL };
        let faults = Faults { cuts: 1, ..REAPED };
        breaks("gap: no-reconnect", ALONE, without(gap, &[0, 0], faults));
    }

    #[test]
    fn in_one_epoch() {
        let gap = Gap { same_epoch: false, ..Gap::ALL };
        let faults = Faults { stops: 1, expiries: 1, ..REAPED };
        breaks("gap: same-epoch", ALONE, without(gap, &[0, 0], faults));
    }

    #[test]
    fn nobody_else_was_there() {
        let gap = Gap { nobody_else: false, ..Gap::ALL };
        let faults = Faults { withdrawals: 1, ..NONE };
        breaks("gap: nobody-else", ALONE, without(gap, &[0, 0], faults));
    }

    #[test]
    fn places_of_this_session_come_first() {
        let gap = Gap { own_places: false, ..Gap::ALL };
        breaks("gap: own-places", ALONE, tasks(&[2], without(gap, &[0], NONE)));
    }

    #[test]
    fn what_is_not_answered_counts_as_somebody_else() {
        let gap = Gap { unanswered_is_else: false, ..Gap::ALL };
        breaks("gap: unanswered-is-else", ALONE, tasks(&[2], without(gap, &[0], NONE)));
    }
}

mod local {
    use super::*;

    fn without(local: Local, tries: u8, faults: Faults) -> Contention {
        let rules = Rules { local, ..Rules::ALL };
        tasks(&[2, 1], super::without(rules, &[0, 0], tries, faults))
    }

    #[test]
    fn a_withdrawal_does_not_admit() {
        let local = Local { only_first: false, ..Local::ALL };
        let faults = Faults { withdrawals: 1, ..NONE };
        breaks("local: only-first", ALONE, without(local, 1, faults));
    }

    #[test]
    fn in_one_epoch() {
        let local = Local { same_epoch: false, ..Local::ALL };
        let faults = Faults { stops: 1, expiries: 1, ..NONE };
        breaks("local: same-epoch", ALONE, without(local, 1, faults));
    }

    #[test]
    fn the_hold_ends_before_the_next_begins() {
        let local = Local { ended_first: false, ..Local::ALL };
        breaks("local: ended-first", ALONE, without(local, 1, NONE));
    }

    /// Who waits in the process waits for a guard. Somebody has to find out that its node is gone.
    #[test]
    fn the_late_watch_on_the_own_node() {
        let rules = Rules { late_own_watch: false, ..Rules::ALL };
        let faults = Faults { deletions: 1, ..NONE };
        let model = super::without(rules, &[0], 1, faults);
        breaks("late-own-watch", SOMEBODY_HOLDS, tasks(&[2], model));
    }
}

/// More than a build without optimisation can visit in a few seconds.
mod long {
    use super::*;

    /// As `head::no_reconnect_since_the_arming`, up to the second hold.
    #[test]
    #[ignore = "many states: `make model`"]
    fn no_reconnect_since_the_arming() {
        let rules = Rules { head: Head { no_reconnect: false, ..Head::ALL }, ..Rules::ALL };
        let faults = Faults { cuts: 1, deletions: 1, ..NONE };
        breaks("head: no-reconnect", ALONE, super::without(rules, &[0, 0], 2, faults));
    }

    /// Once the parent was made anew, sequence numbers come again.
    #[test]
    #[ignore = "many states: `make model`"]
    fn places_in_the_order_of_their_transactions() {
        let rules = Rules { local: Local { by_transaction: false, ..Local::ALL }, ..Rules::ALL };
        let faults = Faults { deletions: 1, reaps: 1, ..NONE };
        let model = super::without(rules, &[0], 1, faults);
        breaks("local: by-transaction", ALONE, tasks(&[3], model));
    }

    /// A place that is acted upon late comes to stand between two others.
    #[test]
    #[ignore = "many states: `make model`"]
    fn places_stay_neighbours() {
        let rules = Rules { local: Local { neighbours: false, ..Local::ALL }, ..Rules::ALL };
        let faults = Faults { deletions: 1, ..NONE };
        let model = Contention { late: true, ..super::without(rules, &[0], 1, faults) };
        breaks("local: neighbours", SOMEBODY_HOLDS, tasks(&[3], model));
    }

    /// Where the link was cut before the session ended, that is enough to discard what was known.
    #[test]
    #[ignore = "many states: `make model`"]
    fn the_epoch_after_a_cut() {
        let rules = Rules { gap: Gap { same_epoch: false, ..Gap::ALL }, ..Rules::ALL };
        let faults = Faults { cuts: 1, expiries: 1, reaps: 1, ..NONE };
        holds(Contention { rules, ..model(&[0, 0], 2, faults) });
    }
}
