//! One line for each function: [`product`] calls it without a fault to learn its requests, then once
//! for every fault at every request, and once dropped at every await.

use std::any::Any;
use std::cell::RefCell;
use std::fmt::Debug;
use std::future::{Future, poll_fn};
use std::panic::resume_unwind;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::sync::{RwLock, Semaphore};
use tokio::task::LocalSet;
use zookeeper_recipes::{
    AcquireError, ConnectionState, Leadership, Lease, MutexGuard, Participant, ReadGuard,
    ReleaseError, SessionError, WriteGuard,
};
use zookeeper_testkit::{Cut, Direction, Operation};

use crate::case::{Case, Fault, Place, places};
use crate::harness::{eventually, within};
use crate::lagging::Lagging;
use crate::stage::Stage;

/// Cases of one function at the same time, on one server.
const AT_ONCE: usize = 12;

/// Read by each case and each lesson of all functions, written by a case that runs alone.
static ALONE: RwLock<()> = RwLock::const_new(());

/// How often a case runs alone whose fault has not struck: some requests are made by chance, at the caretaker's next look.
const TRIES: usize = 20;

/// How often a function's requests are learnt: the fewest count.
const LEARNT: usize = 3;

/// What a call waits for comes so long after it.
pub(crate) const SOON: Duration = Duration::from_millis(500);

/// How long a request of the session's own work is awaited after the answer.
const LATE: Duration = Duration::from_secs(1);

/// How long what is to go may take: a little less than a test that hangs.
const LEFT: Duration = Duration::from_secs(50);

/// How long a follower lags.
const LAG: Duration = Duration::from_millis(150);

/// What a function told its caller.
#[derive(Debug)]
pub(crate) enum Told {
    /// The lock is held.
    Holds(MutexGuard),
    /// The lock is held, after one of ours whose delete may be on the way.
    Next(MutexGuard),
    /// It is written.
    Writes(WriteGuard),
    /// It is read.
    Reads(ReadGuard),
    /// All of these are held.
    Leases(Vec<Lease>),
    /// It leads, as long as the second is there.
    Leads(Leadership, Box<dyn Any>),
    /// This node is deleted.
    Deleted(String),
    /// The data node has this data; `None`: it is not there.
    Data(Option<&'static [u8]>),
    /// Nothing that must be true by now.
    Nothing,
}

impl Told {
    /// A release, or a close, of a contender with this node.
    pub(crate) fn released<T>(node: Option<String>, outcome: Result<T, ReleaseError>) -> Self {
        match outcome {
            Ok(_) => node.map_or(Self::Nothing, Self::Deleted),
            Err(ReleaseError::Lost { .. } | ReleaseError::Unconfirmed { .. }) => Self::Nothing,
            Err(other) => panic!("{other:?}"),
        }
    }

    /// What another client holds may be unknown, and is not acquired.
    pub(crate) fn busy<T: Debug>(acquired: Result<Option<T>, AcquireError>) -> Self {
        assert!(!matches!(acquired, Ok(Some(_))), "more hold than may: {acquired:?}");
        Self::Nothing
    }

    /// Whoever is listed, the holder comes first.
    pub(crate) fn listed<E>(participants: Result<Vec<Participant>, E>, holder: &str) -> Self {
        if let Ok(participants) = participants {
            assert_eq!(participants.first().map(|first| first.path.as_str()), Some(holder));
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
        #[tokio::test]
        async fn $name() {
            crate::product::$product(concat!(module_path!(), "::", stringify!($name)), $ready, $call).await;
        }
    )+};
}
pub(crate) use products;

/// Whether the cases of `make test-all` run, too: the test was started with those that are ignored.
fn all_cases() -> bool {
    std::env::args().any(|argument| argument == "--include-ignored")
}

fn faults() -> impl Iterator<Item = Fault> {
    let cuts: &[Fault] = if all_cases() { &Fault::CUTS } else { &[] };
    Fault::ALWAYS.iter().chain(cuts).copied()
}

/// Runs all cases of one function and says how many there were.
pub(crate) async fn product<S: 'static>(
    name: &'static str,
    ready: impl AsyncFn(&Stage) -> S + 'static,
    call: impl AsyncFn(S) -> Told + 'static,
) {
    run(name, false, ready, call).await;
}

