//! A table for each event, and an exhaustive search of small sizes.

mod model;

use std::sync::Arc;

use super::*;
use crate::session::lease::LossPolicy;

const NODE: NodeId = 7;

/// Conditions under which everything is allowed.
const FINE: Conditions = Conditions {
    closing: false,
    lease_lasts: true,
    same_connection: true,
    given_up: false,
    unfired: true,
    spare: true,
    wanted: false,
};

fn waiter() -> Waiter {
    Waiter {
        node: NodeSpec { data: Arc::from(&b"us"[..]), acls: Arc::from([]) },
        shares_queue: true,
        shared: false,
        no_wait: false,
        retention: Duration::ZERO,
        term: LossPolicy::Lease.into(),
    }
}

fn other() -> NodeSpec {
    NodeSpec { data: Arc::from(&b"others"[..]), acls: Arc::from([]) }
}

fn a_try() -> Waiter {
    Waiter { no_wait: true, ..waiter() }
}

fn with_retention() -> Waiter {
    Waiter { retention: Duration::from_secs(1), ..waiter() }
}

fn reader() -> Waiter {
    Waiter { shared: true, ..waiter() }
}

fn retain() -> Command {
    Command::Retain { retention: Duration::from_secs(1), term: LossPolicy::Lease.into() }
}

fn create(ticket: Ticket, watch_children: bool) -> Command {
    Command::Create { ticket, watch_children }
}

fn joined(waiter: Waiter) -> Event {
    Event::Joined(Arc::new(waiter))
}

fn permit(holder: Waiter) -> LocalQueue {
    LocalQueue::held(NODE, Arc::new(holder), true)
}

fn first(sole: Sole) -> Event {
    Event::First { node: NODE, sole, retainable: true }
}

impl Conditions {
    /// The conditions that the driver gathers for this question.
    fn answer(self, question: Question) -> Self {
        match question {
            Question::Basic => {
                Self { closing: self.closing, unfired: self.unfired, ..Self::default() }
            }
            Question::Pass(_) => self,
        }
    }
}

impl LocalQueue {
    fn fine(&mut self, event: Event) -> Vec<Command> {
        self.on(event, |question| FINE.answer(question))
    }

    fn joined(&mut self, waiters: impl IntoIterator<Item = Waiter>) {
        for waiter in waiters {
            self.fine(joined(waiter));
        }
    }

    /// Makes the next node one that all may hold by that have joined by now.
    fn joined_before_the_create(&mut self, waiters: impl IntoIterator<Item = Waiter>) {
        self.joined(waiters);
        self.begin_attempt();
    }

    /// Caller 0 holds by a node of which that is known, as hold 1; the others joined before the create if `before`.
    fn held_with(holder: Waiter, sole: Sole, before: bool, waiters: Vec<Waiter>) -> Self {
        let mut queue = Self::new();
        queue.fine(joined(holder));
        if before {
            queue.joined_before_the_create(waiters);
            queue.fine(first(sole));
        } else {
            queue.fine(first(sole));
            queue.joined(waiters);
        }
        queue
    }

    fn state(&self) -> &'static str {
        match &self.node {
            NodeState::None => "none",
            NodeState::Acquiring(Progress::Attempt(attempt)) if attempt.behind => "behind",
            NodeState::Acquiring(Progress::Attempt(_)) => "acquiring",
            NodeState::Acquiring(Progress::Pause) => "pause",
            NodeState::Acquiring(Progress::Stop) => "stop",
            NodeState::Held(_) => "held",
            NodeState::Undecided(_) => "undecided",
            NodeState::Retained(_) => "retained",
        }
    }
}

const RELEASED: Event = Event::Released { hold: 1, lost: false };
const NEXT: Command = Command::Begin { ticket: 1, hold: 2 };

