//! Every recipe, and its options.

use std::panic::panic_any;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use zookeeper_recipes::group::{GroupObserver, Membership};
use zookeeper_recipes::interop::{ContenderFilter, Owner, Revoker, SharedCount};
use zookeeper_recipes::leader::LeaderObserver;
use zookeeper_recipes::{
    Hold, InterProcessMultiLock, InterProcessMutex, InterProcessReadWriteLock,
    InterProcessSemaphoreV2, OnceOutcome, SlotHold,
};

use crate::answers::acquired;
use crate::jobs::{LATE, Said};
use crate::judge::Access;
use crate::plan::Recipe;
use crate::simulated_task::{BODY_PANIC, Begun, Failed, Polled, SimulatedTask};
use crate::strangers::{curator_node, kazoo_node};

impl SimulatedTask {
    pub(crate) async fn work(mut self) {
        match self.recipe {
            Recipe::Mutex => self.mutex(ContenderFilter::Curator).await,
            Recipe::Shared if self.rng.bool() => self.stranger(curator_node).await,
            Recipe::Shared => self.mutex(ContenderFilter::Curator).await,
            Recipe::Kazoo if self.rng.bool() => self.stranger(kazoo_node).await,
            Recipe::Kazoo => self.mutex(ContenderFilter::Kazoo).await,
            Recipe::ReadWrite => self.read_write().await,
            Recipe::Semaphore(1) => {
                let lock = self.leases(1);
                self.rounds(&lock, Access::Alone).await;
            }
            Recipe::Semaphore(limit) => {
                let lock = self.leases(limit);
                self.semaphore(&lock, limit).await;
            }
            Recipe::Slots(count) => self.slots(count).await,
            Recipe::Multi => {
                let paths = [format!("{}/a", self.path), format!("{}/b", self.path)];
                let lock = self.curator.multi_lock(paths).expect("paths");
                self.multi_lock(&lock).await;
            }
            Recipe::Latch => self.latch().await,
            Recipe::Selector => self.selector().await,
            Recipe::Count => self.count().await,
            Recipe::Once => self.once().await,
            Recipe::Member => self.member().await,
        }
    }

    pub(crate) fn process_name(&self) -> String {
        self.name.split(" task").next().unwrap_or_default().to_owned()
    }

    async fn mutex(&mut self, filter: ContenderFilter) {
        let name = [self.process_name(), self.name.clone()][self.rng.usize(..2)].clone();
        let named = self.curator.with_identity(name.as_bytes());
        let mutex = named.mutex(&self.path).expect("a path");
        let mut mutex = mutex.with_filter(filter).expect("a filter");
        if self.run.plan.retains {
            mutex = mutex.with_retention(self.below(3_000));
        }
        if self.rng.u8(..8) == 0 {
            // Such a node cannot be kept.
            mutex = mutex.with_retention(Duration::ZERO).with_node_per_hold();
        }
        self.identity = Some(name);
        while !self.run.is_over() {
            self.pause().await;
            match self.rng.u8(..8) {
                0 => self.re_enters(&mutex).await,
                1 => self.asks_for_it(&mutex).await,
                2..5 => self.round(&mutex, Access::Alone).await,
                5 => {
                    let mut body = self.asks();
                    let run = mutex.run(async move |hold| {
                        body.fenced(&hold).await;
                        if body.rng.bool() { Ok(()) } else { Err(Failed::Body) }
                    });
                    self.acquires(Access::Alone, run).await;
                }
                _ => {
                    if let Some(guard) = self.acquires(Access::Alone, mutex.acquire()).await {
                        self.fenced(&guard).await;
                        if self.rng.bool() {
                            let view = guard.view();
                            self.releases(vec![guard.node().to_owned()], guard.release()).await;
                            self.writes_too_late(&view).await;
                        }
                    }
                }
            }
        }
    }

