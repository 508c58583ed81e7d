//! What the tests of semaphores share: asking for leases, and what the server shows of `locks` and `leases`.

use tokio_util::task::AbortOnDropHandle;

use crate::prelude::*;

/// A task that waits; dropping this leaves.
pub(crate) type Asks<T> = AbortOnDropHandle<Result<T, Error>>;

pub(crate) fn spawned<T: Send + 'static>(
    acquiring: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Asks<T> {
    AbortOnDropHandle::new(tokio::spawn(acquiring))
}

/// Asks for a lease in a task of its own.
pub(crate) fn asks(semaphore: &InterProcessSemaphoreV2) -> Asks<Guard> {
    let semaphore = semaphore.clone();
    spawned(async move { semaphore.acquire().await })
}

/// Asks for several.
pub(crate) fn asks_for(semaphore: &InterProcessSemaphoreV2, count: usize) -> Asks<Guards> {
    let semaphore = semaphore.clone();
    spawned(async move { semaphore.acquire_many(count).await })
}

pub(crate) async fn served<T>(asks: Asks<T>) -> T {
    within("the waiter", asks).await.unwrap().unwrap()
}

impl Arena {
    pub(crate) fn semaphore(&self, curator: &Curator, limit: usize) -> InterProcessSemaphoreV2 {
        curator.semaphore(&self.path, limit).unwrap()
    }

    /// The path of a child of `locks` or `leases`.
    pub(crate) fn below(&self, folder: &str, child: &str) -> String {
        format!("{}/{folder}/{child}", self.path)
    }

    /// The nodes in `locks`, first come first.
    pub(crate) async fn locks(&self) -> Vec<String> {
        self.sorted("locks").await
    }

    /// The nodes in `leases`, first come first.
    pub(crate) async fn leases(&self) -> Vec<String> {
        self.sorted("leases").await
    }

    async fn sorted(&self, folder: &str) -> Vec<String> {
        let mut names = children(&self.admin, &format!("{}/{folder}", self.path)).await;
        names.sort_by_key(|name| name.rsplit('-').next().map(str::to_owned));
        names.into_iter().map(|name| self.below(folder, &name)).collect()
    }

    /// Waits until there are so many nodes in `locks` and in `leases`.
    pub(crate) async fn nodes_are(&self, locks: usize, leases: usize) {
        eventually(&format!("{locks} in locks, {leases} in leases"), async || {
            (self.locks().await.len(), self.leases().await.len()) == (locks, leases)
        })
        .await;
    }

    /// Deletes all of them.
    pub(crate) async fn delete(&self, nodes: &[String]) {
        for node in nodes {
            self.admin.delete(node, None).await.unwrap();
        }
    }
}
