//! What a client asks a member of an ensemble that has not applied what the others confirmed.

use std::future::Future;
use std::time::Duration;

use tokio::task::JoinHandle;
use zookeeper_recipes::{AcquireError, Curator, InterProcessMutex, InterProcessSemaphore};
use zookeeper_testkit::{FaultProxy, Operation, TestEnsemble, random_path};

use crate::harness::{eventually, within};

/// A follower that a client asks by a link of its own, and another client at the leader.
struct Lagging {
    ensemble: TestEnsemble,
    leader: usize,
    follower: usize,
    link: FaultProxy,
    ours: Curator,
    other: Curator,
}

impl Lagging {
    async fn start() -> Self {
        // A follower that hears nothing for ten ticks leaves its leader: longer than a test lasts on a busy machine.
        let builder = TestEnsemble::builder(3).tick_time(Duration::from_secs(3));
        let ensemble = builder.property("syncLimit", "10").start().await.unwrap();
        let leader = ensemble.leader().await.unwrap();
        let follower = (leader + 1) % 3;
        let link = FaultProxy::start(ensemble.member(follower).connect_string()).await.unwrap();
        let connect = async |address: &str| {
            let builder = Curator::builder().session_timeout(Duration::from_secs(60));
            builder.connect(address).await.unwrap()
        };
        let ours = connect(link.connect_string()).await;
        let other = connect(ensemble.member(leader).connect_string()).await;
        Self { ensemble, leader, follower, link, ours, other }
    }

    /// Makes `trying` while the follower lags behind `released`; the follower catches up when it was asked.
    async fn tried_after<T: Send + 'static>(
        &self,
        released: impl Future<Output = ()>,
        trying: impl Future<Output = Result<Option<T>, AcquireError>> + Send + 'static,
    ) -> Option<T> {
        let parted = self.ensemble.part(self.follower, self.leader);
        released.await;
        let listed = self.link.requests(Operation::List);
        let trying: JoinHandle<_> = tokio::spawn(trying);
        eventually("it asks", async || self.link.requests(Operation::List) > listed).await;
        parted.heal();
        within("its answer", trying).await.unwrap().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_released_elsewhere_is_free_on_every_member() {
    let lagging = Lagging::start().await;
    let path = random_path("test");
    let [mine, theirs] =
        [&lagging.ours, &lagging.other].map(|one| InterProcessMutex::new(one, &path).unwrap());
    let held = within("the lock", theirs.acquire()).await.unwrap();
    assert!(within("busy", mine.try_acquire()).await.unwrap().is_none());
    let released = async { held.release().await.map(drop).unwrap() };
    let trying = async move { mine.try_acquire().await };
    lagging
        .tried_after(released, trying)
        .await
        .expect("the mutex is free")
        .release()
        .await
        .unwrap();

    let path = random_path("test");
    let [mine, theirs] = [&lagging.ours, &lagging.other]
        .map(|one| InterProcessSemaphore::new(one, &path, 2).unwrap());
    let held = within("both leases", theirs.acquire_many(2)).await.unwrap();
    assert!(within("full", mine.try_acquire()).await.unwrap().is_none());
    let released = async { held.release().await.unwrap() };
    let trying = async move { mine.try_acquire_many(2).await };
    lagging.tried_after(released, trying).await.expect("both are free").release().await.unwrap();
}