/// In `make test-all` also a second layer: each fault at each request that follows a lost reply.
pub(crate) async fn product_twice<S: 'static>(
    name: &'static str,
    ready: impl AsyncFn(&Stage) -> S + 'static,
    call: impl AsyncFn(S) -> Told + 'static,
) {
    run(name, all_cases(), ready, call).await;
}

async fn run<S: 'static>(
    name: &'static str,
    twice: bool,
    ready: impl AsyncFn(&Stage) -> S + 'static,
    call: impl AsyncFn(S) -> Told + 'static,
) {
    let function = Rc::new(Function { name, ready, call });
    // On a busy machine what looks after holds and leases makes some in between.
    let (mut requests, mut polls) = function.lesson(None).await;
    for _ in 1..LEARNT {
        let again = function.lesson(None).await;
        if again.0.len() < requests.len() {
            (requests, polls) = again;
        }
    }
    let mut cases = vec![Case::Calm];
    cases.extend((0..polls).map(|polls| Case::Dropped { polls }));
    for place in places(&requests) {
        cases.extend(faults().map(|fault| Case::At { place, fault }));
        if twice {
            let (later, _) = function.lesson(Some(place)).await;
            for then in places(&later) {
                let after = |fault| Case::After { lost: place, place: then, fault };
                cases.extend(faults().map(after));
            }
        }
    }
    let (room, count) = (Rc::new(Semaphore::new(AT_ONCE)), cases.len());
    let missed = Rc::new(RefCell::new(Vec::new()));
    let (set, mut running) = (LocalSet::new(), Vec::new());
    for case in cases {
        let (function, room, missed) = (function.clone(), room.clone(), missed.clone());
        running.push(set.spawn_local(async move {
            let _room = room.acquire().await.unwrap();
            let _beside = ALONE.read().await;
            if !function.run(Stage::new().await, case).await {
                missed.borrow_mut().push(case);
            }
        }));
    }
    // The set itself does not tell of a panic.
    if let Err(failed) = set.run_until(try_join_all(running)).await {
        resume_unwind(failed.into_panic());
    }
    // One follower lags for all, so one case after the other.
    let lagging: Vec<_> = places(&requests).map(|place| Case::Lagging { place }).collect();
    let count = count + lagging.len();
    let ensemble = Lagging::shared().await;
    for case in lagging {
        let _beside = ALONE.read().await;
        if !function.run(Stage::behind(&ensemble).await, case).await {
            missed.borrow_mut().push(case);
        }
    }
    let missed = missed.take();
    let requests = requests.len();
    println!(
        "fault product: {name}: {count} cases ({polls} awaits, {requests} requests), {} run again alone",
        missed.len()
    );
    for case in missed {
        function.run_alone(&ensemble, case).await;
    }
}

struct Function<R, C> {
    name: &'static str,
    ready: R,
    call: C,
}

impl<S, R: AsyncFn(&Stage) -> S, C: AsyncFn(S) -> Told> Function<R, C> {
    /// Learns beside others.
    async fn lesson(&self, lost: Option<Place>) -> (Vec<Operation>, usize) {
        let _beside = ALONE.read().await;
        self.learn(lost).await
    }

    /// Runs a case again whose fault did not strike: it strikes now, or the request is none that the function makes.
    async fn run_alone(&self, ensemble: &Arc<Lagging>, case: Case) {
        let _alone = ALONE.write().await;
        for _ in 0..TRIES {
            let stage = match case {
                Case::Lagging { .. } => Stage::behind(ensemble).await,
                _ => Stage::new().await,
            };
            if self.run(stage, case).await {
                return;
            }
        }
        let (place, lost) = match case {
            Case::At { place, .. } | Case::Lagging { place } => (place, None),
            Case::After { lost, place, .. } => (place, Some(lost)),
            Case::Calm | Case::Dropped { .. } => unreachable!("they have no fault"),
        };
        // Learnt on a busy machine, where a hold lasts long enough for its node to be looked after.
        let (requests, _) = self.learn(lost).await;
        let made = requests.iter().filter(|operation| **operation == place.operation).count();
        assert!(made < place.nth, "{}: {case:?}: the fault does not strike", self.name);
        println!("fault product: {}: {case:?}: no such request when it runs alone", self.name);
    }