#[test]
fn the_first_caller_has_a_node_made_and_the_others_wait_for_it() {
    let mut queue = LocalQueue::new();
    assert_eq!(queue.fine(joined(waiter())), [create(0, false)]);
    assert_eq!(queue.fine(joined(waiter())), []);
    assert_eq!(
        queue.fine(first(Sole::NotAsked)),
        [
            Command::NotifyQueued(vec![1]),
            Command::AskWhetherSole,
            Command::Begin { ticket: 0, hold: 1 }
        ]
    );
    assert_eq!(queue.fine(joined(waiter())), [Command::NotifyQueued(vec![2])]);
    assert_eq!(queue.queued(), 2);
    assert_eq!(queue.next_ticket(), 3);
}

/// The queue in each state, and the answers to the questions.
#[test]
fn the_questions_are_answered_in_each_state() {
    let none = LocalQueue::new();
    let mut acquiring = LocalQueue::new();
    acquiring.joined([waiter(), waiter()]);
    let mut behind = LocalQueue::new();
    behind.joined([waiter(), waiter()]);
    behind.fine(Event::Behind);
    let held = LocalQueue::held_with(waiter(), Sole::No, true, vec![waiter()]);
    let mut undecided = LocalQueue::held_with(waiter(), Sole::Asked, false, vec![waiter()]);
    undecided.fine(RELEASED);
    let mut retained = LocalQueue::held_with(with_retention(), Sole::Yes, true, vec![]);
    retained.fine(RELEASED);
    // State, first waiter, waiters behind the node, busy, held, kept.
    let table = [
        (none, "none", None, 0, false, false, false),
        (acquiring, "acquiring", Some(0), 1, false, false, false),
        (behind, "behind", Some(0), 1, true, false, false),
        (held, "held", Some(1), 1, true, true, false),
        (undecided, "undecided", Some(1), 1, false, false, true),
        (retained, "retained", None, 0, false, false, true),
    ];
    for (queue, state, first, queued, is_busy, is_held, is_kept) in table {
        assert_eq!(queue.state(), state);
        assert_eq!(queue.first(), first, "{state}");
        assert_eq!(queue.has_waiters(), first.is_some(), "{state}");
        assert_eq!(queue.queued(), queued, "{state}");
        assert_eq!(queue.is_busy(), is_busy, "{state}");
        assert_eq!(queue.is_held_by(queue.hold), is_held, "{state}");
        assert!(!queue.is_held_by(queue.hold + 1), "{state}");
        assert_eq!(queue.is_kept(), is_kept, "{state}");
    }
}

#[test]
fn a_permit_is_kept_for_the_head_or_deleted_when_its_hold_is_released() {
    let released = Event::Released { hold: 0, lost: false };
    let wanted = Conditions { wanted: true, ..FINE };
    let unfit = [
        FINE,
        Conditions { closing: true, ..wanted },
        Conditions { same_connection: false, ..wanted },
        Conditions { given_up: true, ..wanted },
    ];
    for conditions in unfit {
        let mut queue = permit(waiter());
        assert_eq!(queue.on(released.clone(), |_| conditions), [Command::Delete(NODE)]);
    }
    let mut queue = permit(waiter());
    let lost = Event::Released { hold: 0, lost: true };
    assert_eq!(queue.on(lost, |_| wanted), [Command::Delete(NODE)]);

    // The caller that waits is in time. Later ones are not.
    let mut queue = permit(waiter());
    let keep = Command::KeepPermit { node: NODE, wanted: true };
    assert_eq!(queue.on(released.clone(), |_| wanted), [keep]);
    assert_eq!(queue.on(released, |_| wanted), []);
    let ticket = queue.next_ticket();
    let begin = Command::Begin { ticket, hold: 1 };
    assert_eq!(queue.fine(joined(waiter())), [Command::EndRetention, begin]);
    let next_ticket = queue.next_ticket();
    let limit = queue.node.first().map(|node| node.ticket_limit);
    assert_eq!(limit, Some(next_ticket));

    // No queue of a permit creates a node.
    let mut queue = permit(waiter());
    queue.on(Event::Released { hold: 0, lost: false }, |_| wanted);
    let other = Waiter { node: other(), ..waiter() };
    let refused = Command::Refuse(vec![queue.next_ticket()], Refusal::Busy);
    let commands = [Command::EndRetention, Command::Delete(NODE), refused];
    assert_eq!(queue.fine(joined(other)), commands);
}

