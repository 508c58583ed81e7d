//! A world: virtual milliseconds, what happens at which, random numbers, and the trace of what happened.

use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

use super::lane::Conn;
use super::link::LinkState;
use super::peer::Peer;
use super::process::{Process, Scheduler, locked};
use super::quorum::Wire;
use super::server::Server;

thread_local! {
    static HERE: RefCell<Option<Arc<World>>> = const { RefCell::new(None) };
}

/// So many polls within one virtual millisecond are a task that spins.
const SPIN: u64 = 200_000;

/// How long a process has run at the start: a clock does not begin at zero.
const BEFORE: Duration = Duration::from_secs(1000);

static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// What the ensemble is made of.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub(super) seed: u64,
    pub(super) servers: usize,
    /// ZooKeeper's `tickTime`.
    pub(super) tick: u64,
    pub(super) sync_limit: u64,
    pub(super) session_timeouts: RangeInclusive<u64>,
    /// How often empty containers are deleted.
    pub(super) reap_every: u64,
    /// How long a message takes.
    pub(super) latency: RangeInclusive<u64>,
    /// Newer servers (3.9) ask for READ before they tell whether a node is there.
    pub(super) exists_asks: bool,
    /// Whether the world picks the next task. Without that nothing is repeatable; a check of the checks.
    pub(super) ordered: bool,
}

pub(crate) struct World {
    pub(super) number: u64,
    pub(super) setting: Setting,
    began: Instant,
    state: Mutex<State>,
    order: Mutex<fastrand::Rng>,
    pub(super) scheduler: Scheduler,
    over: AtomicBool,
}

/// What is at the servers, on the way, and in the clients.
pub(super) struct State {
    pub(super) setting: Setting,
    /// Milliseconds since the start.
    pub(super) now: u64,
    pub(super) rng: fastrand::Rng,
    events: BTreeMap<(u64, u64), Event>,
    numbers: u64,
    pub(super) servers: Vec<Server>,
    pub(super) wires: BTreeMap<(usize, usize), Wire>,
    pub(super) conns: BTreeMap<u64, Conn>,
    pub(super) links: Vec<LinkState>,
    pub(super) peers: Vec<Peer>,
    pub(super) sessions: i64,
    pub(super) trace: Trace,
    /// Who is told of the log, and from where on.
    pub(super) observer: Option<Observer>,
    pub(super) observed: i64,
    /// Done outside the lock.
    pub(super) effects: Vec<Effect>,
}

pub(super) type Observer = Arc<dyn Fn(&Logged) + Send + Sync>;

/// What the servers' log says.
#[derive(Clone, Debug)]
#[doc(hidden)]
#[allow(clippy::exhaustive_enums)] // for the judge of this crate's own simulation
pub enum Logged {
    /// With the session that owns it.
    Created(String, i64),
    Deleted(String),
    Changed(String, Vec<u8>),
    SessionEnded(i64),
}

pub(super) type Effect = Box<dyn FnOnce() + Send>;

/// What happens at a certain time.
#[derive(Debug)]
pub(super) enum Event {
    /// The next message of a connection, to the server or to the client.
    Message {
        conn: u64,
        up: bool,
    },
    /// The next message between two servers.
    Wire {
        from: usize,
        to: usize,
    },
    /// The server applies what is committed.
    Apply {
        server: usize,
    },
    Elect {
        server: usize,
    },
    /// Each half tick.
    Tick,
    Reap,
    Dial {
        peer: usize,
        turn: u64,
    },
    Look {
        peer: usize,
        turn: u64,
    },
}

/// What happened, in a hash and, on demand, in words.
#[derive(Default)]
pub(super) struct Trace {
    hash: DefaultHasher,
    lines: Option<Vec<String>>,
    pub(super) panics: Vec<String>,
    pub(super) spins: usize,
}

impl State {
    pub(super) fn at(&mut self, time: u64, event: Event) {
        self.numbers += 1;
        self.events.insert((time.max(self.now), self.numbers), event);
    }

    pub(super) fn after(&mut self, time: u64, event: Event) {
        self.at(self.now + time, event);
    }

    pub(super) fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    pub(super) fn latency(&mut self) -> u64 {
        self.rng.u64(self.setting.latency.clone())
    }

    pub(super) fn note(&mut self, what: fmt::Arguments<'_>) {
        self.trace.note(self.now, what);
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Message { conn, up: true } => self.arrives_at_server(conn),
            Event::Message { conn, up: false } => self.arrives_at_client(conn),
            Event::Wire { from, to } => self.over_wire(from, to),
            Event::Apply { server } => self.apply(server),
            Event::Elect { server } => self.elect(server),
            Event::Tick => self.tick(),
            Event::Reap => self.reap(),
            Event::Dial { peer, turn } => self.dial(peer, turn),
            Event::Look { peer, turn } => self.look(peer, turn),
        }
    }
}

impl Trace {
    pub(super) fn note(&mut self, now: u64, what: fmt::Arguments<'_>) {
        struct Hashing<'a>(&'a mut DefaultHasher);
        impl Write for Hashing<'_> {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                self.0.write(text.as_bytes());
                Ok(())
            }
        }
        now.hash(&mut self.hash);
        let _ = Hashing(&mut self.hash).write_fmt(what); // it cannot fail
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{:>4}.{:03} {what}", now / 1000, now % 1000));
        }
    }
}

