//! A worker: takes the lock, works under it for a moment, lets go, again and again.

use std::error::Error;
use std::io::Write;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use zookeeper_recipes::{Curator, InterProcessMutex, RetryPolicy};

use crate::log::{Event, What, now};

/// Short, so that the lock of a dead worker passes on soon.
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(2);
const STEP: Duration = Duration::from_millis(10);
const STEPS: u32 = 10;

pub(crate) async fn run(name: &str) -> Result<(), Box<dyn Error + Send + Sync>> {
    tokio::select! {
        result = contend(name) => result,
        // Whoever started us is gone, or wants us to go.
        _ = wait_for_end_of_input() => Ok(()),
    }
}

async fn wait_for_end_of_input() {
    let mut input = tokio::io::stdin();
    while input.read_u8().await.is_ok() {}
}

async fn contend(name: &str) -> Result<(), Box<dyn Error + Send + Sync>> {
    let curator = Curator::builder()
        .session_timeout(SESSION_TIMEOUT)
        .retry(RetryPolicy::forever(Duration::from_millis(200)))
        .identity(name)
        .connect(&std::env::var("ZOOKEEPER_CONNECT")?)
        .await?;
    let mutex = InterProcessMutex::new(&curator, "/locks/demo")?;
    loop {
        log(What::Asks, now(), 0)?;
        let guard = mutex.acquire().await?;
        let token = guard.fencing_token().value();
        let mut step = 0;
        loop {
            let at = now();
            if !guard.is_held() {
                log(What::Lost, now(), token)?;
                break;
            }
            log(if step == 0 { What::Holds } else { What::Works }, at, token)?;
            if step == STEPS {
                log(What::Releases, now(), token)?;
                break;
            }
            step += 1;
            tokio::time::sleep(STEP).await;
        }
        if let Err(error) = guard.release().await {
            eprintln!("worker {name}: {error}");
        }
    }
}

fn log(what: What, at: Duration, token: i64) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", Event { what, at, token })?;
    out.flush()
}
