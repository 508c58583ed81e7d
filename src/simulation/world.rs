//! A world: the state of a simulation in virtual time, and the loop that lets one thing happen after the other.

use std::any::Any;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

use super::state::{Setting, State, millis};
use super::tasks::{Life, Scheduler, locked};

thread_local! {
    static HERE: RefCell<Option<Arc<World>>> = const { RefCell::new(None) };
}

/// So many polls within one virtual millisecond are a task that spins.
const SPIN: u64 = 200_000;

/// How long a process has run at the start: a clock does not begin at zero.
const BEFORE: Duration = Duration::from_secs(1000);

static NUMBERS: AtomicU64 = AtomicU64::new(1);

pub(crate) struct World {
    pub(super) number: u64,
    began: Instant,
    state: Mutex<State>,
    order: Mutex<fastrand::Rng>,
    pub(super) scheduler: Arc<Scheduler>,
    over: AtomicBool,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("number", &self.number).finish_non_exhaustive()
    }
}

impl World {
    /// Makes this thread's world, and starts it.
    #[allow(clippy::disallowed_methods)] // it ends with the runtime, or with the ensemble
    pub(super) fn start(setting: Setting) -> Arc<Self> {
        let mut rng = fastrand::Rng::with_seed(setting.seed);
        let order = fastrand::Rng::with_seed(rng.u64(..));
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let world = Arc::new(Self {
            number,
            began: Instant::now(),
            state: Mutex::new(State::new(number, setting, rng)),
            order: Mutex::new(order),
            scheduler: Arc::default(),
            over: AtomicBool::new(false),
        });
        HERE.set(Some(world.clone()));
        world.change(State::begin);
        tokio::spawn(run(Arc::downgrade(&world)));
        world
    }

    pub(super) fn stop(&self) {
        self.over.store(true, Ordering::Relaxed);
        self.scheduler.woken.notify_one();
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

    /// Changes something, and then does what follows from it outside the lock.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let (changed, effects, is_earlier) = {
            let mut state = locked(&self.state);
            state.now = millis(self.began.elapsed());
            let first = state.events.first_key_value().map(|(key, _)| *key);
            let changed = change(&mut state);
            let is_earlier = state.events.first_key_value().map(|(key, _)| *key) != first;
            (changed, std::mem::take(&mut state.effects), is_earlier)
        };
        effects.into_iter().for_each(|effect| effect());
        if is_earlier {
            self.scheduler.woken.notify_one();
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
                event(state);
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
                tokio::select! {
                    biased;
                    () = sleep_until(until) => {}
                    () = here.scheduler.woken.notified() => {}
                }
            }
        }
    }
}

/// The time by the clock of the process that asks, in a simulation.
pub(crate) fn now() -> Option<Duration> {
    let elapsed = HERE.with_borrow(|world| world.as_ref().map(|world| world.began.elapsed()))?;
    Some(BEFORE + Life::current().time(elapsed))
}

pub(crate) fn guid() -> Option<Uuid> {
    World::here().map(|world| world.change(|state| Uuid::from_u128(state.rng.u128(..))))
}

pub(crate) fn seed() -> Option<u64> {
    World::here().map(|world| world.change(|state| state.rng.u64(..)))
}
