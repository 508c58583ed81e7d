//! Our side: a process that does what lines on its standard input ask for, so that its memory is its own.
//! `CuratorWorker.java` is the other side, with the same commands:
//!
//! | command | does |
//! | --- | --- |
//! | `connect N SERVERS MS` | opens N sessions of so many milliseconds |
//! | `warm PATH CYCLES` | uncontended cycles, each session on a path of its own |
//! | `gate PATH SERVERS MS` | a session of its own takes the lock |
//! | `enqueue PATH N` | starts N waiters, in turn over the sessions; does not wait for them |
//! | `drain N` | the gate lets go; N waiters hold in turn, for nothing; the next one keeps the lock |
//! | `hold PREFIX N WIDTH` | takes the locks PREFIX0…, WIDTH at a time |
//! | `release` | lets go of all of them, as many at a time |
//! | `contend PATH one|own MS` | every session acquires and releases for so long, one lock or each its own; gives cycles per second, and all cycles |
//! | `first PATH SERVERS MS` | one cycle in a new session; the time is that of the acquire |
//! | `cycles PATH N` | uncontended cycles of one session |
//! | `memory` | gives the bytes in use |
//! | `end` | closes the sessions |
//!
//! An answer is `ok`, with the seconds that it took where nothing else is said, or `failed` and why.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, BufReader, stdin};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tokio::time::sleep;
use zookeeper_recipes::{Curator, InterProcessMutex, MutexGuard, RetryPolicy};

use crate::{ALLOCATED, Failure};

/// 10,000 holds of one session, with paths as short as here, need 650 KB; the servers are started with a
/// `jute.maxbuffer` of 64 MiB.
const EPHEMERAL_LIMIT: usize = 2 * 1024 * 1024;

/// Until everybody is at work.
const LEAD: Duration = Duration::from_millis(300);

#[derive(Default)]
struct Worker {
    sessions: Vec<Curator>,
    gate: Option<MutexGuard>,
    gate_session: Option<Curator>,
    waiters: JoinSet<Result<(), Failure>>,
    drain: Arc<Drain>,
    held: Vec<MutexGuard>,
    width: usize,
}

/// How far the waiters have come.
#[derive(Default)]
struct Drain {
    target: AtomicUsize,
    held: AtomicUsize,
    done: Notify,
    /// Errors are no news any more.
    ending: AtomicBool,
}

/// Serves commands until its input ends.
pub(crate) async fn serve() -> Result<(), Failure> {
    let mut worker = Worker::default();
    let mut lines = BufReader::new(stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let words: Vec<_> = line.split(' ').collect();
        match worker.answer(&words).await {
            Ok(ControlFlow::Continue((number, count))) => println!("ok {number} {count}"),
            Ok(ControlFlow::Break(())) => break,
            Err(failure) => println!("failed {failure}"),
        }
    }
    Ok(())
}

impl Worker {
    async fn answer(&mut self, words: &[&str]) -> Result<ControlFlow<(), (f64, u64)>, Failure> {
        let number = match *words {
            ["connect", count, servers, timeout] => self.connect(count, servers, timeout).await?,
            ["warm", path, cycles] => self.warm(path, cycles.parse()?).await?,
            ["gate", path, servers, timeout] => self.gate(path, servers, timeout).await?,
            ["enqueue", path, count] => self.enqueue(path, count.parse()?)?,
            ["drain", count] => self.drain(count.parse()?).await?,
            ["hold", prefix, count, width] => {
                self.hold(prefix, count.parse()?, width.parse()?).await?
            }
            ["release"] => self.release().await?,
            ["contend", path, locks, long] => {
                let rate = self.contend(path, locks == "own", milliseconds(long)?).await?;
                return Ok(ControlFlow::Continue(rate));
            }
            ["first", path, servers, timeout] => first(path, servers, timeout).await?,
            ["cycles", path, count] => self.cycles(path, count.parse()?).await?,
            #[allow(clippy::cast_precision_loss)]
            ["memory"] => ALLOCATED.allocated() as f64,
            ["end"] => {
                self.end().await;
                return Ok(ControlFlow::Break(()));
            }
            _ => return Err(format!("no such command: {words:?}").into()),
        };
        Ok(ControlFlow::Continue((number, 0)))
    }

