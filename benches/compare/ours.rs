//! This crate, by its public API.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use zookeeper_recipes::{Curator, InterProcessMutex};

use crate::Failure;
use crate::load::{Contender, Held, Lap, Load, turn, work};
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
        let mut mutexes = Vec::new();
        for task in 0..load.tasks {
            let curator = self.session(link, task % load.sessions).await?;
            let path = format!("{path}/{}", task % load.locks);
            mutexes.push(InterProcessMutex::new(&curator, &path)?);
        }
        turn(mutexes, load.hold, load.turn).await
    }

    /// The mean times of the first acquisition of each path, and of its release.
    pub(crate) async fn first(
        &mut self,
        link: &str,
        paths: &[String],
    ) -> Result<(Duration, Duration), Failure> {
        let curator = self.session(link, 0).await?;
        let (mut acquiring, mut releasing) = (Duration::ZERO, Duration::ZERO);
        for path in paths {
            let mutex = InterProcessMutex::new(&curator, path)?;
            let (acquired, released) = tokio::spawn(async move {
                let began = Instant::now();
                let guard = mutex.acquire().await?;
                let acquired = began.elapsed();
                guard.release().await?;
                Ok::<_, Failure>((acquired, began.elapsed() - acquired))
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

impl Contender for InterProcessMutex {
    async fn cycle(&self, hold: Duration) -> Result<Held, Failure> {
        let guard = self.acquire().await?;
        let acquired = Instant::now();
        work(hold).await;
        let released = Instant::now();
        guard.release().await?;
        Ok(Held { acquired, released })
    }
}
