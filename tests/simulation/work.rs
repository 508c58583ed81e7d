//! What the processes do: every recipe, and strangers.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use fastrand::Rng;
use tokio::time::{Instant, sleep, timeout};
use zookeeper_recipes::simulation::{Admin, Ensemble, Process};
use zookeeper_recipes::zookeeper_client::{Acls, CreateMode, Error};
use zookeeper_recipes::{
    CloseMode, ContenderFilter, Curator, FencingToken, InterProcessLock, InterProcessMultiLock,
    InterProcessMutex, InterProcessReadWriteLock, InterProcessSemaphore,
    InterProcessSemaphoreMutex, LeaderLatch, LeaderSelector, Leadership, LockGuard, LossPolicy,
    MutexGuard, Owner, RetryPolicy, Revoker, SharedCount,
};

use crate::judge::{Access, Hold, Judge};
use crate::plan::{Member, Plan, Recipe};

/// What the tasks of a run share.
#[derive(Clone)]
pub(crate) struct Run {
    pub(crate) ensemble: Arc<Ensemble>,
    pub(crate) judge: Judge,
    pub(crate) plan: Arc<Plan>,
    pub(crate) stop: Arc<AtomicBool>,
}

/// A member of the plan that runs.
pub(crate) struct Running {
    pub(crate) process: Process,
    pub(crate) curator: Arc<std::sync::OnceLock<Curator>>,
    pub(crate) main: tokio::task::JoinHandle<()>,
}

pub(crate) fn path(number: usize) -> String {
    format!("/locks/{number}")
}

impl Run {
    pub(crate) fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Starts a member as a process.
    pub(crate) fn start(&self, number: usize, servers: &str) -> Running {
        let member = self.plan.processes[number].clone();
        let process = self.ensemble.process_with_clock(member.clock);
        let curator = Arc::<std::sync::OnceLock<Curator>>::default();
        let life = live(
            self.clone(),
            number,
            member,
            servers.to_owned(),
            process.clone(),
            curator.clone(),
        );
        let main = process.spawn(life);
        Running { process, curator, main }
    }
}

async fn live(
    run: Run,
    number: usize,
    member: Member,
    servers: String,
    process: Process,
    published: Arc<std::sync::OnceLock<Curator>>,
) {
    let policy = if member.suspended { LossPolicy::Suspended } else { LossPolicy::Lease };
    let curator = Curator::builder()
        .session_timeout(Duration::from_millis(member.session))
        .connection_timeout(Duration::from_secs(60))
        .identity(format!("process {number}"))
        .loss_policy(policy)
        .retry(RetryPolicy::forever(Duration::from_millis(200)))
        .start(&servers)
        .expect("options that work");
    let _ = published.set(curator.clone());
    let mut tasks = Vec::new();
    for (task, place) in member.tasks.iter().enumerate() {
        let seed = run.plan.seed ^ (u64::try_from(1 + number * 64 + task).unwrap_or(0) << 32);
        let worker = Worker {
            name: format!("process {number} task {task}"),
            curator: curator.clone(),
            process: process.clone(),
            suspended: member.suspended,
            quiet: None,
            recipe: run.plan.paths[*place],
            path: path(*place),
            asked: Instant::now(),
            identity: None,
            rng: Rng::with_seed(seed),
            run: run.clone(),
        };
        tasks.push(process.spawn(worker.work()));
    }
    for task in tasks {
        let _ = task.await;
    }
}

struct Worker {
    run: Run,
    name: String,
    curator: Curator,
    process: Process,
    suspended: bool,
    /// Since when nothing was wrong, when the present hold began.
    quiet: Option<usize>,
    recipe: Recipe,
    path: String,
    /// When the present hold was asked for, and by which name, if tasks take turns under one node.
    asked: Instant,
    identity: Option<String>,
    rng: Rng,
}