    /// Which requests it makes (after a lost reply), and how often it is polled.
    async fn learn(&self, lost: Option<Place>) -> (Vec<Operation>, usize) {
        let stage = Stage::new().await;
        let ready = (self.ready)(&stage).await;
        stage.proxy.clear_log();
        let fault = lost.map(|place| stage.proxy.lose(place.reply()));
        let mut polls = 0;
        let mut calling = pin!((self.call)(ready));
        let mut calling = poll_fn(|context| {
            polls += 1;
            calling.as_mut().poll(context)
        });
        let struck = async {
            if let Some(fault) = &fault {
                fault.struck().await;
                stage.proxy.clear_log();
            }
        };
        let mut struck = pin!(struck);
        let told = within(self.name, async {
            tokio::select! {
                biased;
                () = &mut struck => calling.await,
                told = &mut calling => {
                    // A reply to the session's own work may come later, or never: that request was made by chance.
                    if tokio::time::timeout(LATE, struck).await.is_err() {
                        stage.proxy.clear_log();
                    }
                    told
                }
            }
        })
        .await;
        let mut requests = stage.proxy.log();
        if lost.is_none() {
            // Probes come when they come. A search behind a lost reply has a `sync` of its own.
            requests.retain(|operation| *operation != Operation::Sync);
        }
        drop(told);
        (requests, polls)
    }

    /// Whether the fault struck.
    async fn run(&self, stage: Stage, case: Case) -> bool {
        let what = format!("{}: {case:?}", self.name);
        let ready = (self.ready)(&stage).await;
        let mut calling = Box::pin((self.call)(ready));
        let (told, struck) = match case {
            Case::Calm => (Some(within(&what, calling).await), true),
            // How often it is polled differs from one time to the next: that it was too late is no miss.
            Case::Dropped { polls } => (dropped_after(polls, calling).await, true),
            Case::At { place, fault } => self.under(&what, &stage, fault, place, calling).await,
            Case::Lagging { place } => self.behind(&what, &stage, place, calling).await,
            Case::After { lost, place, fault } => {
                let first = stage.proxy.lose(lost.reply());
                tokio::select! {
                    biased;
                    () = first.struck() => self.under(&what, &stage, fault, place, calling).await,
                    told = &mut calling => (Some(told), false),
                }
            }
        };
        self.check(&what, &stage, told).await;
        struck
    }

    /// Calls it under a fault; gives what it told, unless it was dropped, and whether the fault struck.
    async fn under(
        &self,
        what: &str,
        stage: &Stage,
        fault: Fault,
        place: Place,
        mut calling: impl Future<Output = Told> + Unpin,
    ) -> (Option<Told>, bool) {
        let (proxy, request, reply) = (&stage.proxy, place.request(), place.reply());
        let installed = match fault {
            Fault::LostRequest => proxy.lose(request),
            Fault::LostReply => proxy.lose(reply),
            Fault::CutWithin => proxy.cut_within(request),
            Fault::CutBehind => proxy.cut_at(request, Cut::Finish),
            Fault::Held | Fault::DeadLink | Fault::DroppedBeforeRequest => proxy.hold(request),
            Fault::DroppedBeforeReply => proxy.hold(reply),
        };
        let told = tokio::select! {
            // A request of the session's own work may come after the answer.
            told = &mut calling => Some(told),
            () = within(what, installed.struck()) => None,
        };
        let told = match (told, fault) {
            (Some(told), _) => Some(told),
            (None, Fault::DroppedBeforeRequest | Fault::DroppedBeforeReply) => {
                drop(calling);
                None
            }
            (None, Fault::DeadLink) => {
                let dead = proxy.stall(Direction::Both);
                let mut state = stage.curator.watch_state();
                let over = |state: &ConnectionState| {
                    matches!(state, ConnectionState::Lost | ConnectionState::Closed)
                };
                let told = tokio::select! {
                    told = &mut calling => Some(told),
                    _ = within(what, state.wait_for(over)) => None,
                };
                drop(dead);
                match told {
                    Some(told) => Some(told),
                    None => Some(within(what, calling).await),
                }
            }
            (None, Fault::Held) => {
                let told = within(what, calling).await;
                // Not delivered any more: a server that lost track of the connection before would do it now.
                proxy.cut(Cut::Reset);
                Some(told)
            }
            (None, _) => Some(within(what, calling).await),
        };
        let _ = tokio::time::timeout(LATE, installed.struck()).await;
        (told, installed.strikes() > 0)
    }

