//! What the tests of semaphores share: asking for leases, and what the server shows of `locks` and `leases`.

use std::ops::Deref;

use tokio::task::JoinHandle;
use zookeeper_recipes::{Curator, Error, Guard, Guards, InterProcessSemaphore};

use crate::harness::{Arena, children, eventually, within};

/// Waits in a task; dropping this leaves.
pub(crate) struct Waiting<T>(JoinHandle<Result<T, Error>>);

impl<T: Send + 'static> Waiting<T> {
    pub(crate) fn new(acquiring: impl Future<Output = Result<T, Error>> + Send + 'static) -> Self {
        Self(tokio::spawn(acquiring))
    }

    pub(crate) async fn served(self) -> T {
        self.ended().await.unwrap()
    }

    pub(crate) async fn ended(mut self) -> Result<T, Error> {
        within("the waiter", &mut self.0).await.unwrap()
    }
}

impl<T> Deref for Waiting<T> {
    type Target = JoinHandle<Result<T, Error>>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<T> Drop for Waiting<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Asks for a lease in a task of its own.
pub(crate) fn asks(semaphore: &InterProcessSemaphore) -> Waiting<Guard> {
    let semaphore = semaphore.clone();
    Waiting::new(async move { semaphore.acquire().await })
}

/// Asks for several.
pub(crate) fn asks_for(semaphore: &InterProcessSemaphore, count: usize) -> Waiting<Guards> {
    let semaphore = semaphore.clone();
    Waiting::new(async move { semaphore.acquire_many(count).await })
}

impl Arena {
    pub(crate) fn semaphore(&self, curator: &Curator, limit: usize) -> InterProcessSemaphore {
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
