//! What a client asks a member of an ensemble that has not applied what the others confirmed.

use std::future::Future;
use std::time::Duration;

use tokio::task::JoinHandle;
use zookeeper_recipes::{AcquireError, Curator, InterProcessMutex, InterProcessSemaphore};

use crate::harness::{Arena, Link, Operation, eventually, within};

/// A follower that a client asks by a link of its own, and another client at the leader.
struct Lagging {
    arena: Arena,
    leader: usize,
    follower: usize,
    link: Link,
    ours: Curator,
    other: Curator,
}

impl Lagging {
    async fn start() -> Self {
        // A follower that hears nothing for ten ticks leaves its leader: longer than a test lasts on a busy machine.
        let arena = Arena::three(Duration::from_secs(3), 10).await;
        let (leader, members) = (arena.servers.leader().await, arena.servers.members());
        let follower = (leader + 1) % 3;
        let link = members[follower].link().await;
        let builder = arena.builder().session_timeout(Duration::from_secs(60));
        let ours = builder.clone().connect(link.connect_string()).await.unwrap();
        let other = builder.connect(members[leader].connect_string()).await.unwrap();
        Self { arena, leader, follower, link, ours, other }
    }

    /// Makes `trying` while the follower lags behind `released`; the follower catches up when it was asked.
    async fn tried_after<T: Send + 'static>(
        &self,
        released: impl Future<Output = ()>,
        trying: impl Future<Output = Result<Option<T>, AcquireError>> + Send + 'static,
    ) -> Option<T> {
        let parted = self.arena.servers.part(self.follower, self.leader);
        released.await;
        let listed = self.link.requests(Operation::List);
        let trying: JoinHandle<_> = tokio::spawn(trying);
        eventually("it asks", async || self.link.requests(Operation::List) > listed).await;
        parted.heal();
        within("its answer", trying).await.unwrap().unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_released_elsewhere_is_free_on_every_member() {
    let lagging = Lagging::start().await;
    let path = format!("{}-mutex", lagging.arena.path);
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

    let path = format!("{}-semaphore", lagging.arena.path);
    let [mine, theirs] = [&lagging.ours, &lagging.other]
        .map(|one| InterProcessSemaphore::new(one, &path, 2).unwrap());
    let held = within("both leases", theirs.acquire_many(2)).await.unwrap();
    assert!(within("full", mine.try_acquire()).await.unwrap().is_none());
    let released = async { held.release().await.unwrap() };
    let trying = async move { mine.try_acquire_many(2).await };
    lagging.tried_after(released, trying).await.expect("both are free").release().await.unwrap();
}
