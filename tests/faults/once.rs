//! Jobs that run once under faults: whatever a process returns, a key that was run is recorded, and one that is not runs again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::task::JoinHandle;
use zookeeper_recipes::{Error, ErrorKind, InterProcessOnce, OnceOutcome};

use crate::product::{SOON, Told, products};
use crate::support::fixture::FaultFixture;

/// What a body, or its lock, comes to.
#[derive(Clone, Copy, Debug)]
struct Failed;

impl From<Error> for Failed {
    fn from(_: Error) -> Self {
        Self
    }
}

/// A job of ours, and how often its body has come to its end.
struct Job(InterProcessOnce, Arc<AtomicUsize>);

impl Job {
    fn new(job: InterProcessOnce) -> Self {
        Self(job, Arc::default())
    }

    async fn run(self) -> Told {
        let body = async |_| Ok::<_, Error>(self.1.fetch_add(1, Ordering::Relaxed));
        self.told(self.0.run(body).await)
    }

    async fn try_run(self) -> Told {
        let body = async |_| Ok::<_, Error>(self.1.fetch_add(1, Ordering::Relaxed));
        self.told(self.0.try_run(body).await)
    }

    async fn run_timeout(self) -> Told {
        let body = async |_| Ok::<_, Error>(self.1.fetch_add(1, Ordering::Relaxed));
        self.told(self.0.run_timeout(SOON, body).await)
    }

    fn told(&self, ran: Result<OnceOutcome<usize>, Error>) -> Told {
        let bodies = self.1.load(Ordering::Relaxed);
        assert!(bodies <= 1, "the body ran {bodies} times");
        match ran {
            Ok(OnceOutcome::Ran(_)) => assert_eq!(bodies, 1),
            Ok(OnceOutcome::AlreadyDone { .. }) => assert_eq!(bodies, 0),
            Err(error) if error.is_busy() => return Told::Nothing,
            Err(error) => {
                let kinds = [ErrorKind::Lost, ErrorKind::OutcomeUnknown, ErrorKind::Unavailable];
                assert!(kinds.contains(&error.kind()), "{error:?}");
                let says_that_nothing_was_done = error.kind() == ErrorKind::Unavailable;
                assert!(!says_that_nothing_was_done || bodies == 0, "{error:?}");
                return Told::Nothing;
            }
        }
        Told::Recorded(format!("{}/done/{}", self.0.path(), self.0.key()))
    }
}

async fn new(fixture: &FaultFixture) -> Job {
    Job::new(fixture.jobs().0)
}

/// Ours, and a rival that runs the key, and comes to this.
async fn behind(fixture: &FaultFixture, comes_to: Result<(), Failed>) -> (Job, JoinHandle<()>) {
    let (ours, rival) = fixture.jobs();
    let (begun, begins) = tokio::sync::oneshot::channel();
    let running = tokio::spawn(async move {
        let body = async move |_| -> Result<(), Failed> {
            let _ = begun.send(());
            tokio::time::sleep(SOON).await;
            comes_to
        };
        let _ = rival.run(body).await;
    });
    begins.await.unwrap();
    (Job::new(ours), running)
}

products! { product:
    run_of_a_key: new, Job::run;
    try_run_of_a_key: new, Job::try_run;
    run_timeout_of_a_key: new, Job::run_timeout;
    run_of_a_key_that_was_done: async |fixture: &FaultFixture| {
        let (ours, rival) = fixture.jobs();
        rival.run(async |_| Ok::<_, Error>(())).await.map(drop).unwrap();
        Job::new(ours)
    }, Job::run;
    run_behind_one_that_succeeds: async |fixture: &FaultFixture| behind(fixture, Ok(())).await, async |(job, _)| job.run().await;
    run_behind_one_that_fails: async |fixture: &FaultFixture| behind(fixture, Err(Failed)).await, async |(job, _)| job.run().await;
    try_run_behind_one_that_succeeds: async |fixture: &FaultFixture| behind(fixture, Ok(())).await, async |(job, _)| {
        job.try_run().await
    };
    run_timeout_behind_one_that_fails: async |fixture: &FaultFixture| behind(fixture, Err(Failed)).await, async |(job, _)| {
        job.run_timeout().await
    };
}