    /// One key after the other, with all tasks at the path.
    async fn once(&mut self) {
        let (base, mut key) = (self.path.clone(), 0);
        let named = self.curator.with_identity(self.name.as_bytes());
        while !self.run.is_over() {
            self.pause().await;
            let job = named.once(&base, format!("{key}")).expect("a path");
            let job = job.with_kept_keys(self.run.plan.kept);
            let record = format!("{base}/done/{key}");
            self.path = format!("{base}/runs/{key}");
            let (mut body, done) = (self.asks(), record.clone());
            let body = async move |hold: Hold| {
                body.run.judge.job_begins(&done, hold.node());
                let did = body.may_fail(vec![hold], Access::Alone).await;
                did.inspect(|()| body.run.judge.did(&done))
            };
            let once = if self.rng.bool() {
                self.acquires(Access::Alone, job.run(body)).await
            } else {
                self.tries(None, Access::Alone, job.try_run(body)).await
            };
            if let Some(once) = once {
                let said = match &once {
                    OnceOutcome::Ran(()) => Said::Ran,
                    OnceOutcome::AlreadyDone { by, .. } => Said::DoneBy(by),
                };
                self.run.judge.once(&record, &self.name, said);
                key += 1;
            }
        }
    }

    /// A hold within a hold of the same owner: one hold in all.
    async fn re_enters(&mut self, mutex: &InterProcessMutex) {
        let owner = Owner::new();
        let Some(outer) = self.acquires(Access::Alone, owner.scope(mutex.acquire())).await else {
            return;
        };
        let again = async { acquired(owner.scope(mutex.try_acquire()).await) };
        let inner = self.ends(again).await;
        if let Some(None) = inner
            && outer.is_held()
        {
            let failure = format!("hung: {} cannot re-enter {}", self.name, self.path);
            self.run.judge.fail(|counts| &mut counts.hung, failure);
        }
        drop(inner);
        self.fenced(&outer).await;
    }

    /// Asks the first contender to let go.
    async fn asks_for_it(&mut self, mutex: &InterProcessMutex) {
        if let Some(participants) = self.changes(mutex.participants()).await
            && let Some(first) = participants.first()
        {
            let revoker = Revoker::new(&self.curator);
            self.changes(revoker.attempt_revoke(&first.node)).await;
        }
    }

    /// A hold with fenced writes.
    async fn fenced(&mut self, hold: &Hold) {
        let data = format!("/data{}-data", self.path.replace('/', "-"));
        let begun = [self.begin_by(vec![hold.view()], Access::Alone)];
        let text = format!("{} {}", hold.fencing_token().value(), begun[0].number);
        for _ in 0..self.rng.u8(..3) {
            let written = hold.fenced().set(&data, text.as_bytes()).await;
            if self.written(written).is_none() {
                let created = hold.fenced().create(&data, text.as_bytes()).await;
                self.written(created);
            }
            self.run.judge.look(begun[0].number);
        }
        if self.rng.u8(..8) == 0 {
            // Until another client asks for it, but not for long.
            let limit = self.below(5_000);
            if timeout(limit, hold.revocation_requested()).await.is_ok() {
                self.run.judge.revoked(hold.node());
            }
        }
        self.hold(&begun).await;
        if self.rng.u8(..4) == 0 {
            // Under way while the lock is released.
            let (fenced, polls) = (hold.fenced(), self.rng.usize(1..4));
            let _ = Polled { future: pin!(fenced.set(&data, text.as_bytes())), polls }.await;
        }
    }

    /// A hold that was released writes no more, though the next one may have the same node.
    async fn writes_too_late(&mut self, hold: &Hold) {
        let data = format!("/data{}-data", self.path.replace('/', "-"));
        if self.later.bool() {
            let _ = hold.fenced().set(&data, LATE).await;
        }
    }

