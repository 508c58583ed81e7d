//! A world: the state of a simulation in virtual time, and the loop that runs its tasks and events one by one.

use std::any::Any;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

use super::process_state::ProcessState;
use super::scheduler::{Scheduler, locked};
use super::state::{Settings, State, millis};

thread_local! {
    static HERE: RefCell<Option<Arc<World>>> = const { RefCell::new(None) };
}

/// A task that causes this many polls within one virtual millisecond spins.
const SPIN: u64 = 200_000;

/// Reading of the clock at the start. A real clock does not begin at zero either.
const CLOCK_START: Duration = Duration::from_secs(1000);

static NUMBERS: AtomicU64 = AtomicU64::new(1);

pub(crate) struct World {
    pub(super) number: u64,
    began: Instant,
    state: Mutex<State>,
    /// Decides which task or event comes next.
    order: Mutex<fastrand::Rng>,
    pub(super) scheduler: Arc<Scheduler>,
    is_over: AtomicBool,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("number", &self.number).finish_non_exhaustive()
    }
}

impl World {
    /// Starts a world and makes it the world of this thread.
    #[allow(clippy::disallowed_methods)] // it ends with the runtime, or with the ensemble
    pub(super) fn start(settings: Settings) -> Arc<Self> {
        let mut rng = fastrand::Rng::with_seed(settings.seed);
        let order = fastrand::Rng::with_seed(rng.u64(..));
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let world = Arc::new(Self {
            number,
            began: Instant::now(),
            state: Mutex::new(State::new(number, settings, rng)),
            order: Mutex::new(order),
            scheduler: Arc::default(),
            is_over: AtomicBool::new(false),
        });
        HERE.set(Some(world.clone()));
        world.change(State::begin);
        tokio::spawn(run(Arc::downgrade(&world)));
        world
    }

    pub(super) fn stop(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.scheduler.wake_world();
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

    /// Changes the state, and runs the resulting effects outside the lock.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let (changed, effects, is_earlier) = {
            let mut state = locked(&self.state);
            state.events.set_now(millis(self.began.elapsed()));
            let first = state.events.next();
            let changed = change(&mut state);
            let is_earlier = state.events.next() != first;
            (changed, state.take_effects(), is_earlier)
        };
        effects.into_iter().for_each(|effect| effect());
        if is_earlier {
            self.scheduler.wake_world();
        }
        changed
    }

    pub(super) fn panicked(&self, panic: &(dyn Any + Send)) {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("?").to_owned();
        self.change(|state| {
            state.note(format_args!("panic: {text}"));
            state.recorded(|recording, now| recording.mark(now, format!("panic: {text}")));
            state.trace.add_panic(text);
        });
    }
}

enum Step {
    Done,
    /// No task may run and no event is due. The next event is at this time.
    Idle(Option<u64>),
}

/// The polls within one virtual millisecond.
#[derive(Default)]
struct Polls {
    now: u64,
    count: u64,
}

/// Runs one task or one event; the seed decides which.
fn step(world: &World, polls: &mut Polls) -> Step {
    let (next, now) = world.change(|state| (state.events.next(), state.events.now()));
    let next = next.map(|(time, _)| time);
    let is_due = next.is_some_and(|time| time <= now);
    let ready = world.scheduler.count();
    if ready == 0 && !is_due {
        return Step::Idle(next);
    }
    if polls.now != now {
        *polls = Polls { now, count: 0 };
    }
    polls.count += 1;
    let nth = locked(&world.order).usize(..ready + usize::from(is_due));
    if nth == ready {
        world.change(|state| {
            if let Some(event) = state.events.pop() {
                event(state);
            }
        });
        return Step::Done;
    }
    let granted = world.scheduler.grant(nth);
    if polls.count == SPIN {
        world.change(|state| {
            state.note(format_args!("spin: task {granted:?}"));
            state.trace.add_spin();
        });
    }
    if polls.count >= SPIN {
        // Time still advances, so that the test ends.
        return Step::Idle(Some(now + 1));
    }
    Step::Done
}

async fn run(world: std::sync::Weak<World>) {
    let mut polls = Polls::default();
    loop {
        let Some(here) = world.upgrade() else { return };
        if here.is_over.load(Ordering::Relaxed) {
            return;
        }
        match step(&here, &mut polls) {
            Step::Done => {
                drop(here);
                let mut again = true;
                // Yields to the task that was just woken. tokio's own `yield_now` would poll for I/O first.
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
                    () = here.scheduler.woken() => {}
                }
            }
        }
    }
}

/// The time by the clock of the current process, in a simulation.
pub(crate) fn now() -> Option<Duration> {
    let elapsed = HERE.with_borrow(|world| world.as_ref().map(|world| world.began.elapsed()))?;
    Some(CLOCK_START + ProcessState::current().time(elapsed))
}

pub(crate) fn guid() -> Option<Uuid> {
    World::here().map(|world| world.change(|state| Uuid::from_u128(state.rng.u128(..))))
}

pub(crate) fn seed() -> Option<u64> {
    World::here().map(|world| world.change(|state| state.rng.u64(..)))
}
