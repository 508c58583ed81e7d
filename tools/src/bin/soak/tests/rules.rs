//! The checker's rules, each with a log that keeps it and one that breaks it. Times are in milliseconds.

use super::script::{Script, T, at, deletes, evidence, kills, log, logs, ms, verdict};
use crate::checker::{Kind, PATIENCE, Verdict, judge};
use crate::log::Counter::{self, Store, ZooKeeper};
use crate::log::Outcome::{Accepted, Refused, Unknown};
use crate::log::{Event, Mode, Name, Signal, What, parse};
use crate::schedule::schedule;

rules! {
    two_that_claim_one_moment_are_double:
        ["0 10-30#5 | 1 29-40#6", 1]
        ["0 10-30#5 | 1 30-40#6", 1]
        ["0 10-30#5 | 1 31-40#6", 0]
        // The first outlasts the second, and runs into the third.
        ["0 10-50#5 | 1 20-30#6 | 2 40-60#7", 2]
    a_worker_stopped_between_question_and_stamp_is_no_finding:
        // Stopped from 12 to 3000: once after the answer to its last question, once before the answer to it.
        ["0 10#5 y10#5 y12-3000#5 n3001#5 | 1 2500-2600#6", 0]
        // Stopped right after its only yes.
        ["0 10#5 y12-3000#5 n3001#5 | 1 2500-2600#6", 0]
    a_worker_that_believes_when_it_goes_on_is_double:
        // One question is enough: it was asked when the other claimed, and answered yes.
        ["0 10#5 y10#5 y12#5 y2550-2551#5 n2555#5 | 1 2500-2600#6", 1]
    tokens_rise_and_are_given_once:
        ["0 10-20#6 | 1 30-40#5", 1]
        ["0 10-20#5 | 1 30-40#5", 1]
    holds_under_one_token_are_of_one_node_and_do_not_overlap:
        ["0 10-20#5 30-40#5", 0]
        ["0 10-20#5 19-30#5", 1]
        ["0 10-20#5 30-40#5 | 1 22-28#6", 1]
        // Another node; the next process of the row.
        ["0 10-20#5 30-40#5@6", 1]
        ["0 10-20#5 | 0+ 30-40#5", 1]
        // A write lock retains its node too.
        ["0 write 10-20#5 30-40#5", 0]
        ["0 write 10-20#5 19-30#5", 1]
    after_a_no_a_loss_or_a_release_there_is_no_yes:
        ["0 10#5 y10#5 n20#5 y30#5", 1]
        ["0 10#5 y10#5 r20#5 y30#5", 1]
        ["0 10#5 y10#5 l20#5 y30#5", 1]
        ["0 10#5 y10#5 y20#5 y30#5", 1] // no end: see below
        ["0 10#5 y10#5 n20#5 n30#5", 0]
    a_hold_ends_by_a_release_or_a_report:
        ["0 10#5 y10#5 ?20", 1]
        ["0 10#5 y10#5 n15#5 ?20", 0]
        ["0 10#5 y10#5 r15#5 ?20", 0]
}

#[test]
fn holds_one_after_the_other_are_fine() {
    let verdict = verdict(&logs("0 10-20#5 40-50#8 | 1 21-39#6"), &[]);
    assert!(verdict.is_clean(), "{:?}", verdict.findings);
    assert_eq!((verdict.holds.len(), verdict.lost()), (5, 0));
}

#[test]
fn a_claim_ends_with_the_last_word_of_a_killed_worker() {
    let kill = What::Signalled { row: 0, generation: 0, signal: Signal::Kill };
    let verdict = verdict(&logs("0 10#5 y10#5 y30#5 | 0+ | 1 2530-2600#6"), &[(130, kill)]);
    assert!(verdict.is_clean(), "{:?}", verdict.findings);
}

/// Worker 0 believes until `believes`; worker 1 comes in at 120. The strike is sent at 100 and done at 110.
fn struck(believes: u64, strike: [What; 2]) -> Verdict {
    verdict(&logs(&format!("0 10-{believes}#5 | 1 120-9000#6")), &at(100, 110, strike))
}

#[test]
fn a_holder_that_was_struck_may_believe_for_the_grace() {
    for (one, other) in [("lock", "lock"), ("read", "write"), ("leader", "leader")] {
        for (strike, grace) in [(deletes("/5"), T / 6 + T * 2 / 3), (kills(105), T * 2 / 3)] {
            let until = |end: u64| {
                let logs = logs(&format!("0 {one} 10-{end}#5 | 1 {other} 120-9000#6"));
                verdict(&logs, &at(100, 110, strike.clone()))
            };
            let within = until(110 + grace);
            assert!(within.is_clean(), "{one}: {:?}", within.findings);
            let [excused] = within.excused[..] else { panic!("{one}: {:?}", within.excused) };
            assert_eq!((excused.at, excused.long), (ms(120), ms(grace - 10)), "{one}");
            // One millisecond more, and both the overlap and the belief break a rule.
            assert_eq!(until(111 + grace).count(Kind::Double), 2, "{one}");
        }
    }
}

#[test]
fn only_the_hold_that_was_struck_is_excused() {
    for strike in [deletes("/6"), deletes("/7"), kills(106), kills(999)] {
        assert!(struck(130, strike).count(Kind::Double) > 0);
    }
    // Struck only after the other came in.
    let late = verdict(&logs("0 10-200#5 | 1 99-300#6"), &at(100, 110, deletes("/5")));
    assert_eq!(late.count(Kind::Double), 1);
}

