//! Tables of events, and the elements that a picture of them has.

use super::*;
use crate::error::Loss;
use crate::simulation::op::Operation;
use crate::simulation::recording::{End, Place, RecordedHold, RunEvent};
use crate::simulation::server::Role;

const ALL: Span = Span { from: 0, to: 1000 };

fn wait(wait: u64, process: usize) -> RunEvent {
    let task = format!("task of {process}");
    RunEvent::WaitBegan { wait, process, curator: 1, task, path: "/l".to_owned() }
}

fn hold(hold: u64, term: u64, process: usize, kind: &'static str) -> RunEvent {
    let session = i64::try_from(process).unwrap();
    let task = format!("task of {process}");
    let facts = RecordedHold { task, path: "/l".to_owned(), kind, token: 7, session };
    RunEvent::HoldBegan { hold, term, process, facts }
}

fn released(hold: u64) -> RunEvent {
    RunEvent::HoldEnded { hold, loss: None }
}

/// A chart of processes `A` and `B` and one server, until 1000 ms.
fn chart(events: Vec<(u64, RunEvent)>) -> Chart {
    let recorded = |(at, event)| Recorded { at, event };
    let events: Vec<_> = events.into_iter().map(recorded).collect();
    Chart::new(&events, &["A".to_owned(), "B".to_owned()], 1, 1000, ALL)
}

/// The turns of a chart, in words.
fn turns(chart: &Chart) -> Vec<String> {
    let span = |span: Option<Span>| span.map(|span| format!("{}..{}", span.from, span.to));
    let turn = |turn: &Turn| {
        let lane = &chart.lanes[turn.lane].name;
        let waits = span(turn.waits).unwrap_or_default();
        let holds = span(turn.holds).unwrap_or_default();
        let end = turn.end.as_deref().unwrap_or("");
        format!("{lane}{} waits {waits} holds {holds} {end}", turn.row)
    };
    chart.turns.iter().map(turn).collect()
}

#[test]
fn a_wait_and_its_hold_are_one_turn() {
    let answered = RunEvent::WaitEnded { wait: 1, outcome: "acquired" };
    let events = vec![
        (10, wait(1, 1)),
        (20, hold(2, 9, 1, "lock-")),
        (22, answered), // the task is polled later
        (30, released(2)),
        (40, wait(3, 1)),
        (50, RunEvent::WaitEnded { wait: 3, outcome: "busy" }),
        (60, wait(4, 2)),
    ];
    let chart = chart(events);
    let expected = [
        "A0 waits 10..20 holds 20..30 released",
        "A0 waits 40..50 holds  ",
        "B0 waits 60..1000 holds  ",
    ];
    assert_eq!(turns(&chart), expected);
    assert_eq!(
        chart.turns.iter().map(|turn| turn.outcome).collect::<Vec<_>>(),
        ["acquired", "busy", "still waits"]
    );
}

#[test]
fn tasks_of_one_process_that_wait_at_the_same_time_have_a_row_each() {
    let other = RunEvent::WaitBegan {
        wait: 2,
        process: 1,
        curator: 1,
        task: "another".to_owned(),
        path: "/l".to_owned(),
    };
    let chart = chart(vec![(10, wait(1, 1)), (15, other)]);
    assert_eq!(turns(&chart), ["A0 waits 10..1000 holds  ", "A1 waits 15..1000 holds  "]);
    assert_eq!(chart.lanes.iter().map(|lane| lane.rows).collect::<Vec<_>>(), [1, 2, 0]);
}

#[test]
fn a_hold_ends_with_its_term_at_the_latest_and_only_once() {
    let lost = RunEvent::TermEnded { term: 9, loss: Loss::LeaseEnded };
    // The term ended at 40, which its process noticed when it was resumed.
    let events = vec![
        (20, hold(2, 9, 1, "lock-")),
        (20, hold(3, 8, 2, "lock-")),
        (40, lost),
        (90, RunEvent::HoldEnded { hold: 2, loss: Some(Loss::LeaseEnded) }),
    ];
    let chart = chart(events);
    assert_eq!(turns(&chart)[0], format!("A0 waits  holds 20..40 lost: {}", Loss::LeaseEnded));
    assert!(chart.turns[0].is_lost);
    assert_eq!(turns(&chart)[1], "B0 waits  holds 20..1000 ");
}