impl Worker {
    async fn work(mut self) {
        match self.recipe {
            Recipe::Mutex => self.mutex(ContenderFilter::Curator).await,
            Recipe::Shared if self.rng.bool() => self.stranger(curator_node).await,
            Recipe::Shared => self.mutex(ContenderFilter::Curator).await,
            Recipe::Kazoo if self.rng.bool() => self.stranger(kazoo_node).await,
            Recipe::Kazoo => self.mutex(ContenderFilter::Kazoo).await,
            Recipe::ReadWrite => self.read_write().await,
            Recipe::Semaphore(limit) => {
                let lock = InterProcessSemaphore::new(&self.curator, &self.path, limit);
                self.semaphore(&lock.expect("a path"), limit).await;
            }
            Recipe::SemaphoreMutex => {
                let lock = InterProcessSemaphoreMutex::new(&self.curator, &self.path);
                self.rounds(&lock.expect("a path"), Access::Alone).await;
            }
            Recipe::Multi => {
                let paths = [format!("{}/a", self.path), format!("{}/b", self.path)];
                let lock = InterProcessMultiLock::from_paths(&self.curator, paths);
                self.rounds(&lock.expect("paths"), Access::Alone).await;
            }
            Recipe::Latch => self.latch().await,
            Recipe::Selector => self.selector().await,
            Recipe::Count => self.count().await,
        }
    }

    fn process_name(&self) -> String {
        self.name.split(" task").next().unwrap_or_default().to_owned()
    }

    fn below(&mut self, most: u64) -> Duration {
        Duration::from_millis(self.rng.u64(..most.max(1)))
    }

    async fn pause(&mut self) {
        let pause = self.below(self.run.plan.pause);
        sleep(pause).await;
    }

    async fn mutex(&mut self, filter: ContenderFilter) {
        let mutex = InterProcessMutex::new(&self.curator, &self.path).expect("a path");
        let mut mutex = mutex.with_filter(filter).expect("a filter");
        if self.run.plan.retains {
            mutex = mutex.with_retention(self.below(3_000));
        }
        if self.rng.u8(..8) == 0 {
            mutex = mutex.with_node_per_hold();
        }
        let name = [self.process_name(), self.name.clone()][self.rng.usize(..2)].clone();
        let mutex = mutex.with_identity(name.as_bytes()).expect("a name");
        self.identity = Some(name);
        while !self.run.is_over() {
            self.pause().await;
            match self.rng.u8(..8) {
                0 => self.re_enters(&mutex).await,
                1 => self.asks_for_it(&mutex).await,
                2..5 => self.round(&mutex, Access::Alone).await,
                _ => {
                    if let Some(Ok(guard)) = self.awaited(mutex.acquire()).await {
                        self.fenced(guard).await;
                    }
                }
            }
        }
    }

    /// A hold within a hold of the same owner: one hold in all.
    async fn re_enters(&mut self, mutex: &InterProcessMutex) {
        let owner = Owner::new();
        let Some(Ok(outer)) = self.awaited(owner.scope(mutex.acquire())).await else { return };
        let asked = self.asked;
        let inner = self.awaited(owner.scope(mutex.try_acquire())).await;
        self.asked = asked;
        if let Some(Ok(None)) = inner
            && outer.is_held()
        {
            let failure = format!("hung: {} cannot re-enter {}", self.name, self.path);
            self.run.judge.fail(|counts| &mut counts.hung, failure);
        }
        self.fenced(outer).await;
    }

    /// Asks whoever is first to let go.
    async fn asks_for_it(&mut self, mutex: &InterProcessMutex) {
        if let Some(Ok(participants)) = self.awaited(mutex.participants()).await
            && let Some(first) = participants.first()
        {
            let revoker = Revoker::new(&self.curator);
            let _ = self.awaited(revoker.attempt_revoke(&first.path)).await;
        }
    }

    async fn semaphore(&mut self, lock: &InterProcessSemaphore, limit: usize) {
        while !self.run.is_over() {
            self.pause().await;
            if limit == 1 || self.rng.bool() {
                self.round(lock, Access::UpTo(limit)).await;
                continue;
            }
            let count = self.rng.usize(1..=limit);
            let acquired = match self.rng.bool() {
                true => self.awaited(lock.try_acquire_many(count)).await,
                false => self.awaited(lock.acquire_many(count)).await.map(|held| held.map(Some)),
            };
            let Some(Ok(Some(leases))) = acquired else { continue };
            let mut holds = Vec::new();
            for lease in leases {
                let lease = Arc::new(lease);
                let weak = Arc::downgrade(&lease);
                let believes = move || weak.upgrade().is_some_and(|lease| lease.is_held());
                let nodes = vec![lease.node().to_owned()];
                let access = Access::UpTo(limit);
                holds.push((self.begin(nodes, access, None, Box::new(believes)), lease));
            }
            let step = self.below(self.run.plan.hold);
            sleep(step).await;
            for (hold, lease) in holds {
                self.run.judge.look(hold);
                self.run.judge.end(hold);
                drop(lease);
            }
        }
    }