    /// Through both halves, and through guards.
    async fn read_write(&mut self) {
        // Half of the tasks share the nodes of their process.
        let name = [self.process_name(), self.name.clone()][self.rng.usize(..2)].clone();
        let named = self.curator.with_identity(name.as_bytes());
        let mut lock = named.read_write_lock(&self.path).expect("a path");
        if self.run.plan.retains {
            lock = lock.with_retention(self.below(3_000));
        }
        self.identity = Some(name);
        let (read, write) = (lock.read_half(), lock.write_half());
        while !self.run.is_over() {
            self.pause().await;
            match self.rng.u8(..10) {
                0 | 1 => self.round(&*write, Access::Alone).await,
                2 | 3 => self.writes(&lock).await,
                4 | 5 => self.downgraded(&lock).await,
                6 | 7 => self.round(&*read, Access::Shared).await,
                _ => self.reads(&lock).await,
            }
        }
    }

    async fn writes(&mut self, lock: &InterProcessReadWriteLock) {
        let limit = self.below(2_000);
        let asked = match self.rng.u8(..4) {
            0 => self.tries(None, Access::Alone, lock.try_write()).await,
            1 => self.tries(Some(limit), Access::Alone, lock.write_timeout(limit)).await,
            _ => self.acquires(Access::Alone, lock.write()).await,
        };
        if let Some(guard) = asked {
            self.held(guard.into(), Access::Alone).await;
        }
    }

    async fn reads(&mut self, lock: &InterProcessReadWriteLock) {
        let limit = self.below(2_000);
        let asked = match self.rng.u8(..4) {
            0 => self.tries(None, Access::Shared, lock.try_read()).await,
            1 => self.tries(Some(limit), Access::Shared, lock.read_timeout(limit)).await,
            _ => self.acquires(Access::Shared, lock.read()).await,
        };
        if let Some(guard) = asked {
            self.held(guard, Access::Shared).await;
        }
    }

    async fn downgraded(&mut self, lock: &InterProcessReadWriteLock) {
        let Some(write) = self.acquires(Access::Alone, lock.write()).await else { return };
        let written = self.below(self.run.plan.hold);
        sleep(written).await;
        if self.rng.u8(..16) == 0 {
            // An operator deletes the node, and the news of it is on its way.
            let admin = self.run.ensemble.admin().await;
            self.run.judge.operator_deletes(write.node());
            let _ = admin.delete(write.node(), None).await;
        }
        let Some(read) = self.ends(write.downgrade()).await else { return };
        self.held(read, Access::Shared).await;
    }

    fn leases(&mut self, limit: usize) -> InterProcessSemaphoreV2 {
        let lock = self.curator.semaphore(&self.path, limit).expect("a path");
        match self.run.plan.retains {
            true => lock.with_retention(self.below(3_000)),
            false => lock,
        }
    }

    async fn semaphore(&mut self, lock: &InterProcessSemaphoreV2, limit: usize) {
        let access = Access::UpTo(limit);
        while !self.run.is_over() {
            self.pause().await;
            if self.rng.bool() {
                self.round(lock, access).await;
                continue;
            }
            let (count, patience) = (self.rng.usize(1..=limit), self.below(2_000));
            self.wants = count;
            let asked = match self.rng.u8(..4) {
                0 => self.tries(None, access, lock.try_acquire_many(count)).await,
                1 => {
                    let many = lock.acquire_many_timeout(count, patience);
                    self.tries(Some(patience), access, many).await
                }
                _ => self.acquires(access, lock.acquire_many(count)).await,
            };
            if let Some(leases) = asked {
                self.held_all(leases, access).await;
            }
            self.wants = 1;
        }
    }

    async fn slots(&mut self, count: usize) {
        let access = Access::UpTo(count);
        while !self.run.is_over() {
            self.pause().await;
            let slots = self.curator.slots(&self.path, count).expect("a path");
            let slots = match self.rng.bool() {
                true => slots.prefer(self.rng.usize(..count)).expect("an index"),
                false => slots,
            };
            let limit = self.below(2_000);
            let asked = match self.rng.u8(..8) {
                0 | 1 => self.tries(None, access, slots.try_acquire()).await,
                2 | 3 => self.tries(Some(limit), access, slots.acquire_timeout(limit)).await,
                4 => {
                    let mut body = self.asks();
                    let run = slots.run(async move |slot| {
                        body.has(&slot).await;
                        if body.rng.bool() { Ok(()) } else { Err(Failed::Body) }
                    });
                    self.acquires(access, run).await;
                    continue;
                }
                _ => self.acquires(access, slots.acquire()).await,
            };
            let Some(slot) = asked else { continue };
            self.has(&slot).await;
            if self.rng.bool() {
                self.releases(vec![slot.node().to_owned()], slot.release()).await;
            }
        }
    }