#[test]
fn a_killed_process_holds_and_waits_no_more() {
    let events = vec![
        (20, hold(2, 9, 1, "lock-")),
        (25, wait(3, 1)),
        (30, RunEvent::Killed { process: 1 }),
        (31, released(2)), // by its destructors
    ];
    let chart = chart(events);
    assert_eq!(turns(&chart), ["A0 waits  holds 20..30 killed", "A1 waits 25..30 holds  "]);
    assert_eq!(chart.states[0].kind, StateKind::Killed);
}

#[test]
fn holds_that_exclude_each_other_overlap() {
    let of = |one, other| {
        let events = vec![
            (10, hold(1, 1, 1, one)),
            (20, hold(2, 2, 2, other)),
            (30, released(1)),
            (40, released(2)),
        ];
        chart(events).overlaps.iter().map(|overlap| overlap.span).collect::<Vec<_>>()
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
fn a_process_that_is_paused_does_nothing_that_overlaps() {
    let events = vec![
        (10, hold(1, 1, 1, "lock-")),
        (15, RunEvent::Paused { process: 1 }),
        (20, hold(2, 2, 2, "lock-")),
        (70, RunEvent::Resumed { process: 1 }),
        (80, released(1)),
    ];
    let chart = chart(events);
    let overlaps: Vec<_> = chart.overlaps.iter().map(|overlap| overlap.span).collect();
    assert_eq!(overlaps, [Span { from: 70, to: 80 }]);
    assert!(chart.faults[0].is_pause && chart.faults[0].span == Span { from: 15, to: 70 });
}

#[test]
fn servers_have_their_roles_and_faults_the_lanes_that_they_concern() {
    let role = |role, epoch| RunEvent::ServerRole { server: 0, role, epoch };
    let begins = |fault, place| RunEvent::FaultBegan { fault, place, name: "cut".to_owned() };
    let events = vec![
        (0, role(Role::Leading, 1)),
        (5, RunEvent::LinkUsed { link: 3, process: 2 }),
        (10, begins(1, Place::Link(3))),
        (20, role(Role::Down, 1)),
        (30, RunEvent::FaultEnded { fault: 1 }),
        (40, begins(2, Place::Servers(vec![0]))),
    ];
    let chart = chart(events);
    let states: Vec<_> = chart.states.iter().map(|state| (state.kind, state.span)).collect();
    let leads = (StateKind::Leads, Span { from: 0, to: 20 });
    assert_eq!(states, [leads, (StateKind::Down, Span { from: 20, to: 1000 })]);
    let faults: Vec<_> = chart.faults.iter().map(|fault| (fault.span, &*fault.lanes)).collect();
    let server = (Span { from: 40, to: 1000 }, &[0][..]);
    assert_eq!(faults, [(Span { from: 10, to: 30 }, &[2][..]), server]);
}

#[test]
fn messages_are_left_out_when_there_are_too_many() {
    let of = |operations: &[(Operation, usize)]| {
        let mut events = vec![(0, wait(1, 1))];
        for (operation, count) in operations {
            let from = End::Client { process: 1, session: 1 };
            let message = RunEvent::Message {
                from,
                to: End::Server(0),
                sent: 8,
                operation: Some(*operation),
                is_lost: false,
            };
            events.extend(std::iter::repeat_n((9, message), *count));
        }
        chart(events).messages.len()
    };
    assert_eq!(of(&[(Operation::Ping, 50), (Operation::Create, 9)]), 59);
    assert_eq!(of(&[(Operation::Ping, 500), (Operation::Create, 9)]), 9);
    assert_eq!(of(&[(Operation::Create, 500)]), 0);
}