#[test]
fn a_permit_is_retained_while_nobody_waits_for_one() {
    let commands =
        || [Command::KeepPermit { node: NODE, wanted: false }, Command::AskWhetherSole, retain()];
    let retained = || {
        let mut queue = permit(with_retention());
        assert_eq!(queue.fine(Event::Released { hold: 0, lost: false }), commands());
        queue
    };
    let mut queue = retained();
    assert_eq!(queue.fine(Event::Listed { node: NODE, sole: true }), [Command::AwaitNews]);
    let ticket = queue.next_ticket();
    let begin = Command::Begin { ticket, hold: 1 };
    assert_eq!(queue.fine(joined(with_retention())), [Command::EndRetention, begin]);
    // A caller has come to the mutex during the hold, and has left it again or not.
    let fired = Conditions { unfired: false, ..FINE };
    let released = queue.on(Event::Released { hold: 1, lost: false }, |_| fired);
    assert_eq!(released, commands());

    let gone = [Command::EndRetention, Command::Delete(NODE)];
    assert_eq!(retained().fine(Event::Listed { node: NODE, sole: false }), gone);
    assert_eq!(retained().fine(Event::RetentionOver { node: NODE }), gone);
    let mut queue = retained();
    queue.fine(Event::Listed { node: NODE, sole: true });
    let refused = Command::Refuse(vec![queue.next_ticket()], Refusal::Busy);
    let commands = [Command::EndRetention, Command::Delete(NODE), refused];
    assert_eq!(queue.on(joined(waiter()), |_| fired), commands);
}

/// Conditions, the next caller, whether it joined before the create, what is known of the node; commands and state.
#[test]
fn a_release_passes_the_node_on_only_if_every_condition_holds() {
    use Sole::{Asked, No, NotAsked, Yes};
    let leaves = vec![Command::Delete(NODE), create(1, true)];
    let closed = vec![Command::Delete(NODE), Command::Refuse(vec![1], Refusal::Closed)];
    let other_data = Waiter { node: other(), ..waiter() };
    let table = [
        ("sole", FINE, waiter(), false, Yes, vec![NEXT], "held"),
        ("joined before the create", FINE, waiter(), true, No, vec![NEXT], "held"),
        ("joined after, not sole", FINE, waiter(), false, No, leaves.clone(), "acquiring"),
        ("joined after, not known yet", FINE, waiter(), false, Asked, vec![], "undecided"),
        ("asked by the join", FINE, waiter(), false, NotAsked, vec![], "undecided"),
        (
            "lease",
            Conditions { lease_lasts: false, ..FINE },
            waiter(),
            true,
            Yes,
            leaves.clone(),
            "acquiring",
        ),
        (
            "link",
            Conditions { same_connection: false, ..FINE },
            waiter(),
            true,
            Yes,
            leaves.clone(),
            "acquiring",
        ),
        (
            "given_up",
            Conditions { given_up: true, ..FINE },
            waiter(),
            true,
            Yes,
            leaves.clone(),
            "acquiring",
        ),
        ("closing", Conditions { closing: true, ..FINE }, waiter(), true, Yes, closed, "none"),
        ("other data", FINE, other_data, true, Yes, leaves.clone(), "acquiring"),
        (
            "no room to spare",
            Conditions { spare: false, ..FINE },
            waiter(),
            true,
            No,
            vec![NEXT],
            "held",
        ),
    ];
    for (name, conditions, next, before, sole, commands, state) in table {
        let mut queue = LocalQueue::held_with(waiter(), sole, before, vec![next]);
        assert_eq!(queue.on(RELEASED, |_| conditions), commands, "{name}");
        assert_eq!(queue.state(), state, "{name}");
    }
}

#[test]
fn news_of_a_stranger_stops_the_node_for_those_that_join_later() {
    let mut queue = LocalQueue::held_with(waiter(), Sole::Yes, false, vec![waiter()]);
    let fired = Conditions { unfired: false, ..FINE };
    assert_eq!(queue.on(joined(waiter()), |_| fired), [Command::NotifyQueued(vec![2])]);
    assert_eq!(queue.on(RELEASED, |_| fired), [NEXT]);
    let released = Event::Released { hold: 2, lost: false };
    assert_eq!(queue.on(released, |_| fired), [Command::Delete(NODE), create(2, true)]);
}

