//! The checker's rules, each with a log that keeps it and one that breaks it. Times are in milliseconds.

use super::script::{evidence, log, logs, ms, verdict};
use crate::checker::{Kind, PATIENCE, judge};
use crate::log::{Event, Mode, Name, Signal, What, parse};

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
        // Of one worker as well, by the same node or another one.
        ["0 10-20#5 30-40#5", 1]
        ["0 10-20#5 30-40#5@6", 1]
        ["0 10-20#5 | 0+ 30-40#5", 1]
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

#[test]
fn what_is_left_over_is_an_orphan() {
    let mut evidence = evidence(&[log("0")], &[]);
    evidence.left = vec![("_c_x-lock-0000000001".to_owned(), None)];
    assert_eq!(judge(&evidence).count(Kind::Orphan), 1);
}

#[test]
fn a_worker_that_does_not_hold_after_the_healing_is_hung() {
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
    let event = Event(1_234_567, What::Yes { hold: Name(Mode::Read, 7), after: 1_234_569 });
    let line = serde_json::to_string(&event).unwrap();
    assert_eq!(parse(line.as_bytes()).unwrap(), [event]);
    assert!(parse(&line.as_bytes()[..line.len() - 1]).is_err());
    // The peers of other libraries write such lines.
    let written = r#"[7,{"holds":{"hold":["lock",5],"node":"/a"}}]"#;
    let holds = What::Holds { hold: Name(Mode::Lock, 5), node: "/a".to_owned() };
    assert_eq!(parse(written.as_bytes()).unwrap(), [Event(7, holds)]);
}
