//! The checker's rules for holds that do not exclude each other, and for holds of several locks, each with a log that keeps it
//! and one that breaks it. Times are in milliseconds.

use super::script::{Script, T, deletes, doubles, evidence, kills, ms, verdict, worker};
use crate::checker::{Kind, judge};
use crate::log::{Mode, Name, Signal, What};

fn reader(row: usize) -> Script {
    worker(row).takes(Mode::Read)
}

fn writer(row: usize) -> Script {
    worker(row).takes(Mode::Write)
}

fn leaser(row: usize) -> Script {
    worker(row).takes(Mode::Lease)
}

#[test]
fn readers_hold_together() {
    assert_eq!(doubles(&[reader(0).held(10, 30, 5), reader(1).held(20, 40, 6)]), 0);
    // In whatever order they learn of it.
    assert_eq!(doubles(&[reader(0).held(20, 30, 5), reader(1).held(10, 40, 6)]), 0);
}

#[test]
fn a_writer_holds_alone() {
    assert_eq!(doubles(&[reader(0).held(10, 30, 5), writer(1).held(29, 40, 6)]), 1);
    assert_eq!(doubles(&[writer(0).held(10, 30, 5), reader(1).held(29, 40, 6)]), 1);
    assert_eq!(doubles(&[writer(0).held(10, 30, 5), writer(1).held(29, 40, 6)]), 1);
    assert_eq!(doubles(&[reader(0).held(10, 30, 5), writer(1).held(31, 40, 6)]), 0);
    // Beside each of two readers.
    let readers = [reader(0).held(10, 30, 5), reader(1).held(12, 40, 6)];
    let [one, other] = readers.clone();
    assert_eq!(doubles(&[one, other, writer(2).held(25, 50, 7)]), 2);
    let [one, other] = readers;
    assert_eq!(doubles(&[one, other, writer(2).held(41, 50, 7)]), 0);
}

#[test]
fn a_writer_and_the_read_beside_it_are_one() {
    let write = || writer(0).holds(10, 5).yes(10, 10, 5);
    let read = |script: Script| script.takes(Mode::Beside).holds(15, 5).yes(15, 15, 5);
    let both =
        || read(write()).takes(Mode::Write).claims(20, 30, 5).takes(Mode::Beside).claims(31, 40, 5);
    assert_eq!(doubles(&[both()]), 0);
    // Other readers come in when it stops writing, other writers when it stops reading.
    assert_eq!(doubles(&[both(), reader(1).held(31, 50, 6)]), 0);
    assert_eq!(doubles(&[both(), reader(1).held(29, 50, 6)]), 1);
    assert_eq!(doubles(&[both(), writer(1).held(41, 50, 6)]), 0);
    assert_eq!(doubles(&[both(), writer(1).held(39, 50, 6)]), 1);
    // Of another worker it is a reader like any other, and has taken somebody's token.
    let other = worker(1).takes(Mode::Beside).held(15, 16, 5);
    assert_eq!(doubles(&[writer(0).held(10, 20, 5), other]), 2);
}

#[test]
fn no_other_writer_comes_between_a_writer_and_what_it_is_down_graded_to() {
    let down = writer(0).held(10, 20, 5).takes(Mode::Beside).held(30, 40, 5);
    assert_eq!(doubles(&[down.clone(), writer(1).held(41, 50, 6)]), 0);
    assert_eq!(doubles(&[down.clone(), writer(1).held(22, 28, 6)]), 1);
    assert_eq!(doubles(&[down, reader(1).held(22, 28, 6)]), 0);
}

#[test]
fn the_tokens_of_readers_compare_with_those_of_writers() {
    assert_eq!(doubles(&[writer(0).held(10, 20, 6), reader(1).held(30, 40, 5)]), 1);
    assert_eq!(doubles(&[reader(0).held(10, 20, 6), writer(1).held(30, 40, 5)]), 1);
    assert_eq!(doubles(&[reader(0).held(10, 20, 6), reader(1).held(30, 40, 5)]), 0);
    assert_eq!(doubles(&[reader(0).held(10, 20, 5), reader(1).held(30, 40, 5)]), 1);
}

