//! The checker's rules for leaders and for observers, each with a log that keeps it and one that breaks it. Times are in
//! milliseconds.

use super::script::{T, at, deletes, evidence, kills, log, logs, ms, verdict};
use crate::checker::{Evidence, Kind, Leaders, Verdict, judge};
use crate::log::{Event, What};

rules! {
    two_that_lead_at_one_moment_are_double:
        ["0 leader 10-30#5 | 1 leader 31-40#6", 0]
        ["0 leader 10-30#5 | 1 leader 30-40#6", 1]
        ["0 leader 10-20#6 | 1 leader 30-40#5", 1]
    a_worker_that_leads_again_by_its_node_has_its_token:
        ["0 leader 10-20#5 30-40#5", 0]
        ["0 leader 10-20#5 30-40#6", 0]
        // Another node, and an older token; the same node, and another token.
        ["0 leader 10-20#5 30-40#5@6", 1]
        ["0 leader 10-20#5 30-40#6@5", 1]
        // Another worker by that node, or one that came after it.
        ["0 leader 10-20#5 | 1 leader 30-40#5", 1]
        ["0 leader 10-20#5 | 0+ leader 30-40#5", 1]
    no_other_worker_leads_in_between:
        ["0 leader 10-20#5 40-50#5 | 1 leader 51-60#6", 0]
        ["0 leader 10-20#5 40-50#5 | 1 leader 25-30#6", 1]
        ["0 leader 10-20#5 40-50#5 | 1 leader 25-30#4", 1]
        // The first term outlasts the begin of the second.
        ["0 leader 10-20#5 19-30#5", 1]
    a_leader_closed_from_elsewhere_says_yes_no_more:
        ["0 leader 10#5 y10#5 x20#5 r20#5 y30#5", 1]
}

#[test]
fn a_leader_closed_from_elsewhere_has_lost_nothing() {
    let verdict = verdict(&logs("0 leader 10#5 y10#5 x20#5 r20#5"), &[]);
    assert!(verdict.is_clean(), "{:?}", verdict.findings);
    assert_eq!(verdict.lost(), 0);
}

#[test]
fn a_leader_that_was_struck_does_not_lead_again_by_that_node() {
    for strike in [deletes("/5"), kills(105)] {
        let again = logs("0 leader 10-120#5 3000-3010#5");
        assert_eq!(verdict(&again, &at(100, 110, strike)).count(Kind::Double), 1);
    }
}

#[test]
fn a_node_that_leads_again_is_no_sign_that_the_servers_went_back() {
    let node = "/_c_x-latch-0000000007";
    let twice = log("0 leader").holds_by(10, 5, node).holds_by(20, 5, node);
    assert!(verdict(std::slice::from_ref(&twice), &[]).went_back.is_empty());
    let back = log("1 leader").holds_by(30, 6, "/_c_y-latch-0000000006");
    assert_eq!(verdict(&[twice, back, log("2")], &[]).went_back.len(), 1);
}

/// One that leads once, the first time from `from` on, where all was healed at `healed`.
fn healed(healed: u64, from: u64) -> Verdict {
    let mut evidence = evidence(&logs("0"), &[]);
    let script = log(&format!("0 leader {from}-{}#5", from + 5)).then(from + 6, What::Quiet);
    evidence.workers[0].events = script.events;
    evidence.faults = vec![Event(ms(healed), What::Healed)];
    judge(&evidence)
}

#[test]
fn after_the_healing_there_is_a_leader_within_the_bound() {
    let bound = T * 3 / 2 + 10_000;
    let after = |verdict: &Verdict| verdict.leaders.clone().unwrap().after_healing;
    let in_time = healed(1000, 1000 + bound);
    assert!(in_time.is_clean(), "{:?}", in_time.findings);
    assert_eq!(after(&in_time), Some(ms(bound)));
    assert_eq!(healed(1000, 1001 + bound).count(Kind::Hung), 1);
    // It led at that moment already, and does not lead any more.
    assert_eq!(after(&healed(1000, 996)), Some(0));
    assert_eq!(after(&healed(1000, 900)), None);
    // The row did not come to lead, and nobody did.
    assert_eq!(healed(1000, 900).count(Kind::Hung), 2);
    // That is nothing to a run of locks.
    assert!(judge(&evidence(&logs("0"), &[])).leaders.is_none());
}

/// What is found of an observer that is told so, each time 10 ms later: of a worker and a token, or of nobody.
fn observed(told: &[Option<(&str, i64)>]) -> (usize, usize, usize) {
    let mut evidence: Evidence = evidence(&logs("0 leader 10-20#5"), &[]);
    let events = told.iter().zip(1..).map(|(leader, place)| {
        let leader = leader.map(|(id, token)| (id.to_owned(), token));
        Event(ms(10 * place), What::Observes { leader })
    });
    evidence.observed = Some(events.collect());
    let verdict = judge(&evidence);
    let Leaders { observed, .. } = verdict.leaders.clone().unwrap();
    (observed, verdict.count(Kind::Double), verdict.count(Kind::Hung))
}

#[test]
fn an_observer_is_never_told_of_an_older_leader() {
    let (zero, one) = (|token| Some(("0.0", token)), |token| Some(("1.0", token)));
    assert_eq!(observed(&[zero(5), one(6), None, zero(7), None]).1, 0);
    // Nobody in between; the same once more, as after a connection that was lost.
    assert_eq!(observed(&[None, zero(5), None, zero(5), None]).1, 0);
    assert_eq!(observed(&[one(6), zero(5), None]).1, 1);
    assert_eq!(observed(&[one(6), None, zero(5), None]).1, 1);
    assert_eq!(observed(&[one(6), zero(5), one(6), one(4), None]).1, 2);
    // What is known of a token is who leads with it.
    assert_eq!(observed(&[one(5), None]).1, 1);
    assert_eq!(observed(&[zero(5), None]), (1, 0, 0));
}

#[test]
fn an_observer_is_told_of_somebody_and_at_last_of_nobody() {
    assert_eq!(observed(&[]).2, 1);
    assert_eq!(observed(&[None]).2, 1);
    assert_eq!(observed(&[Some(("0.0", 5))]).2, 1);
}
