//! The leader's process is killed.

use std::collections::BTreeMap;
use std::time::Duration;

use zookeeper_recipes::zookeeper_client::{Acls, Client, CreateMode};
use zookeeper_testkit::{TestEnsemble, random_path};

use crate::event::{Event, What, now};
use crate::log::{Kind, Log};
use crate::processes::Process;
use crate::restarts::all_stand;
use crate::tally::Tally;
use crate::{CANDIDATES, Failure, SESSION_TIMEOUT, TICK};

/// The session's time, and a busy machine's.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether never two led.
pub(crate) async fn run(rounds: usize) -> Result<bool, Failure> {
    let ensemble = TestEnsemble::builder(3).tick_time(TICK).start().await?;
    let result = killed(&ensemble, rounds).await;
    ensemble.close().await?;
    result
}

async fn killed(ensemble: &TestEnsemble, rounds: usize) -> Result<bool, Failure> {
    let servers = ensemble.connect_string();
    let path = random_path("takeover");
    let (sender, mut log) = Log::new();
    let admin = Client::connect(servers).await?;
    admin.mkdir(&path, &CreateMode::Persistent.with_acls(Acls::anyone_all())).await?;
    let mut processes = BTreeMap::new();
    for number in 0..CANDIDATES {
        processes.insert(number, Process::ours(number, servers, &path, sender.clone())?);
    }
    let mut leader = log.leader(Kind::Ours, Duration::ZERO, PATIENCE).await?;
    let mut took = Vec::new();
    for round in 1..=rounds {
        all_stand(&admin, &path).await?;
        let mut process = processes.remove(&leader.candidate).ok_or("a stranger leads")?;
        let candidate = leader.candidate;
        let killed = process.kill().await?;
        log.add(Kind::Ours, Event { candidate, what: What::Lost, at: killed, token: 0 });
        leader = log.leader(Kind::Ours, killed, PATIENCE).await?;
        took.push(leader.at.saturating_sub(killed));
        let (time, next) = (took[took.len() - 1].as_secs_f64(), leader.candidate);
        println!("kills: round {round} of {rounds}: candidate {next} leads after {time:.2} s");
        let number = CANDIDATES + round - 1;
        processes.insert(number, Process::ours(number, servers, &path, sender.clone())?);
    }
    let tally = Tally::of(&log.of(Kind::Ours), now());
    print(&mut took, &tally);
    Ok(tally.faults.is_empty())
}

fn print(took: &mut [Duration], tally: &Tally) {
    took.sort();
    let bound = SESSION_TIMEOUT * 11 / 10 + TICK;
    let within = took.iter().filter(|time| **time <= bound).count();
    let (count, timeout) = (took.len(), SESSION_TIMEOUT);
    println!(
        "\n{count} times SIGKILL of the leader's process, sessions of {timeout:?}, ticks of {TICK:?}"
    );
    let at = |index: usize| took.get(index).map_or(0.0, Duration::as_secs_f64);
    let (least, median, most) = (at(0), at(count / 2), at(count.saturating_sub(1)));
    println!("  until the next one leads       {least:.2} s, median {median:.2} s, {most:.2} s");
    println!("  within 1.1 T and a tick        {within} of {count} ({:.2} s)", bound.as_secs_f64());
    println!("  two led, or a token went back  {}", tally.faults.len());
    for fault in &tally.faults {
        println!("  FAULT: {fault}");
    }
}
