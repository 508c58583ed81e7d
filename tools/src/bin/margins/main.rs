//! How long before its node is deleted a holder knows that it lost the lock, whether a leader stays leader while servers are
//! restarted, and how soon another leads when the leader's process is killed: `make margins`. Apache Curator does the same
//! next to this crate, where a JDK and its jars are installed.
//!
//! Arguments: a number of rounds (3), and names of what is measured (all):
//!
//! * `stalled`: the holders' link stalls.
//! * `cut-off`: the follower that they are connected to is cut off from its leader.
//! * `stopped`: the servers' leader is stopped for four seconds.
//! * `restarts`: in each round every server is restarted, one after the other.
//! * `kills`: in each round the leader's process is killed.
//!
//! It exits with 1 if a holder of ours saw itself as the holder when its node was deleted, if our leadership changed during
//! restarts, or if two candidates led.
#![allow(clippy::disallowed_methods)] // the tasks are owned

mod elections;
mod peer;
mod troubles;
mod worker;

use std::process::ExitCode;
use tools::Failure;

const NAMES: [&str; 5] = ["stalled", "cut-off", "stopped", "restarts", "kills"];

#[tokio::main]
async fn main() -> Result<ExitCode, Failure> {
    let mut arguments: Vec<_> = std::env::args().skip(1).collect();
    if arguments == [peer::ROLE] {
        worker::run().await?;
        return Ok(ExitCode::SUCCESS);
    }
    let numbers: Vec<_> = arguments.extract_if(.., |word| word.parse::<usize>().is_ok()).collect();
    let rounds = numbers.first().map_or(Ok(3), |rounds| rounds.parse())?;
    if let Some(unknown) = arguments.iter().find(|name| !NAMES.contains(&name.as_str())) {
        return Err(format!("no `{unknown}`; there are {}", NAMES.join(", ")).into());
    }
    let wants = |name: &&str| arguments.is_empty() || arguments.iter().any(|word| word == name);
    let mut good = true;
    let troubles: Vec<_> = NAMES[..3].iter().copied().filter(wants).collect();
    if !troubles.is_empty() {
        good &= troubles::run(rounds, &troubles).await?;
    }
    if wants(&"restarts") {
        good &= elections::restarts(rounds).await?;
    }
    if wants(&"kills") {
        good &= elections::kills(rounds).await?;
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
