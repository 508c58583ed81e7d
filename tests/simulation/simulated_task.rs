//! One task of a process: how it asks, and how it holds under the judge.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, panic_any, resume_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use fastrand::Rng;
use futures_util::FutureExt;
use tokio::time::{Instant, sleep, timeout};
use zookeeper_recipes::simulation::{Ensemble, Process};
use zookeeper_recipes::{Curator, Error, Guard, Guards, Hold, Lock, Released};

use crate::answers::{Ask, Cause, Patience, acquired};
use crate::judge::{self, Access, Judge};
use crate::plan::{Plan, Recipe};

/// What the tasks of a run share.
#[derive(Clone)]
pub(crate) struct Run {
    pub(crate) ensemble: Arc<Ensemble>,
    pub(crate) judge: Judge,
    pub(crate) plan: Arc<Plan>,
    pub(crate) stop: Arc<AtomicBool>,
}

impl Run {
    pub(crate) fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

pub(crate) fn path(number: usize) -> String {
    format!("/locks/{number}")
}

#[derive(Clone)]
pub(crate) struct SimulatedTask {
    pub(crate) run: Run,
    pub(crate) name: String,
    pub(crate) curator: Curator,
    pub(crate) process: Process,
    pub(crate) suspended: bool,
    /// Whether its retries have an end.
    pub(crate) retries: bool,
    pub(crate) recipe: Recipe,
    pub(crate) path: String,
    /// When the present hold was asked for, and by which name, if tasks take turns under one node.
    pub(crate) asked: Instant,
    pub(crate) identity: Option<String>,
    /// How many permits of a semaphore the task asks for.
    pub(crate) wants: usize,
    /// Whether the future that asked was left unpolled: what it holds by then may have begun long before.
    pub(crate) kept: Arc<AtomicBool>,
    pub(crate) rng: Rng,
    /// Draws what came later, so that the rest of a seed's work stays as it was.
    pub(crate) later: Rng,
}

/// A hold that the judge knows. Where this is dropped, the judge goes on until the library says that the hold is over.
pub(crate) struct Begun {
    judge: Judge,
    pub(crate) number: u64,
    name: String,
    believes: Believes,
    /// Since when nothing was wrong, when it began.
    quiet: Option<usize>,
}

pub(crate) type Believes = Arc<dyn Fn() -> bool + Send + Sync>;

impl Begun {
    /// The judge asks the library no more.
    pub(crate) fn end(self) {
        self.judge.end(self.number);
    }

    fn look_for_a_flap(&self) {
        let Self { judge, number, name, believes, quiet } = self;
        if !believes() && quiet.is_some() && *quiet == judge.quiet() && judge.stands(*number) {
            let failure = format!("flap: {name} while nothing was wrong");
            judge.fail(|counts| &mut counts.hung, failure);
        }
    }

    /// The hold may have begun long before.
    pub(crate) fn before(mut self) -> Self {
        self.quiet = None;
        self
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        // The body of a `run` is dropped at the moment of the loss.
        if self.judge.is_calm() {
            self.look_for_a_flap();
        }
        self.judge.leave(self.number);
    }
}

/// What a body under a lock returns.
pub(crate) enum Failed {
    /// The body's own error.
    Body,
    Lock(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Lock(error)
    }
}

/// What the body of a hold panics with.
pub(crate) const BODY_PANIC: &str = "a body's own panic";

pub(crate) fn is_of_body(panic: &(dyn Any + Send)) -> bool {
    panic.downcast_ref::<&str>() == Some(&BODY_PANIC)
}

/// The outcome of a body, which may panic.
async fn caught<T>(run: impl Future<Output = Result<T, Failed>>) -> Result<T, Failed> {
    match AssertUnwindSafe(run).catch_unwind().await {
        Ok(done) => done,
        Err(panic) if is_of_body(&*panic) => Err(Failed::Body),
        Err(panic) => resume_unwind(panic),
    }
}

fn views(guards: &Guards) -> Vec<Hold> {
    guards.iter().map(|guard| guard.view()).collect()
}

impl SimulatedTask {
    /// For the body of what this one holds.
    pub(crate) fn fork(&mut self) -> Self {
        let (rng, later) = (self.rng.fork(), self.later.fork());
        Self { rng, later, ..self.clone() }
    }

    /// For the body of what this one is about to ask for.
    pub(crate) fn asks(&mut self) -> Self {
        self.asked = Instant::now();
        self.fork()
    }

    pub(crate) fn below(&mut self, most: u64) -> Duration {
        Duration::from_millis(self.rng.u64(..most.max(1)))
    }

    pub(crate) async fn pause(&mut self) {
        self.run.judge.idles(&self.name);
        let pause = self.below(self.run.plan.pause);
        sleep(pause).await;
    }

    pub(crate) async fn rounds(&mut self, lock: &dyn Lock, access: Access) {
        while !self.run.is_over() {
            self.pause().await;
            self.round(lock, access).await;
        }
    }