    /// Holds a slot for a while: its index alone.
    async fn has(&mut self, slot: &SlotHold) {
        let mut at_index = self.fork();
        at_index.path = format!("{}/slots/{}", self.path, slot.index());
        let view = slot.view();
        let believes = Arc::new(move || view.is_held());
        // A slot is lost with its permit.
        let nodes = slot.holds().map(|hold| hold.node().to_owned()).into();
        let token = slot.fencing_token().value();
        let begun = [at_index.begin(nodes, Access::Alone, Some(token), believes)];
        at_index.hold(&begun).await;
    }

    async fn multi_lock(&mut self, lock: &InterProcessMultiLock) {
        while !self.run.is_over() {
            self.pause().await;
            let limit = self.below(2_000);
            let asked = match self.rng.u8(..4) {
                0 => self.tries(None, Access::Alone, lock.try_acquire()).await,
                1 => self.tries(Some(limit), Access::Alone, lock.acquire_timeout(limit)).await,
                2 => {
                    let mut body = self.asks();
                    let run =
                        lock.run(async move |holds| body.may_fail(holds, Access::Alone).await);
                    self.acquires(Access::Alone, run).await;
                    continue;
                }
                _ => self.acquires(Access::Alone, lock.acquire()).await,
            };
            if let Some(guards) = asked {
                self.held_all(guards, Access::Alone).await;
            }
        }
    }

    async fn latch(&mut self) {
        while !self.run.is_over() {
            self.pause().await;
            if self.rng.u8(..4) == 0 {
                let observer = self.curator.observe_leader(&self.path).expect("a path");
                self.observes(observer).await;
            }
            let latch = self.curator.leader_latch(&self.path).expect("a path");
            for _ in 0..self.rng.u8(1..4) {
                // A process that leads goes on, and looks now and then.
                if let Some(leadership) = self.acquires(Access::Alone, latch.leadership()).await {
                    self.leads_again(leadership).await;
                }
            }
            if self.rng.bool() {
                self.ends(latch.close()).await;
            }
        }
    }

    async fn observes(&mut self, mut observer: LeaderObserver) {
        let mut last = None;
        for _ in 0..self.rng.u8(..3) {
            let limit = self.below(10_000);
            let Ok(changed) = timeout(limit, observer.changed()).await else { continue };
            if let Ok(Some(leader)) = changed {
                let Some(token) = leader.fencing_token else { continue };
                self.run.judge.observes(&self.name, last, &leader.node, token.value());
                last = Some(token.value());
            }
        }
    }

    /// The same leadership is one hold, however often it is asked for; it may have begun long before.
    async fn leads_again(&mut self, leadership: Hold) {
        let nodes = vec![leadership.node().to_owned()];
        let token = Some(leadership.fencing_token().value());
        let believes = Arc::new(move || leadership.is_held());
        let begun = [self.begin(nodes, Access::Alone, token, believes).before()];
        self.hold(&begun).await;
        begun.into_iter().for_each(Begun::end);
    }

    async fn selector(&mut self) {
        let selector = self.curator.leader_selector(&self.path).expect("a path").auto_requeue();
        let grace = Duration::from_millis(self.later.u64(..3_000));
        let selector = if self.later.bool() { selector.with_grace(grace) } else { selector };
        // Each term has a worker of its own.
        let workers = Arc::new(Mutex::new(self.fork()));
        let terms = selector.run(async move |term: Hold| {
            let mut worker = workers.lock().unwrap_or_else(PoisonError::into_inner).fork();
            worker.under(vec![term], Access::Alone).await;
            if worker.later.u8(..8) == 0 {
                panic_any(BODY_PANIC);
            }
        });
        while !self.run.is_over() {
            let limit = self.below(20_000);
            if let Ok(None) = timeout(limit, terms.next_report()).await {
                // It has ended, as its retries have.
                sleep(limit).await;
            }
            match self.rng.u8(..8) {
                0 | 1 => drop(terms.step_down()),
                2 => self.observes(selector.observe()).await,
                _ => {}
            }
        }
        let _ = terms.close().await;
    }