    /// A hold with fenced writes.
    async fn fenced(&mut self, guard: MutexGuard) {
        let guard = Arc::new(guard);
        let data = format!("/data{}-data", self.path.replace('/', "-"));
        let token = guard.fencing_token().value();
        let weak = Arc::downgrade(&guard);
        let believes = move || weak.upgrade().is_some_and(|guard| guard.is_held());
        let nodes = vec![guard.node().to_owned()];
        let hold = self.begin(nodes, Access::Alone, Some(token), Box::new(believes));
        for _ in 0..self.rng.u8(..3) {
            let written = guard.fenced().set(&data, token.to_string().as_bytes()).await;
            if written.is_err() {
                let _ = guard.fenced().create(&data, token.to_string().as_bytes()).await;
            }
            self.run.judge.look(hold);
        }
        if self.rng.u8(..8) == 0 {
            // Until somebody asks for it, but not for long.
            let limit = self.below(5_000);
            if let Ok(Ok(())) = timeout(limit, guard.revocation_requested()).await {
                self.run.judge.revoked(guard.node());
            }
        }
        self.hold(hold, || guard.is_held()).await;
        if self.rng.u8(..4) == 0 {
            // Under way while the lock is released.
            let (fenced, polls) = (guard.fenced(), self.rng.usize(1..4));
            let _ = Polled { future: pin!(fenced.set(&data, token.to_string().as_bytes())), polls }
                .await;
        }
        self.run.judge.end(hold);
        if let Some(guard) = Arc::into_inner(guard)
            && self.rng.bool()
        {
            let _ = self.awaited(guard.release()).await;
        }
    }

    async fn read_write(&mut self) {
        let lock = InterProcessReadWriteLock::new(&self.curator, &self.path).expect("a path");
        while !self.run.is_over() {
            self.pause().await;
            match self.rng.u8(..5) {
                0 | 1 => self.round(&lock.write(), Access::Alone).await,
                2 => self.downgraded(&lock).await,
                _ => self.round(&lock.read(), Access::Shared).await,
            }
        }
    }

    async fn downgraded(&mut self, lock: &InterProcessReadWriteLock) {
        let Some(Ok(write)) = self.awaited(lock.write().acquire()).await else { return };
        let written = self.below(self.run.plan.hold);
        sleep(written).await;
        let Some(Ok(read)) = self.awaited(write.downgrade()).await else { return };
        let read: Box<dyn LockGuard> = Box::new(read);
        self.held(read, Access::Shared).await;
    }

    async fn rounds(&mut self, lock: &dyn InterProcessLock, access: Access) {
        while !self.run.is_over() {
            self.pause().await;
            self.round(lock, access).await;
        }
    }

    async fn round(&mut self, lock: &dyn InterProcessLock, access: Access) {
        let limit = self.below(2_000);
        let acquired = match self.rng.u8(..4) {
            0 => self.awaited(lock.try_acquire()).await,
            1 => self.awaited(lock.acquire_timeout(limit)).await,
            _ => self.awaited(lock.acquire()).await.map(|acquired| acquired.map(Some)),
        };
        if let Some(Ok(Some(guard))) = acquired {
            self.held(guard, access).await;
        }
    }

    async fn held(&mut self, guard: Box<dyn LockGuard>, access: Access) {
        let guard = Arc::new(guard);
        let weak = Arc::downgrade(&guard);
        let believes = move || weak.upgrade().is_some_and(|guard| guard.is_held());
        let token = guard.fencing_token().map(FencingToken::value);
        let hold = self.begin(nodes_of(&**guard), access, token, Box::new(believes));
        self.hold(hold, || guard.is_held()).await;
        self.run.judge.end(hold);
        if let Some(guard) = Arc::into_inner(guard)
            && self.rng.bool()
        {
            let _ = self.awaited(guard.release()).await;
        }
    }

    fn begin(
        &mut self,
        nodes: Vec<String>,
        access: Access,
        token: Option<i64>,
        believes: Box<dyn Fn() -> bool + Send>,
    ) -> u64 {
        // With the other policy the end of a disconnection takes the hold.
        self.quiet = self.run.judge.quiet().filter(|_| believes() && !self.suspended);
        self.run.judge.begin(Hold {
            path: self.path.clone(),
            access,
            process: self.process.clone(),
            name: self.name.clone(),
            session: self.curator.session_id().unwrap_or_default(),
            nodes,
            token,
            asked: self.identity.clone().map(|identity| (self.asked, identity)),
            believes,
        })
    }

