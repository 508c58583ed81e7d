//! How long before the servers delete its node a holder knows that it lost the lock: `make margins`.
//!
//! A real quorum of three. In the first scenarios a tick is a second: the holders' link stalls; the follower that they are
//! connected to is cut off from its leader, while they still reach it; the leader is frozen for four seconds. In the
//! last one a tick is 200 ms: the holders' link stalls, and right behind the first answers the follower is cut off.
//! Beside our holders stand two simpler leases, and, where a JDK and Apache Curator are installed, Curator's mutex
//! and latch.
//!
//! The argument says how many rounds (3). Exits with 1 if one of our holders believed too long.
#![allow(clippy::disallowed_methods)] // the tasks are owned; these clocks are compared within one process only

mod curator;
mod holders;
mod report;
mod scenario;

use std::process::ExitCode;
use std::time::Duration;

use zookeeper_recipes::testkit::TestEnsemble;

use self::report::Report;
use self::scenario::{Scenario, Stage};

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<ExitCode, Failure> {
    let rounds = std::env::args().nth(1).map_or(Ok(3), |argument| argument.parse())?;
    let seconds = Duration::from_secs;
    let mut report = Report::default();

    // As the sample configuration has it: a follower gives up on its leader after five ticks.
    let quorum = TestEnsemble::builder(3).tick_time(seconds(1)).property("syncLimit", "5");
    let ensemble = quorum.start().await?;
    let mut stage = Stage::new(ensemble, &[seconds(2), seconds(3), seconds(6)], true).await?;
    for scenario in [Scenario::LinkStalled, Scenario::FollowerCutOff, Scenario::LeaderFrozen] {
        report.measure(&mut stage, scenario, rounds).await?;
    }
    stage.close().await?;

    let ensemble = TestEnsemble::builder(3).tick_time(Duration::from_millis(200)).start().await?;
    let mut stage = Stage::new(ensemble, &[seconds(6)], false).await?;
    report.measure(&mut stage, Scenario::LateProbe, rounds).await?;
    stage.close().await?;

    report.print();
    Ok(if report.is_safe() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
