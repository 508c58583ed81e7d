//! The processes of a run, and their tasks.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fastrand::Rng;
use tokio::time::Instant;
use zookeeper_recipes::Curator;
use zookeeper_recipes::interop::LossPolicy;
use zookeeper_recipes::session::RetryPolicy;
use zookeeper_recipes::simulation::Process;

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
        let worker = SimulatedTask {
            name: format!("process {number} task {task}"),
            curator: curator.clone(),
            process: process.clone(),
            suspended: member.suspended,
            recipe: run.plan.paths[*place],
            path: path(*place),
            asked: Instant::now(),
            identity: None,
            kept: Arc::default(),
            rng: Rng::with_seed(seed),
            later: Rng::with_seed(!seed),
            run: run.clone(),
        };
        tasks.push(process.spawn(worker.work()));
    }
    for task in tasks {
        let _ = task.await;
    }
}