#[test]
fn a_lost_hold_passes_nothing_on_and_an_old_one_changes_nothing() {
    let mut queue = LocalQueue::held_with(waiter(), Sole::Yes, true, vec![waiter()]);
    assert_eq!(queue.fine(Event::Released { hold: 0, lost: false }), []);
    assert_eq!(queue.fine(Event::Released { hold: 2, lost: true }), []);
    let lost = Event::Released { hold: 1, lost: true };
    assert_eq!(queue.fine(lost.clone()), [Command::Delete(NODE), create(1, true)]);
    assert_eq!(queue.fine(lost), []);
}

#[test]
fn the_lease_is_asked_by_the_policy_of_the_one_that_is_next() {
    let next = Waiter { term: LossPolicy::Suspended.into(), ..waiter() };
    let mut queue = LocalQueue::held_with(waiter(), Sole::Yes, true, vec![next]);
    let mut asked = None;
    queue.on(RELEASED, |question| {
        asked = Some(question);
        FINE
    });
    assert_eq!(asked, Some(Question::Pass(Some(LossPolicy::Suspended.into()))));
}

#[test]
fn the_answer_to_whether_it_is_sole_decides_for_those_that_wait() {
    for (sole, commands) in
        [(true, vec![NEXT]), (false, vec![Command::Delete(NODE), create(1, true)])]
    {
        let mut queue = LocalQueue::held_with(waiter(), Sole::NotAsked, false, vec![waiter()]);
        assert_eq!(queue.fine(RELEASED), []);
        assert_eq!(queue.fine(Event::Listed { node: NODE + 1, sole }), []);
        assert_eq!(queue.fine(Event::Listed { node: NODE, sole }), commands);
    }
    // The one that it waited for leaves: nothing is to be decided.
    let mut queue = LocalQueue::held_with(waiter(), Sole::NotAsked, false, vec![waiter()]);
    queue.fine(RELEASED);
    let ignores = |_| panic!("a caller that has its answer changes nothing");
    assert_eq!(queue.on(Event::Withdrawn(0), ignores), []);
    assert_eq!(queue.fine(Event::Withdrawn(1)), [Command::Delete(NODE)]);
}

/// Reader 0 holds by a node of which that is known, as hold 1.
fn read_with(sole: Sole) -> LocalQueue {
    LocalQueue::held_with(reader(), sole, true, vec![])
}

#[test]
fn a_reader_joins_the_holders_of_a_node_only_if_every_condition_holds() {
    let joins = vec![Command::Begin { ticket: 1, hold: 2 }];
    let second_node = vec![Command::Drain, create(1, false)];
    let asks = vec![Command::AskWhetherSole];
    let fired = Conditions { unfired: false, ..FINE };
    let other_data = Waiter { node: other(), ..reader() };
    let a_try = Waiter { no_wait: true, ..reader() };
    let closed = vec![Command::Drain, Command::Refuse(vec![1], Refusal::Closed)];
    let table = [
        ("no writer is known", FINE, reader(), Sole::Yes, joins.clone()),
        ("a try", FINE, a_try.clone(), Sole::Yes, joins),
        ("not known", FINE, reader(), Sole::NotAsked, asks.clone()),
        ("others came or left", fired, reader(), Sole::Yes, asks.clone()),
        ("others came or left, and a try", fired, a_try, Sole::Yes, asks),
        ("a writer is known", FINE, reader(), Sole::No, second_node.clone()),
        ("other data", FINE, other_data, Sole::Yes, second_node.clone()),
        (
            "lease",
            Conditions { lease_lasts: false, ..FINE },
            reader(),
            Sole::Yes,
            second_node.clone(),
        ),
        (
            "link",
            Conditions { same_connection: false, ..FINE },
            reader(),
            Sole::Yes,
            second_node.clone(),
        ),
        ("given up", Conditions { given_up: true, ..FINE }, reader(), Sole::Yes, second_node),
        ("closing", Conditions { closing: true, ..FINE }, reader(), Sole::Yes, closed),
    ];
    for (name, conditions, next, sole, commands) in table {
        let mut queue = read_with(sole);
        assert_eq!(queue.on(joined(next), |_| conditions), commands, "{name}");
    }
}