#[test]
fn a_yes_names_which_of_two_holds_it_is_of() {
    let both = writer(0).held(10, 20, 5).takes(Mode::Beside).holds(21, 5).yes(21, 21, 5);
    assert_eq!(doubles(&[both.clone().releases(22, 5)]), 0);
    // The read is held, the write is not any more.
    assert_eq!(
        doubles(&[both
            .clone()
            .takes(Mode::Write)
            .yes(22, 22, 5)
            .takes(Mode::Beside)
            .releases(23, 5)]),
        1
    );
    assert_eq!(doubles(&[both.asks(30)]), 1);
}

#[test]
fn a_reader_that_was_struck_may_believe_for_the_grace() {
    for (strike, grace) in [(deletes("/5"), T / 6 + T * 2 / 3), (kills(105), T * 2 / 3)] {
        let [sent, done] = strike;
        let faults = [(100, sent), (110, done)];
        let scripts = |until| [reader(0).held(10, until, 5), writer(1).held(120, 9000, 6)];
        let within = verdict(&scripts(110 + grace), &faults);
        assert!(within.is_clean(), "{:?}", within.findings);
        assert_eq!(within.excused.len(), 1);
        assert_eq!(verdict(&scripts(111 + grace), &faults).count(Kind::Double), 2);
    }
}

#[test]
fn the_strike_on_a_write_hold_is_none_on_the_read_beside_it() {
    let both = writer(0).held(10, 50, 5).takes(Mode::Beside).holds(12, 5).yes(12, 12, 5);
    let [sent, done] = deletes("/5");
    let faults = [(30, sent), (35, done)];
    // It keeps writers out, and no reader.
    let count = |both: Script, other| verdict(&[both, other], &faults).count(Kind::Double);
    let both = both.yes(60, 60, 5).releases(60, 5);
    assert_eq!(count(both.clone(), reader(1).held(40, 70, 6)), 0);
    assert!(count(both, writer(1).held(40, 70, 6)) > 0);
}

#[test]
fn a_reader_sees_no_change() {
    let sees = |script: Script, at, read| {
        let hold = Name(Mode::Read, 5);
        script.then(at, What::Sees { hold, read, by: 4 })
    };
    let reads = |first, last| {
        let script = sees(reader(0).holds(10, 5).yes(10, 10, 5), 20, first);
        sees(script, 30, last)
    };
    let stale = |script, faults: &[_]| verdict(&[script], faults).count(Kind::StaleWrite);
    assert_eq!(stale(reads(1, 1).yes(40, 40, 5).releases(41, 5), &[]), 0);
    assert_eq!(stale(reads(1, 2).yes(40, 40, 5).releases(41, 5), &[]), 1);
    // It may have lost the lock when it read.
    assert_eq!(stale(reads(1, 2).no(40, 5), &[]), 0);
    // Or was about to, and did not know.
    let struck = |at| {
        let [sent, done] = deletes("/5");
        stale(reads(1, 2).yes(40, 40, 5).releases(41, 5), &[(at, sent), (at + 1, done)])
    };
    assert_eq!((struck(25), struck(35)), (0, 1));
}

#[test]
fn a_read_beside_a_write_sees_only_what_that_one_writes() {
    let sees = |script: Script, at, read, by| {
        let hold = Name(Mode::Beside, 5);
        script.then(at, What::Sees { hold, read, by })
    };
    let stale = |by| {
        let script = sees(worker(0).takes(Mode::Beside).holds(10, 5).yes(10, 10, 5), 20, 1, 4);
        let script = sees(script, 30, 2, by).yes(40, 40, 5).releases(41, 5);
        verdict(&[script], &[]).count(Kind::StaleWrite)
    };
    assert_eq!((stale(5), stale(6)), (0, 1));
}