    async fn connect(&mut self, count: &str, servers: &str, timeout: &str) -> Timing {
        let began = Instant::now();
        for _ in 0..count.parse()? {
            self.sessions.push(session(servers, milliseconds(timeout)?).await?);
        }
        Ok(began.elapsed().as_secs_f64())
    }

    async fn gate(&mut self, path: &str, servers: &str, timeout: &str) -> Timing {
        let began = Instant::now();
        if self.gate_session.is_none() {
            self.gate_session = Some(session(servers, milliseconds(timeout)?).await?);
        }
        let session = self.gate_session.as_ref().ok_or("no session")?;
        self.gate = Some(InterProcessMutex::new(session, path)?.acquire().await?);
        Ok(began.elapsed().as_secs_f64())
    }

    async fn warm(&mut self, path: &str, cycles: usize) -> Timing {
        let began = Instant::now();
        let mut tasks = JoinSet::new();
        for (number, session) in self.sessions.iter().enumerate() {
            let mutex = InterProcessMutex::new(session, &format!("{path}{number}"))?;
            tasks.spawn(async move {
                for _ in 0..cycles {
                    mutex.acquire().await?.release().await?;
                }
                Ok::<_, Failure>(())
            });
        }
        all(tasks).await?;
        Ok(began.elapsed().as_secs_f64())
    }

    fn enqueue(&mut self, path: &str, count: usize) -> Timing {
        self.drain = Arc::default();
        let mut mutexes = Vec::new();
        for session in &self.sessions {
            mutexes.push(InterProcessMutex::new(session, path)?);
        }
        for mutex in mutexes.iter().cycle().take(count) {
            let (mutex, drain) = (mutex.clone(), self.drain.clone());
            self.waiters.spawn(async move {
                let waited = drain.wait(mutex).await;
                waited.inspect_err(|failure| {
                    if !drain.ending.load(Ordering::Relaxed) {
                        eprintln!("a waiter failed: {failure}");
                    }
                })
            });
        }
        Ok(0.0)
    }

    async fn drain(&mut self, count: usize) -> Timing {
        self.drain.target.store(count, Ordering::SeqCst);
        let began = Instant::now();
        let gate = self.gate.take().ok_or("no gate")?;
        gate.release().await?;
        self.drain.done.notified().await;
        let seconds = began.elapsed().as_secs_f64();
        while let Some(waiter) = self.waiters.try_join_next() {
            waiter??;
        }
        Ok(seconds)
    }

    async fn hold(&mut self, prefix: &str, count: usize, width: usize) -> Timing {
        self.width = width;
        let room = Arc::new(Semaphore::new(width));
        let mut tasks = JoinSet::new();
        let began = Instant::now();
        for (number, session) in (0..count).zip(self.sessions.iter().cycle()) {
            let mutex = InterProcessMutex::new(session, &format!("{prefix}{number}"))?;
            let room = room.clone().acquire_owned().await?;
            tasks.spawn(async move {
                let guard = mutex.acquire().await?;
                drop(room);
                Ok::<_, Failure>(guard)
            });
            while let Some(guard) = tasks.try_join_next() {
                self.held.push(guard??);
            }
        }
        while let Some(guard) = tasks.join_next().await {
            self.held.push(guard??);
        }
        Ok(began.elapsed().as_secs_f64())
    }