#[test]
fn a_strike_of_unknown_outcome_is_counted() {
    let [sent, _] = deletes("/5");
    let done = What::Deleted { node: "/5".to_owned(), known: false };
    let verdict = struck(8000, [sent, done]);
    assert!(verdict.is_clean(), "{:?}", verdict.findings);
    assert_eq!((verdict.unknown_strikes, verdict.excused.len()), (1, 1));
}

/// What is found wrong with a counter that ends so.
fn stale(scripts: &[Script], counter: Counter, end: (u64, i64)) -> usize {
    let mut evidence = evidence(scripts, &[]);
    match counter {
        ZooKeeper => evidence.zookeeper = end,
        Store => evidence.store = end,
    }
    let verdict = judge(&evidence);
    assert_eq!(verdict.findings.len(), verdict.count(Kind::StaleWrite));
    verdict.count(Kind::StaleWrite)
}

#[test]
fn a_counter_is_one_chain() {
    for counter in [ZooKeeper, Store] {
        let one =
            log("0").counts(counter, 5, (0, 0), Accepted).counts(counter, 5, (1, 5), Accepted);
        let two = log("1").counts(counter, 7, (2, 5), Accepted);
        let both = [one.clone(), two.clone()];
        assert_eq!(stale(&both, counter, (3, 7)), 0);
        // The last write is gone; so are all of them.
        assert_eq!(stale(&both, counter, (2, 5)), 1);
        assert_eq!(stale(&both, counter, (0, 0)), 3);
        // Written by nobody: and so nothing leads to what was accepted.
        assert_eq!(stale(&both, counter, (4, 7)), 4);
        // Overwritten by one that did not see it.
        let blind = log("1").counts(counter, 7, (1, 5), Accepted);
        assert_eq!(stale(&[one, blind], counter, (2, 7)), 1);
    }
}

#[test]
fn what_was_refused_is_not_there_and_what_is_unknown_may_be() {
    let before = log("0").counts(ZooKeeper, 5, (0, 0), Accepted);
    let end = |outcome| log("1").counts(ZooKeeper, 7, (1, 5), outcome);
    assert_eq!(stale(&[before.clone(), end(Unknown)], ZooKeeper, (2, 7)), 0);
    assert_eq!(stale(&[before.clone(), end(Unknown)], ZooKeeper, (1, 5)), 0);
    assert_eq!(stale(&[before.clone(), end(Refused)], ZooKeeper, (1, 5)), 0);
    assert_eq!(stale(&[before.clone(), end(Refused)], ZooKeeper, (2, 7)), 1);
    // Killed before it learnt the outcome.
    let cut = log("1").then(1, What::Tries { counter: ZooKeeper, token: 7, read: 1, by: 5 });
    assert_eq!(stale(&[before, cut], ZooKeeper, (2, 7)), 0);
}

#[test]
fn a_smaller_token_writes_no_more() {
    let newer = log("0").counts(Store, 7, (0, 0), Accepted);
    let older = log("1").counts(Store, 5, (1, 7), Accepted);
    assert_eq!(stale(&[newer, older], Store, (2, 5)), 1);
}

#[test]
fn what_is_left_over_is_an_orphan() {
    let mut evidence = evidence(&[log("0")], &[]);
    evidence.children = vec!["_c_x-lock-0000000001".to_owned()];
    assert_eq!(judge(&evidence).count(Kind::Orphan), 1);
}

#[test]
fn who_does_not_hold_after_the_healing_is_hung() {
    let mut evidence = evidence(&[log("0"), log("1")], &[]);
    assert!(judge(&evidence).is_clean());
    assert_eq!(judge(&evidence).after_healing, [0, ms(100)]);
    // Healed later than its last hold.
    evidence.faults[0].0 += ms(50);
    assert_eq!(judge(&evidence).count(Kind::Hung), 1);
    // Healed so much earlier that nobody got it in time.
    evidence.faults[0].0 = ms(999_999) - PATIENCE;
    assert_eq!(judge(&evidence).count(Kind::Hung), 2);
    // Got it, and never came to rest.
    evidence.faults[0].0 = ms(1_000_000);
    evidence.workers[1].events.pop();
    assert_eq!(judge(&evidence).count(Kind::Hung), 1);
}

#[test]
fn a_line_is_read_back_as_it_was_written_and_a_cut_one_is_none() {
    let what = What::Tries { counter: Store, token: 7, read: 1, by: 5 };
    let event = Event(1_234_567, what);
    let line = serde_json::to_string(&event).unwrap();
    assert_eq!(parse(line.as_bytes()).unwrap(), [event]);
    assert!(parse(&line.as_bytes()[..line.len() - 1]).is_err());
    let hold = Name(Mode::Beside, 7);
    let text = serde_json::to_string(&hold).unwrap();
    assert_eq!(serde_json::from_str::<Name>(&text).unwrap(), hold);
}

#[test]
fn a_seed_gives_one_schedule() {
    assert_eq!(schedule(7, 200), schedule(7, 200));
    assert_ne!(schedule(7, 200), schedule(8, 200));
    // All kinds are in a thousand, and it fits in half an hour.
    let planned = schedule(7, 1000);
    let mut kinds: Vec<_> = planned.iter().map(|planned| planned.kind.name()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds.len(), 22, "{kinds:?}");
    let time: std::time::Duration = planned.iter().map(|planned| planned.after).sum();
    assert!(time.as_secs() < 25 * 60, "{time:?}");
}
