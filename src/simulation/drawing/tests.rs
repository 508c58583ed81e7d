//! Recordings, and the bars and arrows that a picture of them has.

use super::*;
use crate::simulation::recording::RecordedHold;
use crate::simulation::server::Role;

const ALL: Span = Span { from: 0, to: 1000 };

/// A recording of processes `A` and `B`.
fn recording() -> Recording {
    let mut run = Recording::default();
    for name in ["A", "B"] {
        let process = run.add_process();
        run.rename(process, name.to_owned());
    }
    run
}

impl Recording {
    fn waits(&mut self, at: u64, process: usize) -> usize {
        self.begin_wait(at, process, 1, format!("task of {process}"), "/l")
    }

    fn holds(&mut self, at: u64, process: usize, kind: &'static str, term: u64) -> usize {
        let session = i64::try_from(process).unwrap();
        let task = format!("task of {process}");
        let token = (1 << 32) + 7;
        let facts = RecordedHold { task, path: "/l".to_owned(), kind, token, session };
        self.begin_hold(at, process, term, facts)
    }
}

/// The bars of a picture until 1000 ms, each behind its lane and row.
fn bars(run: Recording) -> Vec<String> {
    let run = run.cut(ALL, 1000);
    let mut bars = Vec::new();
    for (place, lane) in Drawing::new(&run, ALL).lanes {
        for (nth, row) in lane.rows.iter().enumerate() {
            let name = run.name(place);
            bars.extend(row.bars.iter().map(|bar| format!("{name}{nth} {}", bar.title)));
        }
    }
    bars
}

fn overlaps(run: Recording) -> Vec<Span> {
    let overlaps = run.cut(ALL, 1000).overlaps(ALL);
    overlaps.into_iter().map(|overlap| overlap.span).collect()
}

#[test]
fn a_wait_and_its_hold_are_in_one_row() {
    let mut run = recording();
    let wait = run.waits(10, 1);
    let hold = run.holds(20, 1, "lock-", 9);
    run.end_wait(wait, 22, "acquired"); // the task is polled later
    run.end_hold(hold, 30, None);
    let wait = run.waits(40, 1);
    run.end_wait(wait, 50, "busy");
    run.waits(60, 2);
    let expected = [
        "A0 A waits for /l, 0.01 s to 0.02 s, 0.01 s: acquired",
        "A0 A holds /l, token 4294967303, 0.02 s to 0.03 s, 0.01 s: released",
        "A0 A waits for /l, 0.04 s to 0.05 s, 0.01 s: busy",
        "B0 B waits for /l, 0.06 s to 1 s, 0.94 s: still waits",
    ];
    assert_eq!(bars(run), expected);
}

#[test]
fn tasks_of_one_process_that_wait_at_the_same_time_have_a_row_each() {
    let mut run = recording();
    run.waits(10, 1);
    run.begin_wait(15, 1, 1, "another".to_owned(), "/l");
    let expected = [
        "A0 A waits for /l, 0.01 s to 1 s, 0.99 s: still waits",
        "A1 A waits for /l, 0.015 s to 1 s, 0.985 s: still waits",
    ];
    assert_eq!(bars(run), expected);
}

#[test]
fn processes_of_one_name_share_a_lane_and_curators_outside_have_their_own() {
    let mut run = recording();
    run.rename(2, "A".to_owned());
    let holds = [run.holds(10, 1, "lock-", 1), run.holds(20, 2, "lock-", 2)];
    run.end_hold(holds[0], 15, None);
    run.end_hold(holds[1], 30, None);
    run.begin_wait(40, 0, 77, "a test".to_owned(), "/l");
    let expected = [
        "A0 A holds /l, token 4294967303, 0.01 s to 0.015 s, 0.005 s: released",
        "A0 A holds /l, token 4294967303, 0.02 s to 0.03 s, 0.01 s: released",
        "Curator 10 Curator 1 waits for /l, 0.04 s to 1 s, 0.96 s: still waits",
    ];
    assert_eq!(bars(run), expected);
}

#[test]
fn holds_that_exclude_each_other_overlap() {
    let of = |one, other| {
        let mut run = recording();
        let holds = [run.holds(10, 1, one, 1), run.holds(20, 2, other, 2)];
        run.end_hold(holds[0], 30, None);
        run.end_hold(holds[1], 40, None);
        overlaps(run)
    };
    let both = Span { from: 20, to: 30 };
    for (one, other, overlaps) in [
        ("lock-", "lock-", vec![both]),
        ("__WRIT__", "__READ__", vec![both]),
        ("__READ__", "__READ__", vec![]),
        ("lease-", "lease-", vec![]),
    ] {
        assert_eq!(of(one, other), overlaps, "{one} {other}");
    }
}

#[test]
fn messages_are_left_out_when_there_are_too_many() {
    let of = |operations: &[(Operation, usize)]| {
        let mut run = recording();
        run.waits(0, 1);
        run.role(0, 0, Role::Leading, "serves".to_owned());
        for (operation, count) in operations {
            let message = Message {
                from: Place::Process(1),
                to: Place::Server(0),
                span: Span { from: 8, to: 9 },
                operation: Some(*operation),
                is_lost: false,
            };
            run.messages.extend(std::iter::repeat_n(message, *count));
        }
        let run = run.cut(ALL, 1000);
        Drawing::new(&run, ALL).messages.len()
    };
    assert_eq!(of(&[(Operation::Ping, 50), (Operation::Create, 9)]), 59);
    assert_eq!(of(&[(Operation::Ping, 500), (Operation::Create, 9)]), 9);
    assert_eq!(of(&[(Operation::Create, 500)]), 0);
}

#[test]
fn many_paths_are_coloured_by_their_parent_and_named_in_the_holds() {
    let labels = |paths: usize| {
        let mut run = recording();
        for path in 0..paths {
            let hold = run.begin_wait(0, 1, 1, "a task".to_owned(), &format!("/shards/{path}"));
            let facts = RecordedHold {
                task: "a task".to_owned(),
                path: run.turns[hold].path.clone(),
                kind: "lock-",
                token: 1 << 33,
                session: 1,
            };
            run.begin_hold(1, 1, 1, facts);
        }
        let run = run.cut(ALL, 1000);
        let drawing = Drawing::new(&run, ALL);
        let last = drawing.lanes.into_values().next().unwrap().rows.pop().unwrap().bars.pop();
        (drawing.colours.len(), last.unwrap().labels)
    };
    assert_eq!(labels(2), (2, vec!["token 2.0".to_owned(), "2.0".to_owned()]));
    assert_eq!(labels(7), (1, vec!["6, token 2.0".to_owned(), "6".to_owned()]));
}