#[test]
fn readers_that_wait_for_a_listing_hold_together_or_enter_by_a_second_node() {
    let listed = |sole| Event::Listed { node: NODE, sole };
    let both = [Command::Begin { ticket: 1, hold: 2 }, Command::Begin { ticket: 2, hold: 3 }];
    // Others came or left again before the answer: it is as good as a node that was created when the first of them asked.
    let fired = Conditions { unfired: false, ..FINE };
    for (conditions, commands) in
        [(FINE, both.to_vec()), (fired, vec![both[0].clone(), Command::AskWhetherSole])]
    {
        let mut queue = read_with(Sole::NotAsked);
        assert_eq!(queue.fine(joined(reader())), [Command::AskWhetherSole]);
        assert_eq!(queue.fine(joined(reader())), []);
        assert_eq!(queue.on(listed(true), |_| conditions), commands);
    }
    let mut queue = read_with(Sole::NotAsked);
    queue.joined([reader(), reader()]);
    assert_eq!(queue.fine(listed(false)), [Command::Drain, create(1, false)]);
    // A reader that comes now waits for the second node.
    assert_eq!(queue.fine(joined(reader())), []);
}

#[test]
fn any_number_of_readers_begin_in_one_step() {
    let mut queue = LocalQueue::new();
    queue.joined_before_the_create(std::iter::repeat_n(reader(), 20_000));
    let begun = queue.fine(first(Sole::NotAsked));
    assert_eq!(begun.len(), 20_000);
}

#[test]
fn a_node_that_drains_is_deleted_after_its_last_hold() {
    let mut queue = LocalQueue::new();
    queue.joined_before_the_create([reader(), reader()]);
    let begin = |ticket, hold| Command::Begin { ticket, hold };
    assert_eq!(queue.fine(first(Sole::No)), [begin(0, 1), begin(1, 2)]);
    assert_eq!(queue.fine(joined(Waiter { node: other(), ..reader() }))[0], Command::Drain);
    let released = |hold| Event::Released { hold, lost: false };
    assert_eq!(queue.fine(released(1)), []);
    assert!(!queue.is_held_by(1) && queue.is_held_by(2));
    assert_eq!(queue.fine(released(1)), []);
    assert_eq!(queue.fine(released(2)), [Command::Delete(NODE)]);
    // A third party deletes it first.
    for (event, command) in [
        (Event::NodeGone { node: NODE }, Command::Forget(NODE)),
        (Event::NodeGivenUp { node: NODE }, Command::Delete(NODE)),
    ] {
        let mut queue = read_with(Sole::No);
        queue.joined([reader()]);
        assert_eq!(queue.fine(event), [command]);
        assert_eq!(queue.fine(released(1)), []);
    }
}

#[test]
fn a_node_with_a_lost_hold_takes_no_further_reader() {
    let mut queue = read_with(Sole::Yes);
    queue.joined([reader()]);
    let lost = Event::Released { hold: 1, lost: true };
    assert_eq!(queue.fine(lost), [Command::Drain]);
    assert_eq!(queue.fine(joined(reader())), [create(2, false)]);
    assert_eq!(queue.fine(Event::Released { hold: 2, lost: false }), [Command::Delete(NODE)]);
}

#[test]
fn the_lease_is_asked_by_the_policy_of_each_reader() {
    let suspended = Waiter { term: LossPolicy::Suspended.into(), ..reader() };
    let mut queue = LocalQueue::new();
    queue.joined_before_the_create([reader(), suspended]);
    let commands = queue.on(first(Sole::Yes), |question| {
        let lease_lasts = question == Question::Pass(Some(LossPolicy::Lease.into()));
        Conditions { lease_lasts, ..FINE }
    });
    let begin = Command::Begin { ticket: 0, hold: 1 };
    assert_eq!(commands, [begin, Command::Drain, create(1, false)]);
}

