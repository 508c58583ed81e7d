//! How long before the servers delete its node a holder knows that it lost the lock: `make margins`.
//!
//! A real quorum of three, a tick of one second. The holders' link stalls; the follower that they are connected to is cut
//! off from its leader, while they still reach it; the leader is frozen for four seconds. Beside our holders stands a
//! lease that any read renews, and, where a JDK and Apache Curator are installed, Curator's mutex and latch.
//!
//! Arguments: how many rounds (3), and which of `stalled`, `cut-off`, `frozen` (all). Exits with 1 if one of our holders
//! believed too long.
#![allow(clippy::disallowed_methods)] // the tasks are owned; these clocks are compared within one process only

#[path = "../../../../tests/interop/class_path.rs"]
mod class_path;
mod curator;
mod holders;
mod report;
mod scenario;

use std::process::ExitCode;
use std::time::Duration;

use zookeeper_testkit::TestEnsemble;

use self::report::Report;
use self::scenario::{Scenario, Stage};

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<ExitCode, Failure> {
    let mut arguments = std::env::args().skip(1);
    let rounds = arguments.next().map_or(Ok(3), |rounds| rounds.parse())?;
    let chosen: Vec<_> = arguments.map(|name| name.parse()).collect::<Result<_, _>>()?;
    let all = [Scenario::LinkStalled, Scenario::FollowerCutOff, Scenario::LeaderFrozen];
    // As the sample configuration has it: a follower gives up on its leader after five ticks.
    let second = Duration::from_secs(1);
    let quorum = TestEnsemble::builder(3).tick_time(second).property("syncLimit", "5");
    let mut stage = Stage::new(quorum.start().await?).await?;
    let mut report = Report::default();
    for scenario in all {
        if chosen.is_empty() || chosen.contains(&scenario) {
            report.measure(&mut stage, scenario, rounds).await?;
        }
    }
    stage.close().await?;
    report.print();
    Ok(if report.is_safe() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
