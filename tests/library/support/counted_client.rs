//! A client whose messages are counted, and can be held; and how a test sees that a contender waits.

use std::future::Future;

use crate::prelude::*;
use crate::support::contenders::{Contender, Held, Make};

/// So long that no probe of the own nodes comes within a test's time.
pub(crate) const LONG_SESSION: Duration = Duration::from_secs(60);

/// Without the requests that remove a watch: the client sends them only if the watch's event has not come before, which is
/// chance.
pub(crate) fn without_removals(mut took: Vec<Operation>) -> Vec<Operation> {
    took.retain(|operation| *operation != Operation::RemoveWatches);
    took
}

/// A client behind a link that counts and holds its messages.
pub(crate) struct CountedClient {
    pub(crate) proxy: Link,
    pub(crate) curator: Curator,
}

impl CountedClient {
    pub(crate) async fn new(testbed: &Testbed) -> Self {
        Self::built(testbed, testbed.builder().session_timeout(LONG_SESSION)).await
    }

    pub(crate) async fn built(testbed: &Testbed, builder: CuratorBuilder) -> Self {
        let (proxy, curator) = testbed.linked(builder).await;
        Self { proxy, curator }
    }

    /// The parent is there, and this client has acquired and released: it knows the path.
    pub(crate) async fn knowing(testbed: &Testbed) -> Self {
        let client = Self::new(testbed).await;
        let mutex = testbed.mutex(&client.curator);
        mutex.acquire().await.unwrap().release().await.unwrap();
        client.proxy.clear_log();
        client
    }

    /// The same, at a path of its own.
    pub(crate) async fn known() -> (Testbed, Self) {
        let testbed = Testbed::with_parent().await;
        let client = Self::knowing(&testbed).await;
        (testbed, client)
    }

    /// Requests so far, without probes of the session.
    pub(crate) fn requests(&self) -> usize {
        self.proxy.requests(Operation::Any) - self.proxy.requests(Operation::Sync)
    }

    /// Requests since the log was cleared, without probes of the session.
    pub(crate) fn log(&self) -> Vec<Operation> {
        let mut log = self.proxy.log();
        log.retain(|one| *one != Operation::Sync);
        log
    }

    pub(crate) fn took(&self) -> Vec<Operation> {
        let log = self.log();
        self.proxy.clear_log();
        log
    }

    /// To take the lock again is a create, and nothing else.
    pub(crate) async fn is_known(&self, mutex: &InterProcessMutex) {
        self.took();
        let guard = mutex.acquire().await.unwrap();
        assert_eq!(self.took(), [Operation::Create]);
        guard.release().await.unwrap();
    }

    /// The lock of this recipe on the test's path.
    pub(crate) fn made(&self, testbed: &Testbed, recipe: Make) -> Contender {
        recipe(&self.curator, &testbed.path)
    }

    /// Starts to acquire by this recipe, and returns when its node is there and everything that it asks at once is answered:
    /// `reads` watches.
    pub(crate) async fn enters(
        &self,
        testbed: &Testbed,
        recipe: Make,
        reads: usize,
    ) -> Waiting<Held> {
        let lock = self.made(testbed, recipe);
        self.waits_in(testbed, reads, async move { lock.acquire().await }).await
    }

    /// The same for any lock on the path.
    pub(crate) async fn waits_in<T: Send + 'static>(
        &self,
        testbed: &Testbed,
        reads: usize,
        acquiring: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        let watched = self.proxy.replies(Operation::GetData);
        let waiting = testbed.enters(acquiring).await;
        eventually("its watches", async || {
            self.proxy.replies(Operation::GetData) >= watched + reads
        })
        .await;
        round_trip(&self.curator).await;
        waiting
    }
}

/// So many of them.
pub(crate) async fn counted_clients<const CLIENTS: usize>(
    testbed: &Testbed,
) -> [CountedClient; CLIENTS] {
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(CountedClient::new(testbed).await);
    }
    clients.try_into().ok().unwrap()
}

/// Lets other tasks run that are ready to. They are on this thread.
pub(crate) async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(Duration::from_millis(20)).await;
}

/// It has received all that was sent to it, and does not hold.
pub(crate) async fn still_waits<T>(client: &CountedClient, waiting: &JoinHandle<T>) {
    round_trip(&client.curator).await;
    settle().await;
    assert!(!waiting.is_finished(), "it was admitted next to another");
}

pub(crate) fn sequence(node: &str) -> i64 {
    node[node.len() - 10..].parse().unwrap()
}

/// Events that each client has been sent, all that there are so far.
pub(crate) async fn events(clients: &[CountedClient]) -> Vec<usize> {
    let mut events = Vec::new();
    for client in clients {
        round_trip(&client.curator).await;
        events.push(client.proxy.replies(Operation::Event));
    }
    events
}