#[test]
fn a_node_is_admitted_for_a_caller_that_it_was_made_for() {
    let begin = vec![Command::Begin { ticket: 0, hold: 1 }];
    let table = [
        ("first", FINE, begin.clone()),
        ("closing", Conditions { closing: true, ..FINE }, vec![Command::Abandon]),
        ("lease", Conditions { lease_lasts: false, ..FINE }, vec![Command::Prove]),
        // A new connection, a revocation: it has not held yet.
        ("link", Conditions { same_connection: false, given_up: true, ..FINE }, begin),
    ];
    for (name, conditions, commands) in table {
        let mut queue = LocalQueue::new();
        queue.fine(joined(waiter()));
        assert_eq!(queue.on(first(Sole::No), |_| conditions), commands, "{name}");
    }
}

/// The contender before it is gone. The node waits for a proof of the session, and so does a try.
#[test]
fn a_node_that_is_first_keeps_no_try_out_while_the_session_is_proved() {
    let mut queue = LocalQueue::new();
    queue.fine(joined(reader()));
    queue.fine(Event::Behind);
    let no_lease = Conditions { lease_lasts: false, ..FINE };
    assert_eq!(queue.on(first(Sole::No), |_| no_lease), [Command::Prove]);
    assert!(!queue.is_busy());
    assert_eq!(queue.fine(joined(a_try())), []);
}

/// A caller that waits with such a node has no place of its own, and contenders of other processes come before it.
#[test]
fn an_attempt_stops_if_the_next_caller_may_not_hold_by_its_node() {
    let other_data = Waiter { node: other(), ..waiter() };
    let made_for_both = |next| {
        let mut queue = LocalQueue::new();
        queue.joined_before_the_create([waiter(), next]);
        queue
    };
    let made_for_the_first = || {
        let mut queue = LocalQueue::new();
        queue.joined([waiter(), waiter()]);
        queue
    };
    let mut for_none = made_for_the_first();
    for_none.fine(Event::Withdrawn(1));
    let table = [
        ("before the create", made_for_both(waiter()), false),
        ("other data", made_for_both(other_data), true),
        ("after the create", made_for_the_first(), true),
        ("no caller", for_none, true),
    ];
    for (name, queue, stops) in table {
        for is_behind in [false, true] {
            let mut queue = queue.clone();
            if is_behind {
                queue.fine(Event::Behind);
                assert!(queue.is_busy(), "{name}");
            }
            let stop = if stops { vec![Command::StopEntry] } else { vec![] };
            assert_eq!(queue.fine(Event::Withdrawn(0)), stop, "{name}");
            assert_eq!(queue.is_stopping(), stops, "{name}");
            // Nobody waits for the contender that was seen, so a try waits for the next attempt.
            assert_eq!(queue.is_busy(), is_behind && !stops, "{name}");
            if stops {
                assert_eq!(queue.fine(joined(a_try())), [], "{name}");
                assert_eq!(queue.fine(Event::Behind), [], "{name}");
                assert_eq!(queue.fine(first(Sole::No)), [Command::Abandon], "{name}");
                assert_eq!(queue.fine(Event::AttemptEnded), []);
                assert_eq!(queue.state(), "pause", "{name}");
            }
        }
    }
    // The driver fails the first caller.
    let mut queue = made_for_the_first();
    assert_eq!(queue.remove(|ticket, _| ticket == 0), [0]);
    assert!(queue.is_stopping());
    let mut queue = LocalQueue::new();
    queue.joined([a_try(), waiter()]);
    let refused = Command::Refuse(vec![0], Refusal::Busy);
    let notified = Command::NotifyQueued(vec![1]);
    assert_eq!(queue.fine(Event::Behind), [notified, refused, Command::StopEntry]);
}

