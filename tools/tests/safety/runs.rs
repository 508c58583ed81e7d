//! What is run: the rules as they are, under different faults, and without one of the rules.

use std::sync::Arc;

use crate::model::Contention;
use crate::properties::{ALONE, IN_ORDER, NO_HERD, NOTHING_LEFT, SOMEBODY_HOLDS, TOKENS};
use crate::report::{breaks, ends, holds};
use crate::rules::{Gap, Guids, Head, Local, Rules};
use crate::world::Faults;

const NONE: Faults = Faults {
    cuts: 0,
    partitions: 0,
    stops: 0,
    kills: 0,
    expiries: 0,
    deletions: 0,
    changes: 0,
    reaps: 0,
    withdrawals: 0,
    downgrades: 0,
};

fn model(lags: &[u8], tries: u8, faults: Faults) -> Contention {
    Contention {
        rules: Rules::ALL,
        lags: lags.to_vec(),
        tasks: Vec::new(),
        tries,
        faults,
        late: false,
        interchange: true,
        used: Arc::default(),
    }
}

fn without(rules: Rules, lags: &[u8], tries: u8, faults: Faults) -> Contention {
    Contention { rules, interchange: false, ..model(lags, tries, faults) }
}

mod without_a_condition;

mod all_rules {
    use super::*;

    /// Small enough for a build without optimisation.
    #[test]
    fn one_fault_at_a_time() {
        holds(model(&[0, 0, 0], 2, NONE));
        holds(model(&[1, 1, 1], 1, NONE));
        holds(model(&[1, 0], 2, Faults { stops: 1, ..NONE }));
        holds(model(&[1, 0], 2, Faults { kills: 1, ..NONE }));
        holds(model(&[1, 0], 2, Faults { reaps: 1, ..NONE }));
        holds(model(&[1, 0], 2, Faults { cuts: 1, ..NONE }));
        holds(model(&[0, 0, 0], 1, Faults { withdrawals: 1, ..NONE }));
        holds(model(&[0, 0], 1, Faults { cuts: 1, expiries: 1, ..NONE }));
        holds(model(&[0, 0, 0], 1, Faults { deletions: 1, ..NONE }));
        holds(model(&[1, 0], 1, Faults { partitions: 1, expiries: 1, reaps: 1, ..NONE }));
    }

    /// With it, "when all is settled …" says what becomes of every run.
    #[test]
    fn every_run_ends() {
        ends(&model(&[1, 0, 0], 1, NONE));
        ends(&model(&[1, 0], 1, Faults { cuts: 1, expiries: 1, reaps: 1, ..NONE }));
        ends(&model(&[1, 0], 1, Faults { partitions: 1, stops: 1, ..NONE }));
        ends(&model(&[0, 0], 1, Faults { cuts: 1, kills: 1, withdrawals: 1, ..NONE }));
    }

    /// As above, for larger ones.
    #[test]
    #[ignore = "millions of states: `make model`"]
    fn every_long_run_ends() {
        ends(&model(&[1, 0, 0], 2, NONE));
        ends(&model(&[1, 0], 1, Faults { partitions: 1, stops: 1, expiries: 1, ..NONE }));
    }

    #[test]
    #[ignore = "millions of states: `make model`"]
    fn a_server_behind() {
        holds(model(&[2, 1, 0], 2, NONE));
        holds(model(&[1, 0, 0], 2, Faults { cuts: 1, ..NONE }));
    }

    #[test]
    #[ignore = "millions of states: `make model`"]
    fn a_link_cut_and_a_session_expired() {
        holds(model(&[0, 0, 0], 2, Faults { cuts: 1, expiries: 1, ..NONE }));
        holds(model(&[0, 0], 2, Faults { cuts: 2, expiries: 1, ..NONE }));
    }

    #[test]
    #[ignore = "millions of states: `make model`"]
    fn a_server_cut_off_from_the_leader() {
        holds(model(&[1, 0, 0], 2, Faults { partitions: 1, expiries: 1, ..NONE }));
        holds(model(&[2, 0], 2, Faults { cuts: 1, partitions: 1, expiries: 1, ..NONE }));
    }

    #[test]
    #[ignore = "millions of states: `make model`"]
    fn a_process_stopped() {
        holds(model(&[1, 0, 0], 2, Faults { stops: 1, expiries: 1, ..NONE }));
        holds(model(&[0, 0], 2, Faults { cuts: 1, stops: 1, expiries: 1, ..NONE }));
    }

    #[test]
    #[ignore = "millions of states: `make model`"]
    fn a_process_killed() {
        holds(model(&[0, 0, 0], 2, Faults { cuts: 1, kills: 1, ..NONE }));
    }