    /// Holds for a while, and looks at each step.
    async fn hold(&mut self, hold: u64, is_held: impl Fn() -> bool) {
        let quiet = self.quiet;
        for _ in 0..self.rng.u8(..4) {
            let step = self.below(self.run.plan.hold);
            sleep(step).await;
            if !is_held() {
                if quiet.is_some() && quiet == self.run.judge.quiet() && self.run.judge.stands(hold)
                {
                    let failure =
                        format!("flap: {} lost {} while nothing was wrong", self.name, self.path);
                    self.run.judge.fail(|counts| &mut counts.hung, failure);
                }
                return;
            }
            self.run.judge.look(hold);
        }
    }

    /// Awaits it, or drops it after some time or at some poll, or leaves it unpolled for a while.
    async fn awaited<F: Future>(&mut self, future: F) -> Option<F::Output> {
        self.asked = Instant::now();
        let mut future = pin!(future);
        let (limit, polls) = (self.below(3_000), self.rng.usize(..6));
        match self.rng.u8(..8) {
            0 => {
                let done = timeout(limit, future).await.ok();
                if done.is_none() {
                    self.run.judge.dropped();
                }
                done
            }
            1 => {
                let done = Polled { future, polls }.await;
                if done.is_none() {
                    self.run.judge.dropped();
                }
                done
            }
            2 => {
                let done = Polled { future: future.as_mut(), polls }.await;
                if done.is_some() {
                    return done;
                }
                sleep(limit).await;
                Some(future.await)
            }
            _ => Some(future.await),
        }
    }

    async fn leads(&mut self, leadership: Leadership) {
        let token = leadership.fencing_token().value();
        let nodes = vec![leadership.node().to_owned()];
        let (seen, own) = (leadership.clone(), leadership);
        let hold = self.begin(nodes, Access::Alone, Some(token), Box::new(move || seen.is_held()));
        self.hold(hold, || own.is_held()).await;
        self.run.judge.end(hold);
    }

    async fn latch(&mut self) {
        while !self.run.is_over() {
            self.pause().await;
            let latch = LeaderLatch::new(&self.curator, &self.path).expect("a path");
            if self.rng.u8(..4) == 0 {
                self.observes(&latch).await;
            }
            if latch.start().is_err() {
                continue;
            }
            for _ in 0..self.rng.u8(1..4) {
                // A process that leads goes on, and looks now and then.
                if let Some(Ok(leadership)) = self.awaited(latch.await_leadership()).await {
                    self.leads_again(leadership).await;
                }
            }
            let mode = if self.rng.bool() { CloseMode::Silent } else { CloseMode::NotifyLeader };
            if self.rng.bool() {
                let _ = self.awaited(latch.close_with(mode)).await;
            }
        }
    }

    async fn observes(&mut self, latch: &LeaderLatch) {
        let mut observer = latch.observe();
        for _ in 0..self.rng.u8(..3) {
            let limit = self.below(10_000);
            let _ = timeout(limit, observer.changed()).await;
        }
    }

    /// The same leadership is one hold, however often it is asked for.
    async fn leads_again(&mut self, leadership: Leadership) {
        let nodes = vec![leadership.node().to_owned()];
        let (seen, own) = (leadership.clone(), leadership);
        let hold = self.begin(nodes, Access::Alone, None, Box::new(move || seen.is_held()));
        // It may have begun long before.
        self.quiet = None;
        self.hold(hold, || own.is_held()).await;
        self.run.judge.end(hold);
    }

    async fn selector(&mut self) {
        let (run, name, suspended) = (self.run.clone(), self.name.clone(), self.suspended);
        let (curator, process, path) =
            (self.curator.clone(), self.process.clone(), self.path.clone());
        let seeds = Arc::new(std::sync::Mutex::new(Rng::with_seed(self.rng.u64(..))));
        let selector =
            LeaderSelector::new(&self.curator, &self.path).expect("a path").auto_requeue();
        let body = move |leadership: Leadership| {
            let seed = seeds.lock().map(|mut seeds| seeds.u64(..)).unwrap_or(0);
            let mut term = Worker {
                run: run.clone(),
                name: name.clone(),
                curator: curator.clone(),
                process: process.clone(),
                suspended,
                quiet: None,
                recipe: Recipe::Selector,
                path: path.clone(),
                asked: Instant::now(),
                identity: None,
                rng: Rng::with_seed(seed),
            };
            async move { term.leads(leadership).await }
        };
        let terms = selector.run(body);
        while !self.run.is_over() {
            let limit = self.below(20_000);
            let _ = timeout(limit, terms.next()).await;
            if self.rng.u8(..4) == 0 {
                terms.interrupt_leadership();
            }
        }
        let _ = terms.close().await;
    }