    async fn release(&mut self) -> Timing {
        let room = Arc::new(Semaphore::new(self.width));
        let mut tasks = JoinSet::new();
        let began = Instant::now();
        for guard in self.held.drain(..) {
            let room = room.clone().acquire_owned().await?;
            tasks.spawn(async move {
                guard.release().await?;
                drop(room);
                Ok::<_, Failure>(())
            });
            while let Some(released) = tasks.try_join_next() {
                released??;
            }
        }
        all(tasks).await?;
        Ok(began.elapsed().as_secs_f64())
    }

    async fn contend(
        &mut self,
        path: &str,
        own: bool,
        long: Duration,
    ) -> Result<(f64, u64), Failure> {
        let (over, cycles) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut tasks = JoinSet::new();
        for (number, session) in self.sessions.iter().enumerate() {
            let path = if own { format!("{path}{number}") } else { path.to_owned() };
            let mutex = InterProcessMutex::new(session, &path)?;
            let (over, cycles) = (over.clone(), cycles.clone());
            tasks.spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    let guard = mutex.acquire().await?;
                    cycles.fetch_add(1, Ordering::Relaxed);
                    guard.release().await?;
                }
                Ok::<_, Failure>(())
            });
        }
        sleep(LEAD).await;
        let (before, began) = (cycles.load(Ordering::Relaxed), Instant::now());
        sleep(long).await;
        let (after, took) = (cycles.load(Ordering::Relaxed), began.elapsed());
        over.store(true, Ordering::Relaxed);
        all(tasks).await?;
        #[allow(clippy::cast_precision_loss)]
        let rate = (after - before) as f64 / took.as_secs_f64();
        Ok((rate, cycles.load(Ordering::Relaxed)))
    }

    async fn cycles(&mut self, path: &str, count: usize) -> Timing {
        let mutex = InterProcessMutex::new(&self.sessions[0], path)?;
        let began = Instant::now();
        for _ in 0..count {
            mutex.acquire().await?.release().await?;
        }
        Ok(began.elapsed().as_secs_f64())
    }

    async fn end(&mut self) {
        self.drain.ending.store(true, Ordering::Relaxed);
        // The sessions first: they take their nodes along, all at once.
        let mut closing: JoinSet<_> = self
            .sessions
            .drain(..)
            .chain(self.gate_session.take())
            .map(|session| async move {
                // A session whose end is not confirmed is ended by the servers.
                let _ = session.close().await;
            })
            .collect();
        while closing.join_next().await.is_some() {}
    }
}

type Timing = Result<f64, Failure>;

impl Drain {
    async fn wait(&self, mutex: InterProcessMutex) -> Result<(), Failure> {
        let guard = mutex.acquire().await?;
        let turn = self.held.fetch_add(1, Ordering::SeqCst) + 1;
        let target = self.target.load(Ordering::SeqCst);
        if turn <= target {
            guard.release().await?;
        } else {
            // Keeps the lock until it is told to end.
            std::future::pending::<()>().await;
        }
        if turn == target {
            self.done.notify_one();
        }
        Ok(())
    }
}

async fn first(path: &str, servers: &str, timeout: &str) -> Timing {
    let session = session(servers, milliseconds(timeout)?).await?;
    let mutex = InterProcessMutex::new(&session, path)?;
    let began = Instant::now();
    let guard = mutex.acquire().await?;
    let seconds = began.elapsed().as_secs_f64();
    guard.release().await?;
    session.close().await?;
    Ok(seconds)
}

async fn session(servers: &str, timeout: Duration) -> Result<Curator, Failure> {
    let builder = Curator::builder()
        .session_timeout(timeout)
        .ephemeral_limit(EPHEMERAL_LIMIT)
        .retry(RetryPolicy::n_times(3, Duration::from_millis(100)));
    Ok(builder.connect(servers).await?)
}

async fn all(mut tasks: JoinSet<Result<(), Failure>>) -> Result<(), Failure> {
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

fn milliseconds(text: &str) -> Result<Duration, Failure> {
    Ok(Duration::from_millis(text.parse()?))
}
