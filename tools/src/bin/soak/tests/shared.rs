//! The checker's rules for holds that do not exclude each other, each with a log that keeps it
//! and one that breaks it. Times are in milliseconds.

use super::script::{Script, at, deletes, log, logs, ms, verdict};
use crate::checker::Kind;
use crate::log::{Mode, Name, What};

rules! {
    readers_hold_together:
        ["0 read 10-30#5 | 1 read 20-40#6", 0]
        // In whatever order they learn of it.
        ["0 read 20-30#5 | 1 read 10-40#6", 0]
    a_writer_holds_alone:
        ["0 read 10-30#5 | 1 write 29-40#6", 1]
        ["0 write 10-30#5 | 1 read 29-40#6", 1]
        ["0 write 10-30#5 | 1 write 29-40#6", 1]
        ["0 read 10-30#5 | 1 write 31-40#6", 0]
        // Beside each of two readers.
        ["0 read 10-30#5 | 1 read 12-40#6 | 2 write 25-50#7", 2]
        ["0 read 10-30#5 | 1 read 12-40#6 | 2 write 41-50#7", 0]
    a_writer_and_the_read_beside_it_are_one:
        ["0 write 10#5 y10#5 beside 15#5 y15#5 write c20-30#5 beside c31-40#5", 0]
        // Other readers come in when it stops writing, other writers when it stops reading.
        ["0 write 10#5 y10#5 beside 15#5 y15#5 write c20-30#5 beside c31-40#5 | 1 read 31-50#6", 0]
        ["0 write 10#5 y10#5 beside 15#5 y15#5 write c20-30#5 beside c31-40#5 | 1 read 29-50#6", 1]
        ["0 write 10#5 y10#5 beside 15#5 y15#5 write c20-30#5 beside c31-40#5 | 1 write 41-50#6", 0]
        ["0 write 10#5 y10#5 beside 15#5 y15#5 write c20-30#5 beside c31-40#5 | 1 write 39-50#6", 1]
        // Of another worker it is a reader like any other, and has taken somebody's token.
        ["0 write 10-20#5 | 1 beside 15-16#5", 2]
    no_other_writer_comes_between_a_writer_and_what_it_is_down_graded_to:
        ["0 write 10-20#5 beside 30-40#5 | 1 write 41-50#6", 0]
        ["0 write 10-20#5 beside 30-40#5 | 1 write 22-28#6", 1]
        ["0 write 10-20#5 beside 30-40#5 | 1 read 22-28#6", 0]
    the_tokens_of_readers_compare_with_those_of_writers:
        ["0 write 10-20#6 | 1 read 30-40#5", 1]
        ["0 read 10-20#6 | 1 write 30-40#5", 1]
        ["0 read 10-20#6 | 1 read 30-40#5", 0]
        ["0 read 10-20#5 | 1 read 30-40#5", 1]
    a_yes_names_which_of_two_holds_it_is_of:
        ["0 write 10-20#5 beside 21#5 y21#5 r22#5", 0]
        // The read is held, the write is not any more.
        ["0 write 10-20#5 beside 21#5 y21#5 write y22#5 beside r23#5", 1]
        ["0 write 10-20#5 beside 21#5 y21#5 ?30", 1]
    no_more_leases_than_there_are:
        ["0 lease 10-50#5 | 1 lease 20-40#6", 0]
        ["0 lease 10-50#5 | 1 lease 20-40#6 | 2 lease 41-60#7", 0]
        ["0 lease 10-50#5 | 1 lease 20-40#6 | 2 lease 39-60#7", 1]
        // All of one worker: it asks each.
        ["0 lease 10#5 10#6 10#7 c11-20#5 c11-20#6 c11-20#7", 1]
        // The order of their tokens is nobody's promise; that they are not given twice is.
        ["0 lease 10-20#6 | 1 lease 30-40#5", 0]
        ["0 lease 10-20#5 | 1 lease 30-40#5", 1]
    each_lease_must_end:
        ["0 lease 10#5 10#6 y11#5 y11#6 r20#6 r21#5 ?30", 0]
        ["0 lease 10#5 10#6 y11#5 y11#6 r20#6 ?30", 1]
        ["0 lease 10#5 10#6 y11#5 y11#6 r20#5 ?30", 1]
        ["0 lease 10#5 10#6 y11#5 y11#6 n20#6 r21#5 ?30", 0]
}

