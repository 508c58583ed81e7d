//! Whether a leader stays one while the servers are restarted one by one, and how soon another leads when its process
//! is killed: `make rolling-restart`, `make takeover`.
//!
//! A real quorum of three and sessions of six seconds. Three processes elect a leader by this crate's `LeaderLatch`,
//! with its default policy; where a JDK and Apache Curator are installed, three sessions elect one by Curator's
//! beside them. `restarts`: in each round every server is restarted, one after the other, each awaited until all three
//! serve. `kills`: in each round the leader's process is killed, and a new candidate takes its place.
//!
//! Arguments: how many rounds (3), `restarts` or `kills` (both), and for how many seconds all servers serve before the
//! next one is restarted (1). Exits with 1 if our leadership changed during restarts, or if ever two led.
#![allow(clippy::disallowed_methods)] // the tasks are owned

mod candidate;
#[path = "../../../../tests/interop/class_path.rs"]
mod class_path;
mod event;
mod kills;
mod log;
mod processes;
mod quorum;
mod restarts;
mod tally;

use std::process::ExitCode;
use std::time::Duration;

type Failure = Box<dyn std::error::Error + Send + Sync>;

const CANDIDATES: usize = 3;
const SESSION_TIMEOUT: Duration = Duration::from_secs(6);
/// Sessions expire at ticks.
const TICK: Duration = Duration::from_millis(500);

#[tokio::main]
async fn main() -> Result<ExitCode, Failure> {
    let mut arguments = std::env::args().skip(1).peekable();
    if arguments.next_if(|first| first == candidate::ROLE).is_some() {
        candidate::run(arguments).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let rounds = arguments.next().map_or(Ok(3), |rounds| rounds.parse())?;
    let chosen = arguments.next();
    let pause = arguments.next().map_or(Ok(1.0), |seconds| seconds.parse())?;
    let (mut restarts, mut kills) = (true, true);
    match chosen.as_deref() {
        None => {}
        Some("restarts") => kills = false,
        Some("kills") => restarts = false,
        Some(name) => return Err(format!("no `{name}`: restarts, kills").into()),
    }
    let mut good = true;
    if restarts {
        good &= restarts::run(rounds, Duration::from_secs_f64(pause)).await?;
    }
    if kills {
        good &= kills::run(rounds).await?;
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