    /// Asks for a lock in one of five ways, and holds it if it comes.
    pub(crate) async fn round(&mut self, lock: &dyn Lock, access: Access) {
        let limit = self.below(2_000);
        let asked = match self.rng.u8(..8) {
            0 | 1 => self.tries(None, access, lock.try_acquire()).await,
            2 | 3 => self.tries(Some(limit), access, lock.acquire_timeout(limit)).await,
            4 => {
                let mut body = self.asks();
                let with = lock.with(async move |hold| body.under(vec![hold], access).await);
                self.acquires(access, with).await;
                return;
            }
            5 => {
                let mut body = self.asks();
                let panics = self.later.u8(..8) == 0;
                let run = lock.run(async move |hold| {
                    let done = body.may_fail(vec![hold], access).await;
                    if panics {
                        panic_any(BODY_PANIC);
                    }
                    done
                });
                self.acquires(access, caught(run)).await;
                return;
            }
            _ => self.acquires(access, lock.acquire()).await,
        };
        if let Some(guard) = asked {
            self.held(guard, access).await;
        }
    }

    pub(crate) async fn held(&mut self, guard: Guard, access: Access) {
        if self.rng.u8(..4) == 0 {
            let mut body = self.fork();
            let run = guard.run(async move |hold| body.may_fail(vec![hold], access).await);
            self.ends(run).await;
            return;
        }
        self.under(vec![guard.view()], access).await;
        if self.rng.bool() {
            self.releases(vec![guard.node().to_owned()], guard.release()).await;
        }
    }

    pub(crate) async fn held_all(&mut self, guards: Guards, access: Access) {
        if self.rng.u8(..4) == 0 {
            let mut body = self.fork();
            let run = guards.run(async move |holds| body.may_fail(holds, access).await);
            self.ends(run).await;
            return;
        }
        self.under(views(&guards), access).await;
        if self.rng.bool() {
            let nodes = guards.iter().map(|guard| guard.node().to_owned()).collect();
            self.releases(nodes, guards.release()).await;
        }
    }

    /// A body that sometimes returns an error of its own.
    pub(crate) async fn may_fail(
        &mut self,
        holds: Vec<Hold>,
        access: Access,
    ) -> Result<(), Failed> {
        self.under(holds, access).await;
        if self.rng.bool() { Ok(()) } else { Err(Failed::Body) }
    }

    /// Holds for a while: all as one, but for leases, which the judge counts one by one.
    pub(crate) async fn under(&mut self, holds: Vec<Hold>, access: Access) {
        let begun: Vec<_> = match access {
            Access::UpTo(_) => {
                holds.into_iter().map(|hold| self.begin_by(vec![hold], access)).collect()
            }
            _ => vec![self.begin_by(holds, access)],
        };
        self.hold(&begun).await;
        if self.rng.bool() {
            begun.into_iter().for_each(Begun::end);
        }
    }

    pub(crate) fn begin_by(&mut self, holds: Vec<Hold>, access: Access) -> Begun {
        let nodes = holds.iter().map(|hold| hold.node().to_owned()).collect();
        let token = match holds.as_slice() {
            [hold] => Some(hold.fencing_token().value()),
            _ => None,
        };
        let believes = Arc::new(move || holds.iter().all(|hold| hold.is_held()));
        self.begin(nodes, access, token, believes)
    }

    pub(crate) fn begin(
        &mut self,
        nodes: Vec<String>,
        access: Access,
        token: Option<i64>,
        believes: Believes,
    ) -> Begun {
        // With the other policy the end of a disconnection takes the hold.
        let (now, kept) = (believes() && !self.suspended, self.kept.load(Ordering::Relaxed));
        // Several servers need some time to agree again after a trouble.
        let settled = self.run.plan.servers == 1 || self.run.judge.is_calm();
        let quiet = self.run.judge.quiet().filter(|_| now && !kept && settled);
        let seen = believes.clone();
        let number = self.run.judge.begin(judge::Hold {
            path: self.path.clone(),
            access,
            process: self.process.clone(),
            name: self.name.clone(),
            session: self.curator.session_id().unwrap_or_default(),
            nodes,
            token,
            asked: self.identity.clone().map(|identity| (self.asked, identity)),
            believes: Box::new(move || seen()),
        });
        let name = format!("{} lost {}", self.name, self.path);
        Begun { judge: self.run.judge.clone(), number, name, believes, quiet }
    }

    /// Holds for a while, and looks at each step.
    pub(crate) async fn hold(&mut self, begun: &[Begun]) {
        for _ in 0..self.rng.u8(..4) {
            let step = self.below(self.run.plan.hold);
            sleep(step).await;
            if begun.iter().any(|begun| !(begun.believes)()) {
                return begun.iter().for_each(Begun::look_for_a_flap);
            }
            begun.iter().for_each(|begun| self.run.judge.look(begun.number));
        }
    }

