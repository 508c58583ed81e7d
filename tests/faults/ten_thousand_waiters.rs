//! 10,000 tasks of one process wait for one lock, and something goes wrong.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use zookeeper_recipes::session::RetryPolicy;
use zookeeper_recipes::simulation::{Admin, Cut, Ensemble, Link, Logged, Operation};
use zookeeper_recipes::zookeeper_client::{Acl, Acls, AuthId, CreateMode, Permission};
use zookeeper_recipes::{Curator, ErrorKind, Guard};
use zookeeper_recipes_dev::{eventually, within};

const TASKS: usize = 10_000;
const PATH: &str = "/lock";
const PAUSE: Duration = Duration::from_secs(1);

/// What came of a task: when, and why it failed.
type Came = (usize, Instant, Option<ErrorKind>);

/// The tasks wait behind a stranger.
struct Crowd {
    ensemble: Ensemble,
    admin: Admin,
    link: Link,
    curator: Curator,
    holder: Guard,
    tasks: JoinSet<()>,
    came: Arc<Mutex<Vec<Came>>>,
    /// The nodes that are there, and the most that were.
    nodes: Arc<Mutex<(BTreeSet<String>, usize)>>,
}

fn locked<T>(one: &Mutex<T>) -> MutexGuard<'_, T> {
    one.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Crowd {
    async fn waits() -> Self {
        let ensemble = Ensemble::start(3);
        let (admin, link) = (ensemble.admin().await, ensemble.link());
        admin.create(PATH, b"", CreateMode::Persistent, &Acls::anyone_all()).await.unwrap();
        let nodes = Arc::<Mutex<(BTreeSet<String>, usize)>>::default();
        let seen = nodes.clone();
        ensemble.observe(move |entry| {
            let mut seen = locked(&seen);
            match &entry.effect {
                Logged::Created(path, owner) if *owner != 0 => _ = seen.0.insert(path.clone()),
                Logged::Deleted(path) => _ = seen.0.remove(path),
                _ => {}
            }
            seen.1 = seen.1.max(seen.0.len());
        });
        let holder = ensemble.curator().await.mutex(PATH).unwrap().acquire().await.unwrap();
        let curator = Curator::builder()
            .session_timeout(Duration::from_secs(6))
            .connection_timeout(Duration::from_secs(2))
            .retry(RetryPolicy::n_times(3, PAUSE))
            .connect(link.connect_string())
            .await
            .unwrap();
        let (came, mut tasks) = (Arc::<Mutex<Vec<Came>>>::default(), JoinSet::new());
        for task in 0..TASKS {
            let (mutex, came) = (curator.mutex(PATH).unwrap(), came.clone());
            tasks.spawn(async move {
                let held = mutex.acquire().await;
                let error = held.as_ref().err().map(|error| error.kind());
                locked(&came).push((task, Instant::now(), error));
            });
        }
        eventually("a node", async || locked(&nodes).0.len() == 2).await;
        Self { ensemble, admin, link, curator, holder, tasks, came, nodes }
    }

    /// No client may create a node there.
    async fn forbid_creates(&self) {
        let acls = [Acl::new(Permission::READ, AuthId::anyone())];
        self.admin.set_acl(PATH, &acls).await.unwrap();
    }

    /// The stranger releases.
    async fn are_served(self, creates: usize) {
        self.holder.release().await.unwrap();
        within("all are served", self.tasks.join_all()).await;
        let came = locked(&self.came);
        assert!(came.iter().all(|(.., error)| error.is_none()));
        assert!(came.iter().map(|(task, ..)| *task).eq(0..TASKS), "first come, first served");
        assert_eq!(locked(&self.nodes).1, 2, "ours and the stranger's");
        assert_eq!(self.link.requests(Operation::Create), creates);
    }

    /// All at about the same time.
    async fn fail(self, why: ErrorKind, creates: usize) {
        within("all fail", self.tasks.join_all()).await;
        let came = locked(&self.came);
        assert_eq!(came.len(), TASKS);
        assert!(came.iter().all(|(.., error)| *error == Some(why)), "{:?}", came.first());
        let first = came.iter().map(|(_, when, _)| *when).min().unwrap();
        let last = came.iter().map(|(_, when, _)| *when).max().unwrap();
        assert!(last - first <= PAUSE, "{:?}", last - first);
        assert_eq!(locked(&self.nodes).1, 2, "ours and the stranger's");
        assert_eq!(self.link.requests(Operation::Create), creates);
    }
}

/// A node is not passed on over another connection than that of its create.
#[tokio::test(start_paused = true)]
async fn a_reconnect_costs_one_create_and_no_place() {
    let crowd = Crowd::waits().await;
    let before = crowd.link.accepted();
    assert_eq!(crowd.link.cut(Cut::Reset), 1);
    eventually("a link", async || crowd.link.accepted() > before).await;
    crowd.are_served(2).await;
}

#[tokio::test(start_paused = true)]
async fn an_expiry_costs_one_create_and_no_place() {
    let crowd = Crowd::waits().await;
    crowd.ensemble.expire(&crowd.curator);
    sleep(PAUSE).await;
    crowd.are_served(2).await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_create_is_the_error_of_all() {
    let crowd = Crowd::waits().await;
    crowd.forbid_creates().await;
    crowd.ensemble.expire(&crowd.curator);
    crowd.fail(ErrorKind::PermissionDenied, 2).await;
}

#[tokio::test(start_paused = true)]
async fn an_outage_that_outlasts_the_retry_policy_is_the_error_of_all() {
    let crowd = Crowd::waits().await;
    let _refused = crowd.link.refuse();
    assert_eq!(crowd.link.cut(Cut::Reset), 1);
    crowd.fail(ErrorKind::Unavailable, 1).await;
}
