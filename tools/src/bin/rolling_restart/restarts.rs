//! The servers are restarted, one after the other.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use zookeeper_recipes::zookeeper_client::{Acls, Client, CreateMode};
use zookeeper_testkit::{Role, TestEnsemble, random_path};

use crate::event::now;
use crate::log::{Kind, Log};
use crate::processes::Process;
use crate::quorum::Outages;
use crate::tally::Tally;
use crate::{CANDIDATES, Failure, SESSION_TIMEOUT, TICK};

/// A JVM that starts on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// When a member was restarted, and whether it led the others.
struct Restart {
    at: Duration,
    led: bool,
}

/// How long the servers may be without a quorum, a quarter of the session: with the two fifths for which the client waits for
/// a silent server, that is less than the lease.
const QUORUM_LIMIT: Duration = Duration::from_millis(1_500);
const TRIES: usize = 5;

/// What came of all rounds.
enum Outcome {
    Kept,
    Lost,
    /// Our leadership was lost, and the servers had no quorum for too long to tell why: the machine was too busy.
    Undecided,
}

/// With a pause in which all serve after each restart. Whether our leadership never changed.
pub(crate) async fn run(rounds: usize, pause: Duration) -> Result<bool, Failure> {
    for _ in 0..TRIES {
        let ensemble = TestEnsemble::builder(3).tick_time(TICK).start().await?;
        let result = restarted(&ensemble, rounds, pause).await;
        ensemble.close().await?;
        match result? {
            Outcome::Kept => return Ok(true),
            Outcome::Lost => return Ok(false),
            Outcome::Undecided => {
                println!("no quorum for more than {QUORUM_LIMIT:?}: this run does not count");
            }
        }
    }
    Err(format!("{TRIES} times without a quorum for more than {QUORUM_LIMIT:?}").into())
}

async fn restarted(
    ensemble: &TestEnsemble,
    rounds: usize,
    pause: Duration,
) -> Result<Outcome, Failure> {
    let (mut log, processes) = candidates(ensemble.connect_string()).await?;
    let kinds: Vec<_> = [Kind::Ours, Kind::Curator].into_iter().filter(|k| log.has(*k)).collect();
    let mut outages = Outages::default();
    let restarts = tokio::select! {
        restarts = restart_all(ensemble, &mut log, rounds, pause) => restarts?,
        never = outages.watch(ensemble) => match never {},
    };
    for kind in &kinds {
        log.calm(*kind, PATIENCE).await?;
    }
    drop(processes);
    let led = restarts.iter().filter(|restart| restart.led).count();
    println!(
        "\n{} restarts of a server, {led} of them the leader of the servers, {pause:?} apart; sessions of \
         {SESSION_TIMEOUT:?}, {CANDIDATES} candidates of each kind\n\
         without a quorum                {} times, {:.2} s in all, at most {:.2} s",
        restarts.len(),
        outages.count,
        outages.total.as_secs_f64(),
        outages.longest.as_secs_f64()
    );
    let mut outcome = Outcome::Kept;
    for kind in &kinds {
        let tally = Tally::of(&log.of(*kind), now());
        print(*kind, &tally, &restarts);
        if *kind == Kind::Ours {
            let is_long = outages.longest > QUORUM_LIMIT;
            outcome = match (tally.faults.is_empty(), tally.losses.is_empty()) {
                (true, true) => Outcome::Kept,
                (true, false) if is_long => Outcome::Undecided,
                _ => Outcome::Lost,
            };
        }
    }
    Ok(outcome)
}

/// All of them stand, and one of each kind leads.
async fn candidates(servers: &str) -> Result<(Log, Vec<Process>), Failure> {
    let root = random_path("rolling-restart");
    let (ours, curators) = (format!("{root}/ours"), format!("{root}/curator"));
    let (sender, mut log) = Log::new();
    let admin = Client::connect(servers).await?;
    for path in [&ours, &curators] {
        admin.mkdir(path, &CreateMode::Persistent.with_acls(Acls::anyone_all())).await?;
    }
    let mut processes = Vec::new();
    for number in 0..CANDIDATES {
        processes.push(Process::ours(number, servers, &ours, sender.clone())?);
    }
    all_stand(&admin, &ours).await?;
    log.calm(Kind::Ours, PATIENCE).await?;
    if let Some(process) = Process::curators(servers, &curators, sender)? {
        processes.push(process);
        all_stand(&admin, &curators).await?;
        log.calm(Kind::Curator, PATIENCE).await?;
    }
    Ok((log, processes))
}

/// Until every candidate has its node.
pub(crate) async fn all_stand(admin: &Client, path: &str) -> Result<(), Failure> {
    let all = async {
        loop {
            let (children, watcher) = admin.list_and_watch_children(path).await?;
            if children.len() >= CANDIDATES {
                return Ok(());
            }
            watcher.changed().await;
        }
    };
    timeout(PATIENCE, all).await?
}

/// One after the other, each awaited until all serve.
async fn restart_all(
    ensemble: &TestEnsemble,
    log: &mut Log,
    rounds: usize,
    pause: Duration,
) -> Result<Vec<Restart>, Failure> {
    let mut restarts = Vec::new();
    for round in 1..=rounds {
        for member in ensemble.members() {
            let led = member.role().await? == Role::Leader;
            restarts.push(Restart { at: now(), led });
            member.restart().await?;
            ensemble.serving().await?;
            sleep(pause).await;
        }
        let mut losses = |kind| Tally::of(&log.of(kind), now()).losses.len();
        let (ours, curators) = (losses(Kind::Ours), losses(Kind::Curator));
        println!(
            "restarts: round {round} of {rounds}: lost so far: {ours}, by Curator's {curators}"
        );
    }
    Ok(restarts)
}

fn print(kind: Kind, tally: &Tally, restarts: &[Restart]) {
    // During which restart, or after it.
    let of_leader = |lost: &&Duration| {
        restarts.iter().rev().find(|restart| restart.at <= **lost).is_some_and(|r| r.led)
    };
    let with_leader = tally.losses.iter().filter(of_leader).count();
    let Tally { disconnections, of_leaders, longest, losses, another, without, faults } = tally;
    println!("{kind}");
    println!(
        "  connections broken            {disconnections}, {of_leaders} of them the leader's; at most {:.2} s",
        longest.as_secs_f64()
    );
    println!(
        "  leadership lost               {}, {with_leader} of them with the servers' leader",
        losses.len()
    );
    println!("  another candidate led next    {another}");
    println!("  longest time without a leader {:.2} s", without.as_secs_f64());
    for fault in faults {
        println!("  FAULT: {fault}");
    }
}
