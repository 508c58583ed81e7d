//! `zklock run --slots`: a command that has a number which no other live one has.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::timeout;
use zookeeper_recipes::Slots;

use super::{Ending, Wait, finish, left};
use crate::exit::{Failure, Outcome};
use crate::files;
use crate::log::Event;
use crate::signals::Signals;
use crate::supervision::Watched;

/// The option, for messages.
const OPTION: &str = "--slot-file";

/// Time limit for reading or writing the file.
const PATIENCE: Duration = Duration::from_secs(5);

impl Wait<'_> {
    pub(super) async fn run_slot(
        &self,
        count: u32,
        signals: &mut Signals,
        ending: &mut Ending,
    ) -> Outcome {
        let paths = &self.arguments.paths;
        self.check(signals).await?;
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let slots = self.preferring(self.locking.slots(&paths[0], count)?).await?;
        let acquire = async {
            match self.deadline {
                Some(_) => slots.acquire_timeout(left(self.deadline)).await,
                None if self.waits => slots.acquire().await,
                None => slots.try_acquire().await,
            }
        };
        let slot = self.wait(paths, acquire, signals).await?;
        ending.was_held = true;
        let watched = Watched::of_slot(&slot).since_its_start(self.curator);
        watched.record();
        self.check_recipes(signals).await?;
        self.remember(slot.index()).await;
        let end = self.supervise(&watched, signals).await?;
        match end.failure(watched.loss()) {
            Some(failure) => Err(failure),
            None => finish(end, slot.release(), self.curator, signals, ending).await,
        }
    }

    /// Prefers the number in the file. One that is too large may be from a time with more slots.
    async fn preferring(&self, slots: Slots) -> Result<Slots, Failure> {
        let Some(file) = self.arguments.slot_file.clone() else { return Ok(slots) };
        let reading = file.clone();
        let number = in_time(move || read(&reading)).await;
        let number = number.map_err(|error| Failure::unusable_file(OPTION, &file, &error))?;
        match number {
            Some(number) if number < slots.count() => Ok(slots.prefer(number)?),
            Some(number) => {
                let count = slots.count();
                let file = file.display();
                let why = format!("{number} is not one of {count} slots, which begin with 0");
                Event::Warning.say(&format!("{OPTION}: the number in {file} is not used: {why}"));
                Ok(slots)
            }
            None => Ok(slots),
        }
    }

    async fn remember(&self, number: usize) {
        let Some(file) = self.arguments.slot_file.clone() else { return };
        let writing = file.clone();
        if let Err(error) = in_time(move || files::replace(&writing, &format!("{number}\n"))).await
        {
            let failure = Failure::unusable_file(OPTION, &file, &error);
            Event::Warning.say(&format!("{failure}; the number {number} is not remembered"));
        }
    }
}

/// Does it on another thread: a disk that hangs must not keep the session from being renewed.
async fn in_time<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    match timeout(PATIENCE, spawn_blocking(work)).await {
        Ok(Ok(done)) => done,
        Ok(Err(panic)) => Err(io::Error::other(panic)),
        Err(_) => Err(ErrorKind::TimedOut.into()),
    }
}

/// Reads the number. `None` if there is no file yet, or an empty one.
fn read(file: &Path) -> io::Result<Option<usize>> {
    let Some(text) = files::read(file)? else {
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        return fs::metadata(folder.unwrap_or(Path::new("."))).map(|_| None);
    };
    let wrong = "it has something else than the number of a slot";
    match String::from_utf8_lossy(&text).trim() {
        "" => Ok(None),
        number => {
            let number = number.parse().map(Some);
            number.map_err(|_| io::Error::new(ErrorKind::InvalidInput, wrong))
        }
    }
}