    /// Each raises the count by one; what it comes to is at least what was confirmed.
    async fn count(&mut self) {
        let (curator, path) = (self.curator.clone(), self.path.clone());
        let starting = async { SharedCount::start(&curator, &path, 0).await };
        let Some(Ok(count)) = self.awaited(starting).await else {
            return sleep(Duration::from_millis(100)).await;
        };
        while !self.run.is_over() {
            self.pause().await;
            let seen = count.versioned();
            let _ = self.awaited(count.try_set(&seen, seen.value.wrapping_add(1))).await;
        }
    }

    /// Follows another client's steps: creates, lists until it is the first, deletes. It has no lease.
    async fn stranger(&mut self, name: fn(&mut Rng) -> String) {
        while !self.run.is_over() {
            // A new session each time: the last one may have expired.
            let admin = self.run.ensemble.admin().await;
            self.pause().await;
            let prefix = name(&mut self.rng);
            let node = format!("{}/{prefix}", self.path);
            let mode = CreateMode::EphemeralSequential;
            let created = admin.create(&node, b"stranger", mode, &Acls::anyone_all()).await;
            let node = match created {
                Ok((node, _)) => Some(node),
                Err(_) => self.found(&admin, &prefix).await,
            };
            let Some(node) = node else {
                // An operator may have deleted the path.
                let mode = CreateMode::Container;
                let _ = admin.create(&self.path, b"", mode, &Acls::anyone_all()).await;
                continue;
            };
            self.first(&admin, &node).await;
            while admin.delete(&node, None).await.is_err() && self.run.judge.has(&node) {
                sleep(Duration::from_millis(100)).await;
            }
        }
    }

    /// The node of a create that was not answered, if there is one.
    async fn found(&self, admin: &Admin, prefix: &str) -> Option<String> {
        loop {
            let listed = match admin.sync().await {
                Ok(()) => admin.list_children(&self.path).await,
                Err(error) => Err(error),
            };
            match listed {
                Ok(children) => {
                    let own = children.into_iter().find(|child| child.starts_with(prefix))?;
                    return Some(format!("{}/{own}", self.path));
                }
                Err(Error::NoNode | Error::SessionExpired) => return None,
                Err(_) => {}
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    async fn first(&mut self, admin: &Admin, node: &str) {
        let own = node.rsplit('/').next().unwrap_or_default().to_owned();
        loop {
            let mut children = match admin.list_children(&self.path).await {
                Ok(children) => children,
                Err(Error::NoNode | Error::SessionExpired) => return,
                Err(_) => {
                    sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            children.sort_by_key(|child| {
                child
                    .chars()
                    .rev()
                    .take(10)
                    .collect::<Vec<_>>()
                    .into_iter()
                    .rev()
                    .collect::<String>()
            });
            if !children.contains(&own) {
                return;
            }
            if children.first() == Some(&own) {
                break;
            }
            sleep(Duration::from_millis(20)).await;
        }
        let (judge, there) = (self.run.judge.clone(), node.to_owned());
        let is_there = move || judge.has(&there);
        // Its session ends with its node.
        let hold = self.begin(Vec::new(), Access::Alone, None, Box::new(is_there));
        let (judge, there) = (self.run.judge.clone(), node.to_owned());
        self.hold(hold, || judge.has(&there)).await;
        self.run.judge.end(hold);
    }
}

fn nodes_of(guard: &dyn LockGuard) -> Vec<String> {
    let members = guard.members().iter().flat_map(|member| nodes_of(&**member));
    guard.node().map(str::to_owned).into_iter().chain(members).collect()
}

fn guid(rng: &mut Rng) -> String {
    let bits = rng.u128(..);
    format!(
        "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
        bits >> 96,
        (bits >> 80) & 0xffff,
        (bits >> 64) & 0xfff,
        (bits >> 48) & 0xfff,
        bits & 0xffff_ffff_ffff
    )
}

fn curator_node(rng: &mut Rng) -> String {
    format!("_c_{}-lock-", guid(rng))
}

fn kazoo_node(rng: &mut Rng) -> String {
    format!("{}__lock__", guid(rng).replace('-', ""))
}

/// Is done after so many polls, with nothing if the future is not.
struct Polled<F> {
    future: F,
    polls: usize,
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