    /// All tasks at the path have one id, so at most one of them is a member. The one that has joined may stay for several holds.
    async fn member(&mut self) {
        let group = self.path.clone();
        while !self.run.is_over() {
            self.pause().await;
            if self.rng.u8(..4) == 0 {
                let observer = self.curator.observe_group(&group).expect("a path");
                self.observes_group(observer).await;
            }
            let member = self.curator.group_member(&group, "one").expect("a path");
            let member = member.with_data(self.name.as_bytes());
            let Some(membership) = self.acquires(Access::Alone, member.join()).await else {
                continue;
            };
            for _ in 0..self.rng.u8(1..4) {
                let Some(hold) = self.acquires(Access::Alone, membership.joined()).await else {
                    break;
                };
                if self.rng.u8(..4) == 0 {
                    self.changes_data(&membership, &hold).await;
                }
                self.leads_again(hold).await;
            }
            if self.rng.bool() {
                self.ends(membership.leave()).await;
            }
        }
    }

    async fn observes_group(&mut self, mut observer: GroupObserver) {
        let mut last = None;
        for _ in 0..self.rng.u8(..3) {
            let limit = self.below(10_000);
            let Ok(Ok(members)) = timeout(limit, observer.changed()).await else { continue };
            let Some(member) = members.get("one") else { continue };
            let Some(token) = member.fencing_token else { continue };
            self.run.judge.observes(&self.name, last, &member.node, token.value());
            last = Some(token.value());
        }
        sleep(Duration::from_secs(3)).await;
        if let Some(members) = observer.members() {
            let token = members.get("one").and_then(|member| member.fencing_token);
            let node = format!("{}/one", self.path);
            self.run.judge.still_observes(&self.name, &node, token.map(|token| token.value()));
        }
    }

    /// A write that was confirmed is there, while the member holds.
    async fn changes_data(&mut self, membership: &Membership, hold: &Hold) {
        let data = format!("{} {}", self.name, self.rng.u8(..));
        let written = self.changes(membership.set_data(data.as_bytes())).await;
        // The server that is asked here may apply the write later than the one that confirmed it.
        sleep(Duration::from_millis(self.run.plan.apply_lag * 2)).await;
        // An operator may have deleted it, and the news is on its way. Another process may have one there.
        let own = self.curator.session_id().ok();
        let found = self.run.ensemble.node(hold.node()).filter(|(_, owner)| Some(*owner) == own);
        let Some((found, _)) = found.filter(|(found, _)| found != data.as_bytes()) else { return };
        if written.is_some() && hold.is_held() {
            let found = String::from_utf8_lossy(&found);
            let failure = format!("stale: {} wrote {data}, and there is {found}", self.name);
            self.run.judge.fail(|counts| &mut counts.stale, failure);
        }
    }

    /// Each raises the count by one. Its node is below the path, because a count does not begin at a node without data.
    async fn count(&mut self) {
        self.path = format!("{}/count", self.path);
        while !self.run.is_over() {
            let (curator, path) = (self.curator.clone(), self.path.clone());
            let starting = async { SharedCount::start(&curator, &path, 0).await };
            let Some(count) = self.changes(starting).await else {
                sleep(Duration::from_millis(100)).await;
                continue;
            };
            let followed = Instant::now();
            for _ in 0..50 {
                self.pause().await;
                if self.run.is_over() {
                    return;
                }
                let seen = count.versioned();
                let value = seen.value.wrapping_add(1);
                self.run.judge.sees(&self.name, &path, &seen, followed);
                let set = self.changes(count.try_set(&seen, value)).await;
                if let Some(is_set) = set {
                    self.run.judge.set(&self.name, &path, &seen, value, is_set);
                }
            }
        }
    }
}
