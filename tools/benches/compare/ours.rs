//! This crate, by its public API.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use zookeeper_recipes::{
    Curator, InterProcessMultiLock, InterProcessMutex, InterProcessReadWriteLock,
    InterProcessSemaphore, InterProcessSemaphoreMutex, LeaderLatch, LeaderSelector, ReadLock,
    WriteLock,
};

use crate::Failure;
use crate::load::{Contender, Held, Lap, Load, Recipe, turn, work};
use crate::stage::SESSION_TIMEOUT;

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
        let mut locks = Vec::new();
        for task in 0..load.tasks {
            let curator = self.session(link, task % load.sessions).await?;
            let path = format!("{path}/{}", task % load.locks);
            locks.push(Lock::new(load.recipe, &curator, &path)?);
        }
        turn(locks, load.hold, load.turn).await
    }

    /// The mean times of the first acquisition of each path, and of its release.
    pub(crate) async fn first(
        &mut self,
        link: &str,
        paths: &[String],
        recipe: Recipe,
    ) -> Result<(Duration, Duration), Failure> {
        let curator = self.session(link, 0).await?;
        let (mut acquiring, mut releasing) = (Duration::ZERO, Duration::ZERO);
        for path in paths {
            let lock = Lock::new(recipe, &curator, path)?;
            let (acquired, released) = tokio::spawn(async move {
                let began = Instant::now();
                let held = lock.cycle(Duration::ZERO).await?;
                Ok::<_, Failure>((held.acquired - began, held.released.elapsed()))
            })
            .await??;
            acquiring += acquired;
            releasing += released;
        }
        let count = u32::try_from(paths.len())?;
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
    Read(ReadLock),
    Write(WriteLock),
    ReadWrite(InterProcessReadWriteLock, AtomicUsize),
    SemaphoreMutex(InterProcessSemaphoreMutex),
    Semaphore(InterProcessSemaphore),
    Multi(InterProcessMultiLock),
    /// A new latch for each cycle: one that was closed is done.
    Latch(Curator, String),
    Selector(LeaderSelector),
}

impl Lock {
    fn new(recipe: Recipe, curator: &Curator, path: &str) -> Result<Self, Failure> {
        let both = || InterProcessReadWriteLock::new(curator, path);
        Ok(match recipe {
            Recipe::Mutex => Lock::Mutex(InterProcessMutex::new(curator, path)?),
            Recipe::Read => Lock::Read(both()?.read()),
            Recipe::Write => Lock::Write(both()?.write()),
            Recipe::ReadWrite => Lock::ReadWrite(both()?, AtomicUsize::default()),
            Recipe::SemaphoreMutex => {
                Lock::SemaphoreMutex(InterProcessSemaphoreMutex::new(curator, path)?)
            }
            Recipe::Semaphore(limit) => {
                Lock::Semaphore(InterProcessSemaphore::new(curator, path, limit)?)
            }
            Recipe::Multi(members) => {
                let paths: Vec<_> = (0..members).map(|member| format!("{path}/{member}")).collect();
                Lock::Multi(InterProcessMultiLock::from_paths(curator, paths)?)
            }
            Recipe::Latch => Lock::Latch(curator.clone(), path.to_owned()),
            Recipe::Selector => Lock::Selector(LeaderSelector::new(curator, path)?),
        })
    }
}

/// Acquires, works, releases; guards are of many types.
macro_rules! cycle {
    ($lock:expr, $hold:expr) => {{
        let guard = $lock.acquire().await?;
        let acquired = Instant::now();
        work($hold).await;
        let released = Instant::now();
        guard.release().await?;
        Ok(Held { acquired, released })
    }};
}

impl Contender for Lock {
    async fn cycle(&self, hold: Duration) -> Result<Held, Failure> {
        match self {
            Lock::Mutex(lock) => cycle!(lock, hold),
            Lock::Read(lock) => cycle!(lock, hold),
            Lock::Write(lock) => cycle!(lock, hold),
            Lock::ReadWrite(lock, cycles) => {
                if cycles.fetch_add(1, Ordering::Relaxed) % 10 == 9 {
                    cycle!(lock.write(), hold)
                } else {
                    cycle!(lock.read(), hold)
                }
            }
            Lock::SemaphoreMutex(lock) => cycle!(lock, hold),
            Lock::Semaphore(lock) => cycle!(lock, hold),
            Lock::Multi(lock) => cycle!(lock, hold),
            Lock::Latch(curator, path) => {
                let latch = LeaderLatch::new(curator, path)?;
                latch.start()?;
                latch.await_leadership().await?;
                let acquired = Instant::now();
                work(hold).await;
                let released = Instant::now();
                latch.close().await?;
                Ok(Held { acquired, released })
            }
            Lock::Selector(selector) => {
                let term = selector.run(move |_| async move {
                    let acquired = Instant::now();
                    work(hold).await;
                    Held { acquired, released: Instant::now() }
                });
                Ok(term.await?)
            }
        }
    }
}