#[test]
fn the_strike_on_a_write_hold_is_none_on_the_read_beside_it() {
    // It keeps writers out, and no reader.
    let count = |other: &str| {
        let logs = logs(&format!("0 write 10-50#5 beside 12#5 y12#5 y60#5 r60#5 | {other}"));
        verdict(&logs, &at(30, 35, deletes("/5"))).count(Kind::Double)
    };
    assert_eq!(count("1 read 40-70#6"), 0);
    assert!(count("1 write 40-70#6") > 0);
}

fn sees(script: Script, mode: Mode, at: u64, (read, by): (u64, i64)) -> Script {
    script.then(at, What::Sees { hold: Name(mode, 5), read, by })
}

#[test]
fn a_reader_sees_no_change() {
    let stale = |read, end: &str, faults: &[_]| {
        let script = sees(log("0 read 10#5 y10#5"), Mode::Read, 20, (1, 4));
        let script = end.split(' ').fold(sees(script, Mode::Read, 30, (read, 4)), Script::word);
        verdict(&[script], faults).count(Kind::StaleWrite)
    };
    assert_eq!(stale(1, "y40#5 r41#5", &[]), 0);
    assert_eq!(stale(2, "y40#5 r41#5", &[]), 1);
    // It may have lost the lock when it read.
    assert_eq!(stale(2, "n40#5", &[]), 0);
    // Or was about to, and did not know.
    assert_eq!(stale(2, "y40#5 r41#5", &at(25, 26, deletes("/5"))), 0);
    assert_eq!(stale(2, "y40#5 r41#5", &at(35, 36, deletes("/5"))), 1);
}

#[test]
fn a_read_beside_a_write_sees_only_what_that_one_writes() {
    let stale = |by| {
        let script = sees(log("0 beside 10#5 y10#5"), Mode::Beside, 20, (1, 4));
        let script = sees(script, Mode::Beside, 30, (2, by)).word("y40#5").word("r41#5");
        verdict(&[script], &[]).count(Kind::StaleWrite)
    };
    assert_eq!((stale(5), stale(6)), (0, 1));
}

#[test]
fn a_lease_that_was_struck_makes_room_for_one() {
    let struck = |node: &str, others: &str| {
        let logs = logs(&format!("0 lease 10-200#5 | 1 lease 20-300#6 | {others}"));
        verdict(&logs, &at(100, 110, deletes(node)))
    };
    let one_more = struck("/5", "2 lease 120-400#7");
    assert!(one_more.is_clean(), "{:?}", one_more.findings);
    let [excused] = one_more.excused[..] else { panic!("{:?}", one_more.excused) };
    assert_eq!((excused.at, excused.long), (ms(120), ms(80)));
    // Before it was, and one more.
    assert_eq!(struck("/5", "2 lease 99-400#7").count(Kind::Double), 1);
    assert_eq!(struck("/5", "2 lease 120-400#7 | 3 lease 130-400#8").count(Kind::Double), 1);
    // The youngest was let in too early, whatever became of it.
    assert_eq!(struck("/7", "2 lease 120-150#7").count(Kind::Double), 1);
}

#[test]
fn servers_that_lose_what_they_confirmed_are_told_by_the_numbers() {
    let writes = |row: usize, at, token, number: u32| {
        log(&format!("{row} write")).holds_by(at, token, &format!("/_c_x-__WRIT__{number:010}"))
    };
    let went_back = |second, third| {
        let scripts = [writes(0, 10, 5, 70), writes(1, 20, 6, second), writes(2, 30, 7, third)];
        verdict(&[scripts.as_slice(), &logs("0 | 1 | 2")].concat(), &[]).went_back.len()
    };
    assert_eq!((went_back(71, 74), went_back(71, 71), went_back(69, 70)), (0, 1, 1));
}
