//! The checker's rules for holds that do not exclude each other, each with a log that keeps it
//! and one that breaks it. Times are in milliseconds.

use super::script::{log, logs, verdict};

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
    the_tokens_of_readers_compare_with_those_of_writers:
        ["0 write 10-20#6 | 1 read 30-40#5", 1]
        ["0 read 10-20#6 | 1 write 30-40#5", 1]
        ["0 read 10-20#6 | 1 read 30-40#5", 0]
        ["0 read 10-20#5 | 1 read 30-40#5", 1]
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