/// The caller that joins has had no failure yet.
#[test]
fn a_pause_ends_when_a_caller_joins_or_the_last_one_leaves() {
    let pausing = || {
        let mut queue = LocalQueue::new();
        queue.joined([waiter(), waiter()]);
        queue.fine(Event::AttemptEnded);
        assert_eq!((queue.state(), queue.is_stopping()), ("pause", false));
        queue
    };
    let mut queue = pausing();
    assert_eq!(queue.fine(joined(a_try())), [Command::StopEntry]);
    assert!(queue.is_stopping());
    assert_eq!(queue.begin_attempt(), Some(0));
    assert!(!queue.is_stopping());
    let mut queue = pausing();
    assert_eq!(queue.fine(Event::Withdrawn(0)), []);
    assert_eq!(queue.fine(Event::Withdrawn(1)), [Command::StopEntry]);
    assert!(queue.is_stopping());
    assert_eq!(queue.begin_attempt(), None);
    assert_eq!(queue.fine(Event::AttemptEnded), []);
    assert_eq!(queue.state(), "none");
}

#[test]
fn a_try_is_refused_as_soon_as_another_is_first() {
    let refused = |ticket| vec![Command::Refuse(vec![ticket], Refusal::Busy)];
    let mut queue = LocalQueue::held_with(waiter(), Sole::No, true, vec![]);
    assert_eq!(queue.fine(joined(a_try())), refused(1));
    let mut queue = LocalQueue::new();
    queue.joined([waiter(), a_try()]);
    assert_eq!(
        queue.fine(Event::Behind),
        [Command::NotifyQueued(vec![0]), Command::Refuse(vec![1], Refusal::Busy)]
    );
    assert_eq!(queue.fine(joined(a_try())), refused(2));
    let mut queue = LocalQueue::new();
    queue.joined_before_the_create([a_try(), a_try()]);
    let begin = Command::Begin { ticket: 0, hold: 1 };
    assert_eq!(queue.fine(first(Sole::No)), [refused(1), vec![begin]].concat());
    let mut queue = LocalQueue::new();
    queue.joined([a_try()]);
    assert_eq!(queue.fine(Event::Behind), [refused(0), vec![Command::StopEntry]].concat());
}

#[test]
fn a_node_is_retained_while_it_is_the_sole_one() {
    let asks = vec![Command::AskWhetherSole, retain()];
    let waits = vec![Command::AwaitNews, retain()];
    let leaves = vec![Command::Delete(NODE)];
    let table = [
        ("not asked", FINE, Sole::NotAsked, asks),
        ("asked", FINE, Sole::Asked, vec![retain()]),
        ("sole", FINE, Sole::Yes, waits),
        ("not sole", FINE, Sole::No, leaves.clone()),
        ("fired", Conditions { unfired: false, ..FINE }, Sole::Yes, leaves.clone()),
        ("link", Conditions { same_connection: false, ..FINE }, Sole::Yes, leaves.clone()),
        ("given_up", Conditions { given_up: true, ..FINE }, Sole::Yes, leaves.clone()),
        ("closing", Conditions { closing: true, ..FINE }, Sole::Yes, leaves.clone()),
        ("no room to spare", Conditions { spare: false, ..FINE }, Sole::Yes, leaves.clone()),
        (
            "no lease: the watch on it ends that",
            Conditions { lease_lasts: false, ..FINE },
            Sole::Asked,
            vec![retain()],
        ),
    ];
    for (name, conditions, sole, commands) in table {
        let mut queue = LocalQueue::held_with(with_retention(), sole, true, vec![]);
        assert_eq!(queue.on(RELEASED, |_| conditions), commands, "{name}");
        assert_eq!(queue.state(), if commands == leaves { "none" } else { "retained" }, "{name}");
    }
    // As of a handle without retention, whose node passed to one with it.
    let mut queue = LocalQueue::new();
    queue.joined([with_retention()]);
    queue.fine(Event::First { node: NODE, sole: Sole::Yes, retainable: false });
    assert_eq!(queue.fine(RELEASED), leaves, "its name does not tell others that it may be kept");
}