#[test]
fn no_more_leases_than_there_are() {
    let two = || [leaser(0).held(10, 50, 5), leaser(1).held(20, 40, 6)];
    let [one, other] = two();
    assert_eq!(doubles(&[one, other]), 0);
    let [one, other] = two();
    assert_eq!(doubles(&[one, other, leaser(2).held(41, 60, 7)]), 0);
    let [one, other] = two();
    assert_eq!(doubles(&[one, other, leaser(2).held(39, 60, 7)]), 1);
    // All of one worker: it asks each.
    let all = leaser(0).holds(10, 5).holds(10, 6).holds(10, 7);
    let all = all.claims(11, 20, 5).claims(11, 20, 6).claims(11, 20, 7);
    assert_eq!(doubles(&[all]), 1);
    // The order of their tokens is nobody's promise; that they are not given twice is.
    assert_eq!(doubles(&[leaser(0).held(10, 20, 6), leaser(1).held(30, 40, 5)]), 0);
    assert_eq!(doubles(&[leaser(0).held(10, 20, 5), leaser(1).held(30, 40, 5)]), 1);
}

#[test]
fn each_lease_must_end() {
    let both = leaser(0).holds(10, 5).holds(10, 6).yes(11, 11, 5).yes(11, 11, 6);
    assert_eq!(doubles(&[both.clone().releases(20, 6).releases(21, 5).asks(30)]), 0);
    assert_eq!(doubles(&[both.clone().releases(20, 6).asks(30)]), 1);
    assert_eq!(doubles(&[both.clone().releases(20, 5).asks(30)]), 1);
    assert_eq!(doubles(&[both.no(20, 6).releases(21, 5).asks(30)]), 0);
}

#[test]
fn a_lease_that_was_struck_makes_room_for_one() {
    let [sent, done] = deletes("/5");
    let faults = [(100, sent), (110, done)];
    let two = || [leaser(0).held(10, 200, 5), leaser(1).held(20, 300, 6)];
    let [one, other] = two();
    let one_more = verdict(&[one, other, leaser(2).held(120, 400, 7)], &faults);
    assert!(one_more.is_clean(), "{:?}", one_more.findings);
    let [excused] = one_more.excused[..] else { panic!("{:?}", one_more.excused) };
    assert_eq!((excused.at, excused.long), (ms(120), ms(80)));
    // Before it was, and one more.
    let [one, other] = two();
    assert_eq!(verdict(&[one, other, leaser(2).held(99, 400, 7)], &faults).count(Kind::Double), 1);
    let [one, other] = two();
    let scripts = [one, other, leaser(2).held(120, 400, 7), leaser(3).held(130, 400, 8)];
    assert_eq!(verdict(&scripts, &faults).count(Kind::Double), 1);
    // The youngest was let in too early, whatever became of it.
    let [sent, done] = deletes("/7");
    let [one, other] = two();
    let scripts = [one, other, leaser(2).held(120, 150, 7)];
    assert_eq!(verdict(&scripts, &[(100, sent), (110, done)]).count(Kind::Double), 1);
}

/// A hold of these locks, with the token of each.
fn of_several(row: usize, from: u64, to: u64, locks: &[(&str, i64)]) -> Script {
    let nodes: Vec<_> = locks.iter().map(|(lock, token)| (*lock, *token, None)).collect();
    worker(row).takes(Mode::Multi).holds_by(from, &nodes).claims(from, to, locks[0].1)
}

#[test]
fn each_member_is_held_by_one_at_a_time() {
    let both = || of_several(0, 10, 30, &[("/a", 5), ("/b", 6)]);
    assert_eq!(doubles(&[both(), of_several(1, 31, 50, &[("/a", 7), ("/b", 8)])]), 0);
    assert_eq!(doubles(&[both(), of_several(1, 29, 50, &[("/a", 7), ("/c", 8)])]), 1);
    assert_eq!(doubles(&[both(), of_several(1, 29, 50, &[("/b", 7)])]), 1);
    assert_eq!(doubles(&[both(), of_several(1, 29, 50, &[("/c", 7)])]), 0);
    // A mutex on the path of a member.
    let single = |from| worker(1).holds_by(from, &[("/b", 7, Some("/b/7"))]).claims(from, 50, 7);
    assert_eq!(doubles(&[both(), single(31)]), 0);
    assert_eq!(doubles(&[both(), single(29)]), 1);
}

