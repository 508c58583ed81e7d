//! The processes of a run, and their tasks.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fastrand::Rng;
use tokio::time::Instant;
use zookeeper_recipes::Curator;
use zookeeper_recipes::interop::LossPolicy;
use zookeeper_recipes::session::RetryPolicy;
use zookeeper_recipes::simulation::Process;
use zookeeper_recipes::zookeeper_client::{Acl, Acls, AuthId, Permission};

use crate::plan::Member;
use crate::simulated_task::{Run, SimulatedTask, path};

/// A member of the plan that runs.
pub(crate) struct Running {
    pub(crate) process: Process,
    pub(crate) curator: Arc<OnceLock<Curator>>,
    pub(crate) main: tokio::task::JoinHandle<()>,
}

impl Run {
    /// Starts a member as a process.
    pub(crate) fn start(&self, number: usize, servers: &str) -> Running {
        let member = self.plan.processes[number].clone();
        let process = self.ensemble.process_with_clock(member.clock);
        let process = process.named(format!("process {number}"));
        let curator = Arc::<OnceLock<Curator>>::default();
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
    published: Arc<OnceLock<Curator>>,
) {
    let policy = if member.suspended { LossPolicy::Suspended } else { LossPolicy::Lease };
    let curator = Curator::builder()
        .session_timeout(Duration::from_millis(member.session))
        .connection_timeout(Duration::from_secs(60))
        .identity(format!("process {number}"))
        .loss_policy(policy)
        .retry(RetryPolicy::forever(Duration::from_millis(200)))
        .connect_lazy(&servers)
        .expect("options that work");
    let _ = published.set(curator.clone());
    let mut tasks = Vec::new();
    for (task, place) in member.tasks.iter().enumerate() {
        let seed = run.plan.seed ^ (u64::try_from(1 + number * 64 + task).unwrap_or(0) << 32);
        let mut later = Rng::with_seed(!seed);
        // With a policy of its own, and ACLs that allow as much as all that the simulation needs.
        let mut own = curator.clone();
        let retries = later.u8(..4) == 0;
        if retries {
            let policies = [
                RetryPolicy::never(),
                RetryPolicy::one_time(Duration::from_millis(50)),
                RetryPolicy::n_times(5, Duration::from_millis(200)),
                RetryPolicy::until_elapsed(Duration::from_secs(3), Duration::from_millis(100)),
            ];
            own = own.with_retry(policies[later.usize(..4)].clone());
        }
        let is_other = later.u8(..8) == 0;
        let suspended = member.suspended != is_other;
        if is_other {
            let policy = if suspended { LossPolicy::Suspended } else { LossPolicy::Lease };
            own = own.with_loss_policy(policy);
        }
        if later.u8(..8) == 0 {
            // They allow the same, but are not the same.
            let acls =
                [Permission::ALL, Permission::READ].map(|one| Acl::new(one, AuthId::anyone()));
            own = own.with_acls(Acls::new(&acls));
        }
        let worker = SimulatedTask {
            name: format!("process {number} task {task}"),
            curator: own,
            process: process.clone(),
            suspended,
            retries,
            recipe: run.plan.paths[*place],
            path: path(*place),
            asked: Instant::now(),
            identity: None,
            wants: 1,
            kept: Arc::default(),
            rng: Rng::with_seed(seed),
            later,
            run: run.clone(),
        };
        tasks.push(process.spawn(worker.work()));
    }
    for task in tasks {
        let _ = task.await;
    }
}