/// Another client's readers come and go: one listing tells whether a writer came.
#[test]
fn the_node_of_readers_is_retained_until_a_writer_comes() {
    let retained = || {
        let reader = Waiter { shared: true, ..with_retention() };
        let mut queue = LocalQueue::held_with(reader, Sole::Yes, true, vec![]);
        assert_eq!(queue.fine(RELEASED), [Command::AwaitNews, retain()]);
        assert_eq!(queue.fine(Event::News { node: NODE }), [Command::AskWhetherSole]);
        assert_eq!(queue.fine(Event::News { node: NODE }), []);
        queue
    };
    let listed = |sole| Event::Listed { node: NODE, sole };
    assert_eq!(retained().fine(listed(true)), [Command::AwaitNews]);
    let ended = [Command::EndRetention, Command::Delete(NODE)];
    assert_eq!(retained().fine(listed(false)), ended);
    // A reader that comes meanwhile waits for the answer.
    let mut queue = retained();
    let reader = Waiter { shared: true, ..with_retention() };
    assert_eq!(queue.fine(joined(reader)), [Command::EndRetention]);
    assert_eq!(queue.fine(listed(true)), [Command::Begin { ticket: 1, hold: 2 }]);
}

#[test]
fn a_retained_node_is_taken_by_the_next_caller_or_ends() {
    let retained = |sole| {
        let mut queue = LocalQueue::held_with(with_retention(), sole, true, vec![]);
        queue.fine(RELEASED);
        queue
    };
    let ended = |then: Vec<Command>| [vec![Command::EndRetention], then].concat();
    let joined = || joined(waiter());
    let fired = Conditions { unfired: false, ..FINE };
    assert!(retained(Sole::Yes).is_kept());
    assert_eq!(retained(Sole::Yes).fine(joined()), ended(vec![NEXT]));
    assert_eq!(retained(Sole::Asked).fine(joined()), ended(vec![]));
    let anew = || vec![Command::Delete(NODE), create(1, true)];
    assert_eq!(retained(Sole::Yes).on(joined(), |_| fired), ended(anew()));
    let over = || Event::RetentionOver { node: NODE };
    assert_eq!(retained(Sole::Yes).fine(over()), ended(vec![Command::Delete(NODE)]));
    assert_eq!(retained(Sole::Yes).fine(Event::RetentionOver { node: NODE + 1 }), []);
    let listed = |sole| Event::Listed { node: NODE, sole };
    assert_eq!(retained(Sole::Asked).fine(listed(true)), [Command::AwaitNews]);
    assert_eq!(retained(Sole::Asked).on(listed(true), |_| fired), [Command::AwaitNews]);
    assert_eq!(retained(Sole::Asked).fine(listed(false)), ended(vec![Command::Delete(NODE)]));
    let mut taken = retained(Sole::Yes);
    taken.fine(joined());
    assert_eq!(taken.fine(over()), []);
}

#[test]
fn a_node_that_is_gone_is_followed_by_another_if_callers_wait() {
    let gone = || Event::NodeGone { node: NODE };
    let given_up = || Event::NodeGivenUp { node: NODE };
    let closing = Conditions { closing: true, ..FINE };
    let held = |waiters| LocalQueue::held_with(waiter(), Sole::Yes, true, waiters);
    assert_eq!(held(vec![]).fine(gone()), [Command::Forget(NODE)]);
    assert_eq!(held(vec![]).fine(given_up()), [Command::Delete(NODE)]);
    assert_eq!(held(vec![waiter()]).fine(given_up()), [Command::Delete(NODE), create(1, false)]);
    let refused = Command::Refuse(vec![1], Refusal::Closed);
    assert_eq!(held(vec![waiter()]).on(given_up(), |_| closing), [Command::Delete(NODE), refused]);
    assert_eq!(held(vec![]).fine(Event::NodeGone { node: NODE + 1 }), []);
    let mut queue = held(vec![waiter()]);
    queue.fine(gone());
    // The guard of the lost hold.
    assert_eq!(queue.fine(Event::Released { hold: 1, lost: true }), []);
}

#[test]
fn an_error_is_for_those_whose_node_would_be_the_same() {
    let mut queue = LocalQueue::new();
    queue.joined([waiter(), Waiter { node: other(), ..waiter() }, waiter()]);
    assert_eq!(queue.remove(|_, one| one.node == waiter().node), [0, 2]);
    assert_eq!(queue.fine(Event::AttemptEnded), []);
    assert_eq!((queue.state(), queue.first()), ("pause", Some(1)));
    assert_eq!(queue.remove(|_, _| true), [1]);
}