    /// Calls it while the follower lags from this request on; gives what it told, and whether it came so far.
    async fn behind(
        &self,
        what: &str,
        stage: &Stage,
        place: Place,
        mut calling: impl Future<Output = Told> + Unpin,
    ) -> (Option<Told>, bool) {
        let held = stage.proxy.hold(place.request());
        tokio::select! {
            told = &mut calling => return (Some(told), held.strikes() > 0),
            () = within(what, held.struck()) => {}
        }
        let lag = async {
            let lags = stage.lag();
            // What the follower does not hear of: another contender enters.
            stage.rival_enters().await;
            held.heal();
            tokio::time::sleep(LAG).await;
            drop(lags);
        };
        let (told, ()) = within(what, async { tokio::join!(calling, lag) }).await;
        (Some(told), true)
    }

    async fn check(&self, what: &str, stage: &Stage, told: Option<Told>) {
        // What the caller was told is what the server has, now.
        stage.catch_up().await;
        let mut held: Option<Box<dyn Any>> = None;
        let holds = async |node: &str, is_held: &dyn Fn() -> bool| {
            let first = stage.first().await;
            let there = first.as_deref() == Some(node);
            assert!(there || !is_held(), "{what}: holds, and the first is {first:?}");
        };
        match told {
            Some(Told::Holds(guard)) => {
                holds(guard.node(), &|| guard.is_held()).await;
                held = Some(Box::new(guard));
            }
            Some(Told::Writes(guard)) => {
                holds(guard.node(), &|| guard.is_held()).await;
                held = Some(Box::new(guard));
            }
            Some(Told::Reads(guard)) => {
                let may = stage.may_read(guard.node()).await;
                assert!(may || !guard.is_held(), "{what}: reads, and may not");
                held = Some(Box::new(guard));
            }
            Some(Told::Next(guard)) => {
                // The delete of the one before is on the way.
                eventually(&format!("{what}: is the first"), async || {
                    stage.first().await.as_deref() == Some(guard.node()) || !guard.is_held()
                })
                .await;
                held = Some(Box::new(guard));
            }
            Some(Told::Leases(leases)) => {
                for lease in &leases {
                    let there = stage.has(lease.node()).await;
                    assert!(there || !lease.is_held(), "{what}: {} is not there", lease.node());
                }
                held = Some(Box::new(leases));
            }
            Some(Told::Leads(leadership, leads)) => {
                holds(leadership.node(), &|| leadership.is_held()).await;
                held = Some(leads);
            }
            Some(Told::Deleted(node)) => {
                assert!(!stage.has(&node).await, "{what}: {node} is not deleted");
            }
            Some(Told::Data(data)) => assert_eq!(stage.data().await.as_deref(), data, "{what}"),
            Some(Told::Nothing) | None => {}
        }
        drop(held);
        stage.rivals_are_done().await;
        // Nothing of ours is left: deleted, if the session lives, and not left to its end.
        let gone = eventually("nothing is left", async || stage.children().await.is_empty());
        if tokio::time::timeout(LEFT, gone).await.is_err() {
            panic!("{what}: left: {}", stage.left().await);
        }
        within(&format!("{what}: the next"), stage.rival_in_turn()).await;
        // The session can be used, or another one.
        if stage.curator.state() != ConnectionState::Closed {
            let closed = |state: &ConnectionState| *state == ConnectionState::Closed;
            match within(&format!("{what}: the same again"), stage.ours_again()).await {
                // A `close` that was dropped still closes, and publishes its state at the end.
                Err(AcquireError::Session { source: SessionError::Closed, .. }) => {
                    let mut state = stage.curator.watch_state();
                    within(&format!("{what}: closed"), state.wait_for(closed)).await.unwrap();
                }
                again => again.unwrap_or_else(|error| panic!("{what}: {error:?}")),
            }
        }
        // It says whether it is confirmed; here it matters that it ends.
        let _ = within(&format!("{what}: close"), stage.curator.close()).await;
        stage.forget_data().await;
    }
}

/// Drops `future` after so many polls, unless it ends before.
async fn dropped_after<F: Future>(polls: usize, future: F) -> Option<F::Output> {
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
