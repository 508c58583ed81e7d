//! The checker finds what breaks each rule, and nothing else.

use crate::rules::{Finding, Hold, Mode, Nanos, Rule, judge};

fn hold(who: &str, mode: Mode, from: Nanos, to: Nanos) -> Hold {
    Hold { who: who.to_owned(), mode, from, to }
}

fn write(who: &str, from: Nanos, to: Nanos) -> Hold {
    hold(who, Mode::Write, from, to)
}

fn read(who: &str, from: Nanos, to: Nanos) -> Hold {
    hold(who, Mode::Read, from, to)
}

const TOGETHER: Rule = Rule::ReadersTogether;

#[test]
fn holds_one_after_the_other_are_fine() {
    let a = vec![write("a", 10, 20), write("a", 30, 40)];
    // At the very moment that the other ends is not before it.
    let b = vec![write("b", 20, 30), write("b", 41, 50)];
    assert_eq!(judge(TOGETHER, &[a.clone(), b.clone()]), []);
    assert_eq!(judge(Rule::AtMost(1), &[a, b]), []);
}

#[test]
fn two_exclusive_holds_at_once_are_found() {
    let (a, b) = (write("a", 10, 20), write("b", 19, 30));
    let expected = [Finding::Overlap(a.clone(), b.clone())];
    assert_eq!(judge(TOGETHER, &[vec![a.clone()], vec![b.clone()]]), expected);
    assert_eq!(judge(TOGETHER, &[vec![b], vec![a]]), expected);
}

#[test]
fn one_within_another_is_found_also_behind_a_short_one() {
    let (long, short, late) = (write("a", 10, 100), write("b", 20, 30), write("c", 90, 110));
    let expected = [
        Finding::Overlap(long.clone(), short.clone()),
        Finding::Overlap(long.clone(), late.clone()),
    ];
    assert_eq!(judge(TOGETHER, &[vec![long], vec![short], vec![late]]), expected);
}

#[test]
fn readers_are_together_and_writers_alone() {
    let readers = vec![read("a", 10, 30), read("b", 15, 40)];
    assert_eq!(judge(TOGETHER, std::slice::from_ref(&readers)), []);
    let writer = vec![write("c", 35, 50)];
    let expected = [Finding::Overlap(readers[1].clone(), writer[0].clone())];
    assert_eq!(judge(TOGETHER, &[readers, writer]), expected);
    let (writer, reader) = (write("c", 10, 20), read("a", 12, 30));
    let expected = [Finding::Overlap(writer.clone(), reader.clone())];
    assert_eq!(judge(TOGETHER, &[vec![writer], vec![reader]]), expected);
}

#[test]
fn an_owner_may_read_while_it_writes() {
    let log = vec![write("a", 10, 30), read("a", 20, 40)];
    assert_eq!(judge(TOGETHER, std::slice::from_ref(&log)), []);
    let other = vec![write("b", 35, 50)];
    assert_eq!(judge(TOGETHER, &[log, other]).len(), 1);
}

#[test]
fn more_leases_than_there_may_be_are_found() {
    let log = vec![read("a", 10, 40), read("b", 20, 50), read("c", 40, 60)];
    assert_eq!(judge(Rule::AtMost(2), std::slice::from_ref(&log)), []);
    let one_more = vec![read("d", 45, 48)];
    let expected = [Finding::TooMany { at: 45, holders: 3 }];
    assert_eq!(judge(Rule::AtMost(2), &[log, one_more]), expected);
}

#[test]
fn stamps_of_different_clocks_are_found() {
    let log = vec![write("a", 20, 10)];
    assert_eq!(judge(TOGETHER, std::slice::from_ref(&log)), [Finding::Backwards(log[0].clone())]);
}

#[test]
fn a_side_that_never_held_is_found() {
    assert_eq!(judge(TOGETHER, &[vec![write("a", 1, 2)], vec![]]), [Finding::ShutOut(1)]);
}
