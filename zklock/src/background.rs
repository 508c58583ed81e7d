//! A thread that does jobs in their order. Work that may block for long, such as a write to a pipe or to a disk, must not
//! keep the process from renewing the session lease or from handling a signal.

use std::io;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

/// The largest number of waiting jobs.
const LONGEST: usize = 256;

type Job = Box<dyn FnOnce() + Send>;

#[derive(Debug)]
pub(crate) struct Background {
    jobs: SyncSender<Job>,
}

impl Background {
    pub(crate) fn start(name: &str) -> io::Result<Self> {
        let (jobs, waiting) = sync_channel::<Job>(LONGEST);
        let work = move || waiting.into_iter().for_each(|job| job());
        thread::Builder::new().name(name.to_owned()).spawn(work)?;
        Ok(Self { jobs })
    }

    /// Adds a job. It is dropped if the thread cannot keep up.
    pub(crate) fn add(&self, job: impl FnOnce() + Send + 'static) {
        let _ = self.jobs.try_send(Box::new(job));
    }

    /// Waits until all jobs are done, at most for `limit`, and returns whether they are.
    pub(crate) fn flush(&self, limit: Duration) -> bool {
        let (done, all_done) = sync_channel::<()>(1);
        let last = Box::new(move || {
            let _ = done.send(()); // not received after the limit
        });
        // If the queue is full, another thread waits for room in place of this one.
        if let Err(TrySendError::Full(job)) = self.jobs.try_send(last) {
            let jobs = self.jobs.clone();
            let _ = thread::Builder::new().spawn(move || jobs.send(job));
        }
        all_done.recv_timeout(limit).is_ok()
    }
}