    /// Asks for a lock for as long as it takes.
    pub(crate) async fn acquires<T, E: Cause>(
        &mut self,
        access: Access,
        future: impl Future<Output = Result<T, E>>,
    ) -> Option<T> {
        self.calls(Patience::Forever, access, future).await
    }

    /// Asks for a lock, and waits at most for so long.
    pub(crate) async fn tries<T, E: Cause>(
        &mut self,
        limit: Option<Duration>,
        access: Access,
        future: impl Future<Output = Result<T, E>>,
    ) -> Option<T> {
        let patience = match limit {
            None => Patience::Try,
            Some(Duration::ZERO) => Patience::Zero,
            Some(limit) => Patience::Within(limit),
        };
        let future = async { acquired(future.await) };
        let tried = self.calls(patience, access, future).await?;
        if tried.is_none() {
            self.run.judge.busy(&self.name);
            self.run.judge.idles(&self.name);
        }
        tried
    }

    /// Writes data.
    pub(crate) async fn changes<T, E: Cause>(
        &mut self,
        future: impl Future<Output = Result<T, E>>,
    ) -> Option<T> {
        self.calls(Patience::Write, Access::Alone, future).await
    }

    async fn calls<T, E: Cause>(
        &mut self,
        patience: Patience,
        access: Access,
        future: impl Future<Output = Result<T, E>>,
    ) -> Option<T> {
        self.asked = Instant::now();
        let ask = Ask {
            process: self.process.clone(),
            member: self.process_name(),
            session: self.curator.session_id().unwrap_or_default(),
            access,
            contended: false,
            gives_up: self.retries,
            suspended: self.suspended,
            path: self.path.clone(),
            since: self.asked,
            patience,
            recipe: self.recipe,
            wants: self.wants,
            answered: false,
        };
        self.run.judge.asks(&self.name, ask);
        let done = self.awaited(future).await;
        if done.is_some() {
            self.run.judge.returns(&self.name, self.kept.load(Ordering::Relaxed));
        }
        let done = done.and_then(|done| self.judged(done));
        if done.is_none() {
            self.run.judge.idles(&self.name);
        }
        done
    }

    /// Awaits a call about what the task holds.
    pub(crate) async fn ends<T, E: Cause>(
        &mut self,
        future: impl Future<Output = Result<T, E>>,
    ) -> Option<T> {
        let done = self.awaited(future).await?;
        self.judged(done)
    }

    /// Releases what the task holds by these nodes.
    pub(crate) async fn releases(
        &mut self,
        nodes: Vec<String>,
        future: impl Future<Output = Result<Released, Error>>,
    ) {
        // Only these retain their nodes.
        let retains = self.identity.is_some() || matches!(self.recipe, Recipe::Semaphore(_));
        let is_kept = retains && self.run.plan.retains;
        let had_company = self.run.judge.has_company(&self.name);
        let Some(released) = self.ends(future).await else { return };
        let is_kept = is_kept
            || had_company
            || self.run.judge.has_company(&self.name)
            || self.kept.load(Ordering::Relaxed);
        self.run.judge.released(&self.name, &nodes, released, is_kept);
    }

    /// The value of a call. The judge looks at its error.
    fn judged<T, E: Cause>(&self, done: Result<T, E>) -> Option<T> {
        if let Some(error) = done.as_ref().err().and_then(Cause::error) {
            self.run.judge.failed(&self.name, error, None);
        }
        done.ok()
    }

    /// The value of a write under a lock. The judge looks at its error.
    pub(crate) fn written<T>(&self, done: Result<T, Error>) -> Option<T> {
        if let Err(error) = &done {
            self.run.judge.failed(&self.name, error, Some(Patience::Write));
        }
        done.ok()
    }

    /// Awaits it, or drops it after some time or at some poll, or leaves it unpolled for a while.
    async fn awaited<F: Future>(&mut self, future: F) -> Option<F::Output> {
        self.kept.store(false, Ordering::Relaxed);
        let mut future = pin!(future);
        let (limit, polls) = (self.below(3_000), self.rng.usize(..6));
        let done = match self.rng.u8(..8) {
            0 => timeout(limit, future).await.ok(),
            1 => Polled { future, polls }.await,
            2 => {
                let done = Polled { future: future.as_mut(), polls }.await;
                if done.is_some() {
                    return done;
                }
                self.kept.store(true, Ordering::Relaxed);
                sleep(limit).await;
                return Some(future.await);
            }
            _ => return Some(future.await),
        };
        if done.is_none() {
            self.run.judge.dropped();
        }
        done
    }
}

/// Is done after so many polls, with nothing if the future is not.
pub(crate) struct Polled<F> {
    pub(crate) future: F,
    pub(crate) polls: usize,
}

impl<F: Future + Unpin> Future for Polled<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.polls == 0 {
            return Poll::Ready(None);
        }
        self.polls -= 1;
        Pin::new(&mut self.future).poll(context).map(Some)
    }
}
