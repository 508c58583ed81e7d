//! One line for each function: [`product`] calls it without a fault to learn its requests, then once
//! for every fault at every request, and once dropped at every await.

use std::any::Any;
use std::cell::Cell;
use std::fmt::Debug;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use zookeeper_recipes::group::Membership;
use zookeeper_recipes::session::ConnectionState;
use zookeeper_recipes::{Error, ErrorKind, Guard, Hold, Participant, Released, SlotGuard};
use zookeeper_recipes_dev::{Cut, Direction, Operation, Testbed, eventually, is_real, within};

use crate::support::case::{Case, Fault, Place, places};
use crate::support::fixture::FaultFixture;

/// What a call waits for comes so long after it.
pub(crate) const SOON: Duration = Duration::from_millis(500);

/// How long a request of the session's own work is awaited after the answer.
const LATE: Duration = Duration::from_secs(1);

/// How long a follower lags.
const LAG: Duration = Duration::from_millis(150);

/// What a function told its caller.
#[derive(Debug)]
pub(crate) enum Told {
    /// The lock is held.
    Holds(Guard),
    /// The lock is held, after one of ours whose delete may be on the way.
    Next(Guard),
    /// It is read.
    Reads(Guard),
    /// All of these are held.
    Leases(Vec<Guard>),
    /// The slot is held.
    Has(Box<SlotGuard>),
    /// It leads, as long as the second is there.
    Leads(Hold, Box<dyn Any>),
    /// The member's node is there, with these data, as long as the membership is.
    Joined(Hold, Membership, &'static [u8]),
    /// This node is deleted.
    Deleted(String),
    /// The data node has this data; `None`: it is not there.
    Data(Option<&'static [u8]>),
    /// This node is there, for good.
    Recorded(String),
    /// Nothing that must be true by now.
    Nothing,
}

impl Told {
    /// A release, or a close, of a contender with this node.
    pub(crate) fn released(node: Option<String>, outcome: Result<Released, Error>) -> Self {
        match outcome {
            Ok(Released::Confirmed) => node.map_or(Self::Nothing, Self::Deleted),
            Ok(Released::Pending) => Self::Nothing,
            Err(error) if error.kind() == ErrorKind::Lost => Self::Nothing,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn release(guard: Guard) -> Self {
        let node = guard.node().to_owned();
        Self::released(Some(node), guard.release().await)
    }

    /// What another client holds may be unknown, and is not acquired.
    pub(crate) fn busy<T: Debug>(acquired: Result<T, Error>) -> Self {
        assert!(acquired.is_err(), "more hold than may: {acquired:?}");
        Self::Nothing
    }

    /// Whoever is listed, the holder comes first.
    pub(crate) fn listed<E>(participants: Result<Vec<Participant>, E>, holder: &str) -> Self {
        if let Ok(participants) = participants {
            assert_eq!(participants.first().map(|first| first.node.as_str()), Some(holder));
        }
        Self::Nothing
    }
}

/// Calls, and in a moment does what the call waits for.
pub(crate) async fn meanwhile<T, U>(
    call: impl Future<Output = T>,
    then: impl AsyncFnOnce() -> U,
) -> T {
    let then = async {
        tokio::time::sleep(SOON).await;
        then().await
    };
    tokio::join!(call, then).0
}

/// A test for each function: its name, how to prepare it without faults, and how to call it.
macro_rules! products {
    ($product:ident: $($(#[$attribute:meta])* $name:ident: $ready:expr, $call:expr;)+) => {$(
        $(#[$attribute])*
        #[test]
        fn $name() {
            crate::product::$product(concat!(module_path!(), "::", stringify!($name)), $ready, $call);
        }
    )+};
}
pub(crate) use products;

/// Runs all cases of one function.
pub(crate) fn product<S>(
    name: &'static str,
    ready: impl AsyncFn(&FaultFixture) -> S,
    call: impl AsyncFn(S) -> Told,
) {
    Function { name, ready, call }.product(false);
}

/// In virtual time also a second layer: each fault at each request that follows a lost reply.
pub(crate) fn product_twice<S>(
    name: &'static str,
    ready: impl AsyncFn(&FaultFixture) -> S,
    call: impl AsyncFn(S) -> Told,
) {
    Function { name, ready, call }.product(!is_real());
}

/// Runs something in a time of its own, virtual unless the world is real.
fn run<T>(body: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().unwrap().block_on(body)
}

struct Function<R, C> {
    name: &'static str,
    ready: R,
    call: C,
}

/// What a case showed.
struct Ran {
    /// Since the fault, until the function returned.
    requests: Vec<Operation>,
    polls: usize,
    struck: bool,
}

impl<S, R: AsyncFn(&FaultFixture) -> S, C: AsyncFn(S) -> Told> Function<R, C> {
    fn product(&self, twice: bool) {
        let is_real = is_real();
        // It stays until the last case.
        let _server = is_real.then(|| run(async { Testbed::new().await.servers }));
        let (mut count, mut missed) = (0, 0);
        let mut case = |case| {
            let ran = run(self.case(case));
            assert!(ran.struck || is_real, "{}: {case:?}: the fault does not strike", self.name);
            count += 1;
            missed += usize::from(!ran.struck);
            ran
        };
        let mut faults = Fault::ALWAYS.to_vec();
        faults.extend(is_real.then_some(Fault::CutWithin));
        let calm = case(Case::Calm);
        for polls in 0..calm.polls {
            case(Case::Dropped { polls });
        }
        for place in places(&calm.requests) {
            for &fault in &faults {
                let ran = case(Case::At { place, fault });
                let later = if twice && fault == Fault::LostReply { ran.requests } else { vec![] };
                for then in places(&later) {
                    for &fault in &faults {
                        case(Case::After { lost: place, place: then, fault });
                    }
                }
            }
            if !is_real {
                case(Case::Lagging { place });
            }
        }
        let (polls, requests) = (calm.polls, calm.requests.len());
        println!(
            "fault product: {}: {count} cases ({polls} awaits, {requests} requests), {missed} without a strike",
            self.name
        );
    }

    /// In a world of its own.
    async fn case(&self, case: Case) -> Ran {
        let fixture = FaultFixture::new().await;
        fixture.scheduled(self.on(&fixture, case)).await
    }

    async fn on(&self, fixture: &FaultFixture, case: Case) -> Ran {
        let what = format!("{}: {case:?}", self.name);
        let ready = (self.ready)(fixture).await;
        fixture.settled().await;
        fixture.link.clear_log();
        let (polls, mut call) = (&Cell::new(0), Box::pin((self.call)(ready)));
        let mut calling = poll_fn(move |context| {
            polls.set(polls.get() + 1);
            call.as_mut().poll(context)
        });
        let (told, struck) = match case {
            Case::Calm => (Some(within(&what, calling).await), true),
            Case::Dropped { polls } => (dropped_after(polls, calling).await, true),
            Case::At { place, fault } => self.under(&what, fixture, fault, place, calling).await,
            Case::Lagging { place } => {
                (Some(self.behind(&what, fixture, place, calling).await), true)
            }
            Case::After { lost, place, fault } => {
                let first = fixture.link.lose(lost.reply());
                tokio::select! {
                    biased;
                    () = first.struck() => self.under(&what, fixture, fault, place, calling).await,
                    told = &mut calling => (Some(told), false),
                }
            }
        };
        let (requests, polls) = (fixture.link.log(), polls.get());
        self.check(&what, fixture, told).await;
        Ran { requests, polls, struck }
    }

    /// Calls it under a fault; gives what it told, unless it was dropped, and whether the fault struck.
    async fn under(
        &self,
        what: &str,
        fixture: &FaultFixture,
        fault: Fault,
        place: Place,
        mut calling: impl Future<Output = Told> + Unpin,
    ) -> (Option<Told>, bool) {
        let (link, request, reply) = (&fixture.link, place.request(), place.reply());
        let installed = match fault {
            Fault::LostRequest => link.lose(request),
            Fault::LostReply => link.lose(reply),
            Fault::CutWithin => link.cut_within(request),
            Fault::CutBehind => link.cut_at(request, Cut::Finish),
            Fault::Held | Fault::DeadLink | Fault::DroppedBeforeRequest => link.hold(request),
            Fault::DroppedBeforeReply => link.hold(reply),
        };
        let told = tokio::select! {
            biased;
            () = within(what, installed.struck()) => None,
            // A request of the session's own work may come after the answer.
            told = &mut calling => Some(told),
        };
        link.clear_log();
        if told.is_some() {
            let struck = tokio::time::timeout(LATE, installed.struck()).await.is_ok();
            return (told, struck);
        }
        if matches!(fault, Fault::DroppedBeforeRequest | Fault::DroppedBeforeReply) {
            drop(calling); // before the fault is healed
            return (None, true);
        }
        if fault == Fault::DeadLink {
            let _dead = link.stall(Direction::Both);
            let mut state = fixture.curator.watch_state();
            let over = |state: &ConnectionState| {
                matches!(state, ConnectionState::Lost | ConnectionState::Closed)
            };
            tokio::select! {
                biased;
                told = &mut calling => return (Some(told), true),
                _ = within(what, state.wait_for(over)) => {}
            }
        }
        let told = within(what, calling).await;
        if fault == Fault::Held {
            fixture.keep(installed);
        }
        (Some(told), true)
    }

    /// Calls it while the follower lags from this request on.
    async fn behind(
        &self,
        what: &str,
        fixture: &FaultFixture,
        place: Place,
        calling: impl Future<Output = Told>,
    ) -> Told {
        let held = fixture.link.hold(place.request());
        let lag = async {
            held.struck().await;
            let lags = fixture.lag().await;
            // What the follower does not hear of: another contender enters.
            fixture.rival_enters().await;
            drop(held);
            tokio::time::sleep(LAG).await;
            drop(lags);
        };
        within(what, async { tokio::join!(calling, lag) }).await.0
    }

    async fn check(&self, what: &str, fixture: &FaultFixture, told: Option<Told>) {
        // What the caller was told is what the server has, now.
        fixture.catch_up().await;
        let mut held: Option<Box<dyn Any>> = None;
        let holds = async |node: &str, is_held: &dyn Fn() -> bool| {
            let first = fixture.first().await;
            let there = first.as_deref() == Some(node);
            assert!(there || !is_held(), "{what}: holds, and the first is {first:?}");
        };
        match told {
            Some(Told::Holds(guard)) => {
                holds(guard.node(), &|| guard.is_held()).await;
                held = Some(Box::new(guard));
            }
            Some(Told::Reads(guard)) => {
                let may = fixture.may_read(guard.node()).await;
                assert!(may || !guard.is_held(), "{what}: reads, and may not");
                held = Some(Box::new(guard));
            }
            Some(Told::Next(guard)) => {
                // The delete of the one before is on the way.
                eventually(&format!("{what}: is the first"), async || {
                    fixture.first().await.as_deref() == Some(guard.node()) || !guard.is_held()
                })
                .await;
                held = Some(Box::new(guard));
            }
            Some(Told::Leases(leases)) => {
                for lease in &leases {
                    let there = fixture.has(lease.node()).await;
                    assert!(there || !lease.is_held(), "{what}: {} is not there", lease.node());
                }
                held = Some(Box::new(leases));
            }
            Some(Told::Has(slot)) => {
                let there = fixture.has(slot.node()).await;
                assert!(there || !slot.is_held(), "{what}: {} is not there", slot.node());
                held = Some(slot);
            }
            Some(Told::Leads(leadership, leads)) => {
                holds(leadership.node(), &|| leadership.is_held()).await;
                held = Some(leads);
            }
            Some(Told::Joined(hold, membership, wanted)) => {
                let data = fixture.data_of(hold.node()).await;
                let is_true = data.as_deref() == Some(wanted) || !hold.is_held();
                assert!(is_true, "{what}: holds, and the node has {data:?}");
                held = Some(Box::new(membership));
            }
            Some(Told::Deleted(node)) => {
                assert!(!fixture.has(&node).await, "{what}: {node} is not deleted");
            }
            Some(Told::Recorded(node)) => {
                assert!(fixture.has(&node).await, "{what}: {node} is not there");
            }
            Some(Told::Data(data)) => assert_eq!(fixture.data().await.as_deref(), data, "{what}"),
            Some(Told::Nothing) | None => {}
        }
        drop(held);
        fixture.rivals_are_done().await;
        // Nothing of ours is left: deleted, if the session lives, and not left to its end.
        let is_gone = async || fixture.children().await.is_empty();
        eventually(&format!("{what}: nothing is left"), is_gone).await;
        within(&format!("{what}: the next"), fixture.rival_in_turn()).await;
        // The session can be used, or another one.
        if fixture.curator.state() != ConnectionState::Closed {
            let closed = |state: &ConnectionState| *state == ConnectionState::Closed;
            match within(&format!("{what}: the same again"), fixture.ours_again()).await {
                // A `close` that was dropped still closes, and publishes its state at the end.
                Err(error) if error.kind() == ErrorKind::Closed => {
                    let mut state = fixture.curator.watch_state();
                    within(&format!("{what}: closed"), state.wait_for(closed)).await.unwrap();
                }
                again => again.unwrap_or_else(|error| panic!("{what}: {error:?}")),
            }
        }
        // It says whether it is confirmed; here it matters that it ends.
        let _ = within(&format!("{what}: close"), fixture.curator.close()).await;
        assert!(fixture.is_sound(), "{what}");
    }
}

/// Drops `future` after so many polls, unless it ends before.
pub(crate) async fn dropped_after<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
