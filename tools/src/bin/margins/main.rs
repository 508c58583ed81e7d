//! Only this tool shows, on a real quorum in trouble, that a holder knows of a loss before its node is deleted, and that a rolling
//! restart or upgrade of the servers loses no hold: `make margins` and `make soak RECIPE=upgrade`. Apache Curator does the same next
//! to this crate, where a JDK and its jars are installed.
//!
//! Arguments: a number of rounds (3), and names of what is measured (all):
//!
//! * `stalled`: the holders' link stalls.
//! * `cut-off`: the follower that they are connected to is cut off from its leader.
//! * `stopped`: the servers' leader is stopped for four seconds.
//! * `restarts`: in each round every server is restarted, one after the other.
//! * `kills`: in each round the leader's process is killed.
//! * `upgrade`, only by name: `upgrade/mod.rs` has its settings.
//!
//! It exits with 1 if a holder of ours saw itself as the holder when its node was deleted, if a hold of ours was lost during
//! restarts or an upgrade, or if two candidates led.
#![allow(clippy::disallowed_methods)] // the tasks are owned

mod kills;
mod peer;
mod troubles;
mod upgrade;
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
    if arguments == ["upgrade"] {
        return Ok(exit_code(upgrade::upgrades().await?));
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
        good &= upgrade::restarts(rounds).await?;
    }
    if wants(&"kills") {
        good &= kills::kills(rounds).await?;
    }
    Ok(exit_code(good))
}

fn exit_code(is_good: bool) -> ExitCode {
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
