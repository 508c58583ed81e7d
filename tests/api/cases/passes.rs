//! Programs that compile: closures that borrow or move, `?` with several errors, tasks, `select!`, any lock.
#![deny(warnings)]
#![allow(dead_code)]

use std::sync::Arc;
use std::time::Duration;

use zookeeper_recipes::{
    Error, ErrorKind, Guard, Guards, Hold, InterProcessMultiLock, InterProcessMutex, Lock,
};

type AnyError = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug)]
enum AppError {
    Lock(Error),
    Io(std::io::Error),
}

impl From<Error> for AppError {
    fn from(error: Error) -> Self {
        Self::Lock(error)
    }
}

impl From<std::io::Error> for AppError {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

async fn io() -> std::io::Result<u64> {
    Ok(1)
}

async fn bill(_: &Hold) -> Result<u64, AppError> {
    Ok(io().await?)
}

async fn an_error_of_ones_own(mutex: InterProcessMutex) -> Result<u64, AppError> {
    let one = mutex.run(async |hold| bill(&hold).await).await?;
    let two = mutex.run(async |_| -> Result<u64, AppError> { Ok(io().await?) }).await?;
    mutex.run(async |_| Ok(one + two + io().await?)).await
}

async fn boxed(mutex: InterProcessMutex) -> Result<(), AnyError> {
    let billed = mutex.run(async |_| -> Result<u64, AnyError> { Ok(io().await?) }).await?;
    println!("{billed}");
    Ok(())
}

async fn another_crates_result(mutex: InterProcessMutex) -> Result<u64, AppError> {
    Ok(mutex.with(async |_| io().await).await??)
}

async fn plain_and_unit(mutex: InterProcessMutex) -> Result<usize, Error> {
    mutex.with(async |_| ()).await?;
    mutex.with(async |_| 7).await
}

async fn borrows(mutex: &InterProcessMutex, names: &[String]) -> Result<usize, Error> {
    let mut done = Vec::new();
    mutex
        .with(async |hold| {
            for name in names {
                if hold.is_held() {
                    done.push(name);
                }
            }
        })
        .await?;
    Ok(done.len())
}

async fn moves(mutex: InterProcessMutex) -> Result<String, Error> {
    let name = String::from("orders");
    mutex.with(|_hold| async move { name }).await
}

struct State {
    mutex: InterProcessMutex,
}

impl State {
    async fn handle(self: Arc<Self>) -> Result<u16, Error> {
        let guard = self.mutex.try_acquire().await?;
        guard.run(async |hold| Ok(u16::from(hold.is_held()))).await
    }
}

fn spawned(state: Arc<State>, mutex: InterProcessMutex) {
    let status = |error: Error| match error.kind() {
        _ if error.is_transient() => 503,
        ErrorKind::Busy => 409,
        ErrorKind::Lost => 503,
        _ => 500,
    };
    drop(tokio::spawn(async move { state.handle().await.unwrap_or_else(status) }));
    drop(tokio::spawn(async move {
        let mut names = vec![String::new()];
        mutex.with(async |_| names.push(String::from("x"))).await
    }));
}

/// A wrapper that is generic over the body, and spawned.
async fn traced<T, Fut>(lock: InterProcessMutex, body: impl FnOnce(Hold) -> Fut) -> Result<T, Error>
where
    Fut: Future<Output = Result<T, Error>>,
{
    lock.run(body).await
}

fn spawns_a_wrapper(lock: InterProcessMutex) {
    drop(tokio::spawn(traced(lock, async |hold: Hold| Ok(hold.fencing_token()))));
}

trait Job {
    fn start(&self) -> impl Future<Output = Result<(), Error>> + Send;
}

impl Job for State {
    async fn start(&self) -> Result<(), Error> {
        self.mutex.run(async |_| Ok(())).await
    }
}

/// Each of these holds the lock in the braces, and to the end of the statement.
async fn patterns_that_hold(mutex: InterProcessMutex) -> Result<(), Error> {
    if let Ok(_) = mutex.try_acquire().await {
        println!("held");
    }
    match mutex.acquire_timeout(Duration::from_secs(1)).await {
        Ok(_) => println!("held"),
        Err(error) if error.is_busy() => println!("busy"),
        Err(error) => return Err(error),
    }
    println!("{}", mutex.acquire().await?.fencing_token());
    Ok(())
}

/// The careless line: a guard, or an error. A type annotation could not be there if an answer "busy" were a value.
async fn a_line_that_ignores_a_busy_lock(mutex: InterProcessMutex, lock: &dyn Lock, both: InterProcessMultiLock) -> Result<(), Error> {
    let limit = Duration::from_secs(1);
    let _guard: Guard = mutex.acquire_timeout(limit).await?;
    let _guard: Guard = lock.acquire_timeout(limit).await?;
    let _guards: Guards = both.acquire_timeout(limit).await?;
    Ok(())
}

async fn tries(lock: &dyn Lock, mutex: InterProcessMutex) -> Result<Option<u64>, AppError> {
    match mutex.try_run(async |hold| bill(&hold).await).await {
        Err(AppError::Lock(error)) if error.is_busy() => {}
        billed => return billed.map(Some),
    }
    match lock.run_timeout(Duration::from_secs(1), async |_| Ok(7)).await {
        Err(error) if Error::is_busy(&error) => Ok(None),
        ran => Ok(Some(ran?)),
    }
}

fn main() {}