impl World {
    /// Makes this thread's world, and starts it.
    #[allow(clippy::disallowed_methods)] // it ends with the runtime, or with the ensemble
    pub(super) fn start(setting: Setting) -> Arc<Self> {
        let mut rng = fastrand::Rng::with_seed(setting.seed);
        let order = fastrand::Rng::with_seed(rng.u64(..));
        let servers = (0..setting.servers).map(|_| Server::new(setting.exists_asks)).collect();
        let state = State {
            now: 0,
            rng,
            events: BTreeMap::new(),
            numbers: 0,
            servers,
            wires: BTreeMap::new(),
            conns: BTreeMap::new(),
            links: Vec::new(),
            peers: Vec::new(),
            sessions: 0x1000,
            trace: Trace::default(),
            observer: None,
            observed: 0,
            effects: Vec::new(),
            setting: setting.clone(),
        };
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let world = Arc::new(Self {
            number,
            began: Instant::now(),
            state: Mutex::new(state),
            order: Mutex::new(order),
            scheduler: Scheduler::default(),
            over: AtomicBool::new(false),
            setting,
        });
        HERE.set(Some(world.clone()));
        world.change(|state| {
            state.begin();
            state.after(state.setting.tick / 2, Event::Tick);
            state.after(state.setting.reap_every, Event::Reap);
        });
        tokio::spawn(run(Arc::downgrade(&world)));
        world
    }

    pub(super) fn stop(&self) {
        self.over.store(true, Ordering::Relaxed);
        self.scheduler.wake();
        let is_here =
            HERE.with_borrow(|here| here.as_ref().is_some_and(|w| w.number == self.number));
        if is_here {
            HERE.set(None);
        }
    }

    /// This thread's world.
    pub(crate) fn here() -> Option<Arc<Self>> {
        HERE.with_borrow(Clone::clone)
    }

    pub(super) fn is_ordered(&self) -> bool {
        self.setting.ordered
    }

    fn millis(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Changes something, and then does what follows from it outside the lock.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let (changed, effects, is_earlier) = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.now = self.millis();
            let first = state.events.first_key_value().map(|(key, _)| *key);
            let changed = change(&mut state);
            let is_earlier = state.events.first_key_value().map(|(key, _)| *key) != first;
            (changed, std::mem::take(&mut state.effects), is_earlier)
        };
        effects.into_iter().for_each(|effect| effect());
        if is_earlier {
            self.scheduler.wake();
        }
        changed
    }

    pub(super) fn panicked(&self, panic: &(dyn Any + Send)) {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("?").to_owned();
        self.change(|state| {
            state.note(format_args!("panic: {text}"));
            state.trace.panics.push(text);
        });
    }

    pub(super) fn hash(&self) -> u64 {
        self.change(|state| state.trace.hash.finish())
    }

    pub(super) fn record(&self) {
        self.change(|state| state.trace.lines = Some(Vec::new()));
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.change(|state| state.trace.lines.clone().unwrap_or_default())
    }
}

/// What is to be done next, and when.
enum Step {
    Done,
    Idle(Option<u64>),
}

/// Lets one task run or one event happen, whichever the seed says.
fn step(world: &World, polls: &mut (u64, u64)) -> Step {
    let (next, now) =
        world.change(|state| (state.events.first_key_value().map(|(key, _)| key.0), state.now));
    let is_due = next.is_some_and(|time| time <= now);
    let ready = world.scheduler.count();
    if ready == 0 && !is_due {
        return Step::Idle(next);
    }
    if polls.0 != now {
        *polls = (now, 0);
    }
    polls.1 += 1;
    let nth = locked(&world.order).usize(..ready + usize::from(is_due));
    if nth == ready {
        world.change(|state| {
            if let Some((_, event)) = state.events.pop_first() {
                state.handle(event);
            }
        });
        return Step::Done;
    }
    let granted = world.scheduler.grant(nth);
    if polls.1 == SPIN {
        world.change(|state| {
            state.note(format_args!("spin: task {granted:?}"));
            state.trace.spins += 1;
        });
    }
    if polls.1 >= SPIN {
        // Time goes on all the same, so that the test ends.
        return Step::Idle(Some(now + 1));
    }
    Step::Done
}

async fn run(world: std::sync::Weak<World>) {
    let mut polls = (0, 0);
    loop {
        let Some(here) = world.upgrade() else { return };
        if here.over.load(Ordering::Relaxed) {
            return;
        }
        match step(&here, &mut polls) {
            Step::Done => {
                drop(here);
                let mut again = true;
                // Behind what was just woken. tokio's own `yield_now` would look for I/O first.
                std::future::poll_fn(|context| {
                    if std::mem::take(&mut again) {
                        context.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    Poll::Ready(())
                })
                .await;
            }
            Step::Idle(next) => {
                let until = next.map(|next| here.began + Duration::from_millis(next));
                let until = until.unwrap_or_else(|| Instant::now() + Duration::from_secs(3600));
                let mut waited = false;
                let woken = std::future::poll_fn(|context| {
                    if std::mem::replace(&mut waited, true) {
                        return Poll::Ready(());
                    }
                    here.scheduler.wait(context);
                    Poll::Pending
                });
                tokio::select! {
                    biased;
                    () = sleep_until(until) => {}
                    () = woken => {}
                }
            }
        }
    }
}

/// The time by the clock of the process that asks, in a simulation.
pub(crate) fn now() -> Option<Duration> {
    let elapsed = HERE.with_borrow(|world| world.as_ref().map(|world| world.began.elapsed()))?;
    Some(BEFORE + Process::current().map_or(elapsed, |process| process.time(elapsed)))
}

pub(crate) fn guid() -> Option<Uuid> {
    World::here().map(|world| world.change(|state| Uuid::from_u128(state.rng.u128(..))))
}

pub(crate) fn seed() -> Option<u64> {
    World::here().map(|world| world.change(|state| state.rng.u64(..)))
}