    #[test]
    #[ignore = "millions of states: `make model`"]
    fn a_caller_that_gives_up() {
        holds(model(&[0, 0, 0], 2, Faults { cuts: 1, withdrawals: 1, ..NONE }));
        holds(model(&[0, 0, 0], 2, Faults { deletions: 1, withdrawals: 1, ..NONE }));
    }

    #[test]
    #[ignore = "millions of states: `make model`"]
    fn a_parent_reaped() {
        holds(model(&[0, 0, 0], 2, Faults { cuts: 1, reaps: 1, ..NONE }));
        holds(model(&[1, 0, 0], 2, Faults { reaps: 2, withdrawals: 1, ..NONE }));
    }

    #[test]
    #[ignore = "millions of states: `make model`"]
    fn nodes_changed() {
        holds(model(&[1, 0, 0], 1, Faults { cuts: 1, changes: 1, deletions: 1, ..NONE }));
    }

    /// Each of the rules that save round trips by itself, and none.
    #[test]
    #[ignore = "millions of states: `make model`"]
    fn each_rule_by_itself() {
        let none = Rules::NO_SAVING;
        let rules = [
            none,
            Rules { head: Head::ALL, ..none },
            Rules { stand_by: true, ..none },
            Rules { local: Local::ALL, ..none },
            Rules { gap: Gap::ALL, ..none },
        ];
        for rules in rules {
            let faults = Faults { cuts: 1, reaps: 1, ..NONE };
            holds(Contention { rules, ..model(&[0, 0, 0], 1, faults) });
            let two = Contention { tasks: vec![2, 1], ..model(&[0, 0], 1, faults) };
            holds(Contention { rules, ..two });
            holds(Contention { rules, ..model(&[0, 0], 2, Faults { expiries: 1, ..faults }) });
        }
    }
}

/// Tasks of one session, which hand over in the process.
mod tasks_of_one_session {
    use super::*;

    fn tasks(tasks: &[u8], lags: &[u8], tries: u8, faults: Faults) -> Contention {
        Contention { tasks: tasks.to_vec(), ..model(lags, tries, faults) }
    }

    /// As above, and listings may be acted upon late.
    fn late(tasks: &[u8], lags: &[u8], tries: u8, faults: Faults) -> Contention {
        Contention { late: true, ..self::tasks(tasks, lags, tries, faults) }
    }

    #[test]
    fn one_fault_at_a_time() {
        holds(tasks(&[2], &[1], 2, NONE));
        holds(tasks(&[2, 1], &[1, 0], 1, Faults { withdrawals: 1, ..NONE }));
        holds(late(&[2], &[0], 2, NONE));
        holds(tasks(&[2], &[0], 1, Faults { cuts: 1, expiries: 1, ..NONE }));
        holds(tasks(&[2, 1], &[0, 0], 1, Faults { deletions: 1, ..NONE }));
        holds(tasks(&[3], &[0], 1, Faults { withdrawals: 1, ..NONE }));
    }

    #[test]
    fn every_run_ends() {
        ends(&tasks(&[2, 1], &[1, 0], 1, Faults { withdrawals: 1, ..NONE }));
        ends(&tasks(&[2], &[0], 1, Faults { cuts: 1, deletions: 1, ..NONE }));
    }

    #[test]
    #[ignore = "millions of states: `make model`"]
    fn a_link_cut() {
        holds(tasks(&[2, 1], &[0, 0], 2, NONE));
        holds(tasks(&[2, 1], &[0, 0], 2, Faults { cuts: 1, ..NONE }));
        holds(tasks(&[2, 1], &[0, 0], 1, Faults { cuts: 1, expiries: 1, ..NONE }));
        holds(tasks(&[2, 1], &[0, 0], 1, Faults { cuts: 1, withdrawals: 1, ..NONE }));
    }

    #[test]
    #[ignore = "millions of states: `make model`"]
    fn listings_acted_upon_late() {
        holds(late(&[2, 1], &[0, 0], 2, NONE));
        holds(late(&[2, 1], &[1, 0], 1, Faults { cuts: 1, ..NONE }));
        holds(late(&[2, 1], &[0, 0], 1, Faults { deletions: 1, reaps: 1, ..NONE }));
        holds(late(&[2, 1], &[0, 0], 1, Faults { reaps: 1, withdrawals: 1, ..NONE }));
        holds(late(&[3], &[0], 1, Faults { deletions: 1, reaps: 1, ..NONE }));
        holds(late(&[3, 1], &[0, 0], 1, Faults { withdrawals: 1, ..NONE }));
    }

    #[test]
    #[ignore = "millions of states: `make model`"]
    fn many_runs_end() {
        ends(&tasks(&[2, 1], &[0, 0], 1, Faults { cuts: 1, withdrawals: 1, ..NONE }));
        ends(&tasks(&[3], &[0], 1, Faults { deletions: 1, withdrawals: 1, ..NONE }));
    }