#[test]
fn the_tokens_of_each_member_rise() {
    let both = || of_several(0, 10, 30, &[("/a", 5), ("/b", 8)]);
    assert_eq!(doubles(&[both(), of_several(1, 31, 50, &[("/b", 9)])]), 0);
    assert_eq!(doubles(&[both(), of_several(1, 31, 50, &[("/b", 7)])]), 1);
    assert_eq!(doubles(&[both(), of_several(1, 31, 50, &[("/b", 8)])]), 1);
    assert_eq!(doubles(&[both(), of_several(1, 31, 50, &[("/c", 5)])]), 0);
}

#[test]
fn with_a_member_all_are_lost() {
    // The guard does not tell its nodes; they are known by their tokens.
    let deleted = |token| {
        let node = "/b/whatever".to_owned();
        [
            (100, What::Deletes { node: node.clone(), token }),
            (110, What::Deleted { node, known: true }),
        ]
    };
    let grace = T / 6 + T * 2 / 3;
    let believes = |until, token| {
        let hold = of_several(0, 10, until, &[("/a", 5), ("/b", 6), ("/c", 7)]);
        verdict(&[hold], &deleted(token)).count(Kind::Double)
    };
    for token in 5..=7 {
        assert_eq!(believes(110 + grace, token), 0);
        assert_eq!(believes(111 + grace, token), 1);
    }
    assert_eq!(believes(111 + grace, 8), 0);
    // And whoever comes in meanwhile is excused, at any of the members.
    let hold = of_several(0, 10, 200, &[("/a", 5), ("/b", 6), ("/c", 7)]);
    let next = of_several(1, 120, 300, &[("/c", 9)]);
    let verdict = verdict(&[hold, next], &deleted(6));
    assert!(verdict.is_clean(), "{:?}", verdict.findings);
    assert_eq!(verdict.excused.len(), 1);
}

#[test]
fn the_next_hold_after_a_kill_is_one_that_had_to_wait() {
    let killed = |script: Script| {
        let kill = What::Signalled { row: 0, generation: 0, signal: Signal::Kill };
        let next = Script { generation: 1, ..worker(0) };
        let other = of_several(1, 400, 450, &[("/else", 8)]);
        let scripts =
            [script.holds(10, 5).yes(10, 10, 5), next, other, writer(2).held(1330, 1400, 9)];
        judge(&evidence(&scripts, &[(130, kill)])).after_kills
    };
    assert_eq!(killed(writer(0)), [0.5]);
    assert!(killed(leaser(0)).is_empty());
}

#[test]
fn servers_that_lose_what_they_confirmed_are_told_by_the_numbers() {
    let writes = |row, at, token, number: u32| {
        let path = format!("/_c_x-__WRIT__{number:010}");
        let lock = [("", token, Some(&*path))];
        writer(row).holds_by(at, &lock).claims(at, at + 5, token)
    };
    let went_back = |second, third| {
        let scripts = [writes(0, 10, 5, 70), writes(1, 20, 6, second), writes(2, 30, 7, third)];
        let verdict =
            verdict(&[scripts.as_slice(), &[worker(0), worker(1), worker(2)]].concat(), &[]);
        verdict.went_back.len()
    };
    assert_eq!((went_back(71, 74), went_back(71, 71), went_back(69, 70)), (0, 1, 1));
}

#[test]
fn the_names_of_holds_are_read_back() {
    let hold = Name(Mode::Beside, 7);
    let text = serde_json::to_string(&hold).unwrap();
    assert_eq!(serde_json::from_str::<Name>(&text).unwrap(), hold);
}
