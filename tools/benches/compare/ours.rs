//! This crate, by its public API.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tools::{Failure, now};
use zookeeper_recipes::leader::LeaderSelector;
use zookeeper_recipes::{
    Curator, InterProcessMultiLock, InterProcessMutex, InterProcessReadWriteLock,
    InterProcessSemaphoreV2,
};

use crate::bench_server::SESSION_TIMEOUT;
use crate::load::{Contender, Held, Lap, Load, Recipe, holds, turn, turn_beside, work};

/// Longer than any turn.
const RETENTION: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(crate) struct Ours(HashMap<String, Vec<Curator>>);

impl Ours {
    pub(crate) async fn session(&mut self, link: &str, index: usize) -> Result<Curator, Failure> {
        let sessions = self.0.entry(link.to_owned()).or_default();
        while sessions.len() <= index {
            let builder = Curator::builder().session_timeout(SESSION_TIMEOUT);
            sessions.push(builder.connect(link).await?);
        }
        Ok(sessions[index].clone())
    }

    pub(crate) async fn run(&mut self, link: &str, path: &str, load: Load) -> Result<Lap, Failure> {
        let locks = self.locks(link, path, load).await?;
        if load.recipe == Recipe::Readers {
            let curator = self.session(link, load.sessions).await?;
            let writer = Lock::new(Recipe::Write, &curator, &format!("{path}/0"))?;
            return turn_beside(locks, writer, load).await;
        }
        turn(locks, load.hold, load.turn).await
    }

    pub(crate) async fn holds(
        &mut self,
        link: &str,
        path: &str,
        load: Load,
    ) -> Result<Vec<Held>, Failure> {
        holds(self.locks(link, path, load).await?, load.hold, load.turn).await
    }

    async fn locks(&mut self, link: &str, path: &str, load: Load) -> Result<Vec<Lock>, Failure> {
        let mut locks = Vec::new();
        for task in 0..load.tasks {
            let curator = self.session(link, task % load.sessions).await?;
            let path = format!("{path}/{}", task % load.locks);
            locks.push(Lock::new(load.recipe, &curator, &path)?);
        }
        Ok(locks)
    }

    /// The mean times of the first acquisition of each of the paths `0` to `count` below `place`, and of its release.
    pub(crate) async fn first(
        &mut self,
        link: &str,
        place: &str,
        count: usize,
        recipe: Recipe,
    ) -> Result<(Duration, Duration), Failure> {
        let curator = self.session(link, 0).await?;
        let (mut acquiring, mut releasing) = (Duration::ZERO, Duration::ZERO);
        for path in 0..count {
            let lock = Lock::new(recipe, &curator, &format!("{place}/{path}"))?;
            let (acquired, released) = tokio::spawn(async move {
                let began = now();
                let held = lock.cycle(Duration::ZERO).await?;
                Ok::<_, Failure>((held.acquired - began, now() - held.released))
            })
            .await??;
            acquiring += acquired;
            releasing += released;
        }
        let count = u32::try_from(count)?;
        Ok((acquiring / count, releasing / count))
    }

    pub(crate) async fn close(self) {
        for curator in self.0.into_values().flatten() {
            // The server goes next.
            let _ = curator.close().await;
        }
    }
}

/// A lock of a recipe.
enum Lock {
    Mutex(InterProcessMutex),
    Read(InterProcessReadWriteLock),
    Write(InterProcessReadWriteLock),
    ReadWrite(InterProcessReadWriteLock, AtomicUsize),
    Semaphore(InterProcessSemaphoreV2),
    Multi(InterProcessMultiLock),
    /// A new latch for each cycle: one that was closed is done.
    Latch(Curator, String),
    Selector(LeaderSelector),
}

impl Lock {
    fn new(recipe: Recipe, curator: &Curator, path: &str) -> Result<Self, Failure> {
        let both = || curator.read_write_lock(path);
        Ok(match recipe {
            Recipe::Mutex => Lock::Mutex(curator.mutex(path)?),
            Recipe::Retained => Lock::Mutex(curator.mutex(path)?.with_retention(RETENTION)),
            Recipe::Read => Lock::Read(both()?),
            Recipe::Readers => Lock::Read(both()?.with_retention(RETENTION)),
            Recipe::Write => Lock::Write(both()?),
            Recipe::ReadWrite => Lock::ReadWrite(both()?, AtomicUsize::default()),
            Recipe::Semaphore(limit) => Lock::Semaphore(curator.semaphore(path, limit)?),
            Recipe::Multi(members) => {
                let paths: Vec<_> = (0..members).map(|member| format!("{path}/{member}")).collect();
                Lock::Multi(curator.multi_lock(paths)?)
            }
            Recipe::Latch => Lock::Latch(curator.clone(), path.to_owned()),
            Recipe::Selector => Lock::Selector(curator.leader_selector(path)?),
        })
    }
}

/// Acquires, works, releases; guards are of many types.
macro_rules! cycle {
    ($lock:expr, $hold:expr) => {{
        let guard = $lock.await?;
        let acquired = now();
        work($hold).await;
        let released = now();
        guard.release().await?;
        Ok(Held { acquired, released })
    }};
}

impl Contender for Lock {
    async fn cycle(&self, hold: Duration) -> Result<Held, Failure> {
        match self {
            Lock::Mutex(lock) => cycle!(lock.acquire(), hold),
            Lock::Read(lock) => cycle!(lock.read(), hold),
            Lock::Write(lock) => cycle!(lock.write(), hold),
            Lock::ReadWrite(lock, cycles) => {
                if cycles.fetch_add(1, Ordering::Relaxed) % 10 == 9 {
                    cycle!(lock.write(), hold)
                } else {
                    cycle!(lock.read(), hold)
                }
            }
            Lock::Semaphore(lock) => cycle!(lock.acquire(), hold),
            Lock::Multi(lock) => cycle!(lock.acquire(), hold),
            Lock::Latch(curator, path) => {
                let latch = curator.leader_latch(path)?;
                latch.leadership().await?;
                let acquired = now();
                work(hold).await;
                let released = now();
                latch.close().await?;
                Ok(Held { acquired, released })
            }
            Lock::Selector(selector) => {
                let term = selector.run(async move |_| {
                    let acquired = now();
                    work(hold).await;
                    Held { acquired, released: now() }
                });
                Ok(term.await?)
            }
        }
    }
}