    #[test]
    #[ignore = "millions of states: `make model`"]
    fn three_tasks() {
        holds(tasks(&[3], &[0], 2, Faults { withdrawals: 1, ..NONE }));
        holds(tasks(&[3], &[0], 1, Faults { cuts: 1, deletions: 1, ..NONE }));
        holds(tasks(&[2], &[0], 2, Faults { cuts: 1, expiries: 1, ..NONE }));
        holds(tasks(&[3, 1], &[0, 0], 1, Faults { withdrawals: 1, ..NONE }));
        holds(tasks(&[3], &[1], 1, Faults { deletions: 1, reaps: 1, ..NONE }));
    }

    #[test]
    #[ignore = "millions of states: `make model`"]
    fn a_process_stopped_or_a_server_cut_off() {
        holds(tasks(&[2, 1], &[0, 0], 1, Faults { stops: 1, expiries: 1, ..NONE }));
        holds(tasks(&[2, 1], &[1, 0], 1, Faults { partitions: 1, expiries: 1, ..NONE }));
    }

    #[test]
    #[ignore = "millions of states: `make model`"]
    fn a_caller_that_gives_up() {
        holds(tasks(&[2, 1], &[0, 0], 2, Faults { withdrawals: 2, ..NONE }));
    }

    #[test]
    #[ignore = "millions of states: `make model`"]
    fn a_node_deleted_and_a_parent_reaped() {
        holds(tasks(&[2, 1], &[0, 0], 2, Faults { deletions: 1, ..NONE }));
        holds(tasks(&[2, 1], &[0, 0], 2, Faults { reaps: 1, ..NONE }));
        holds(tasks(&[2, 1], &[0, 0], 1, Faults { cuts: 1, deletions: 1, reaps: 1, ..NONE }));
    }
}

/// Each has to find a way to break the property it names.
mod without_a_rule {
    use super::*;

    /// CURATOR-604: the node of the session before is taken for one's own. That takes a GUID that is kept
    /// over sessions, as Curator does. The crate draws a new one, so that either rule would be enough.
    #[test]
    fn the_owner_check() {
        let faults = Faults { cuts: 1, expiries: 1, ..NONE };
        let kept = Rules { guids: Guids::KeptOverSessions, ..Rules::ALL };
        let rules = Rules { owner_check: false, ..kept };
        breaks("owner-check", ALONE, without(rules, &[0, 0], 1, faults));
        breaks("owner-check", IN_ORDER, without(rules, &[0, 0], 1, faults));
        // The check is what saves, and the drawing is.
        holds(Contention { rules: kept, ..model(&[0, 0], 1, faults) });
        let rules = Rules { owner_check: false, ..Rules::ALL };
        holds(Contention { rules, ..model(&[0, 0], 1, faults) });
    }

    /// CURATOR-264: a server that lags says "not there", and a node of ours is left in the queue.
    #[test]
    fn the_barrier() {
        let rules = Rules { barrier: false, ..Rules::ALL };
        let faults = Faults { cuts: 1, ..NONE };
        breaks("barrier", SOMEBODY_HOLDS, without(rules, &[1], 1, faults));
        let faults = Faults { withdrawals: 1, ..faults };
        breaks("barrier", NOTHING_LEFT, without(rules, &[1], 1, faults));
    }

    #[test]
    fn the_watch_on_the_own_node() {
        let rules = Rules { own_watch: false, ..Rules::ALL };
        let faults = Faults { deletions: 1, ..NONE };
        breaks("own-node-watch", SOMEBODY_HOLDS, without(rules, &[0, 0], 1, faults));
    }

    #[test]
    fn the_lease_check_at_the_admission() {
        let rules = Rules { lease_check: false, ..Rules::ALL };
        let faults = Faults { stops: 1, expiries: 1, ..NONE };
        breaks("lease-check", ALONE, without(rules, &[1, 0, 0], 1, faults));
        breaks("lease-check", TOKENS, without(rules, &[1, 0, 0], 1, faults));
    }

    #[test]
    fn waiting_for_the_one_before() {
        let rules = Rules { one_before: false, ..Rules::ALL };
        breaks("one-before", NO_HERD, without(rules, &[0, 0, 0], 1, NONE));
    }

    /// A late clean-up of an earlier entering removes the node of a later one: found by its GUID, or, once
    /// the parent was made anew and counts from 0 again, by its whole name.
    #[test]
    fn one_guid_for_each_entering() {
        let rules = Rules { guids: Guids::OnePerClient, ..Rules::ALL };
        let faults = Faults { cuts: 1, withdrawals: 1, ..NONE };
        breaks("one-guid-per-entering", ALONE, without(rules, &[0, 0], 2, faults));
        let faults = Faults { deletions: 1, reaps: 1, ..NONE };
        breaks("one-guid-per-entering", ALONE, without(rules, &[0, 0], 2, faults));
    }
}
