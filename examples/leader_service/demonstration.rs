//! Three processes, of which one leads; two leaders end, one in order and one not.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tokio::time::timeout;
use zookeeper_recipes::zookeeper_client::{Client, Error};
use zookeeper_recipes::{Curator, LeaderObserver, Participant};
use zookeeper_testkit::{TestServer, random_path};

use crate::Fault;
use crate::job::PROGRESS;
use crate::process::Process;
use crate::service::LEADER;

/// Past the session of a leader that died, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) async fn run() -> Result<(), Fault> {
    // An existing server if `ZOOKEEPER_CONNECT` names one, else a container or a local process.
    let server = TestServer::start().await?;
    println!("ZooKeeper runs as {} at {}", server.backend(), server.connect_string());
    let played = play(server.connect_string()).await;
    server.close().await?;
    played
}

async fn play(servers: &str) -> Result<(), Fault> {
    let namespace = random_path("service");
    println!("three processes:");
    let mut processes = Vec::new();
    for name in ['a', 'b', 'c'] {
        processes.push(Process::start(name, servers, &namespace).await?);
    }
    let curator = Curator::builder().namespace(&namespace).connect(servers).await?;
    let mut observer = LeaderObserver::of_latch(&curator, LEADER)?;

    let first = next_leader(&mut observer, None).await?;
    ask_all(&processes, &first).await?;
    let done = job_goes_on(&curator, 0).await?;

    let ended = take(&mut processes, &first)?;
    println!("{} is told to end (SIGTERM):", ended.name);
    let began = Instant::now();
    let (status, second) =
        tokio::join!(ended.end_by(Signal::SIGTERM), next_leader(&mut observer, Some(&first)));
    let (status, second) = (status?, second?);
    println!("handed over, and ended with {status}, within {:?}", began.elapsed());
    if !status.success() {
        return Err("it did not end in order".into());
    }
    ask_all(&processes, &second).await?;
    let done = job_goes_on(&curator, done).await?;

    let killed = take(&mut processes, &second)?;
    println!("{} is killed (SIGKILL):", killed.name);
    let began = Instant::now();
    killed.end_by(Signal::SIGKILL).await?;
    let third = next_leader(&mut observer, Some(&second)).await?;
    println!("its session expired, and the next leads, after {:?}", began.elapsed());
    ask_all(&processes, &third).await?;
    job_goes_on(&curator, done).await?;

    let last = take(&mut processes, &third)?;
    println!("{}, the last, is told to end:", last.name);
    if !last.end_by(Signal::SIGTERM).await?.success() {
        return Err("it did not end in order".into());
    }
    while timeout(PATIENCE, observer.changed()).await??.is_some() {}
    println!("nobody leads");
    tidy_up(&curator, &namespace, servers).await?;
    Ok(curator.close().await?)
}

/// The next that is not `before`.
async fn next_leader(
    observer: &mut LeaderObserver,
    before: Option<&Participant>,
) -> Result<Participant, Fault> {
    let waiting = async {
        loop {
            match observer.changed().await? {
                Some(leader) if before.is_none_or(|before| before.path != leader.path) => {
                    return Ok(leader);
                }
                _ => {}
            }
        }
    };
    timeout(PATIENCE, waiting).await?
}

/// All agree, the leader among them.
async fn ask_all(processes: &[Process], leader: &Participant) -> Result<(), Fault> {
    for process in processes {
        let health = process.health().await?;
        let answer = process.leader(&leader.id()).await?;
        println!(
            "{} is well ({health}) and answers {}",
            process.name,
            serde_json::to_string(&answer)?
        );
        assert_eq!(answer.token, Some(leader.fencing_token().value()), "the leader's token");
    }
    Ok(())
}

fn take(processes: &mut Vec<Process>, leader: &Participant) -> Result<Process, Fault> {
    let place = processes.iter().position(|process| process.address == leader.id());
    Ok(processes.swap_remove(place.ok_or("a stranger leads")?))
}

/// Waits until the present leader has done some steps more than those `before`.
async fn job_goes_on(curator: &Curator, before: u64) -> Result<u64, Fault> {
    let waiting = async {
        loop {
            let done = match curator.client()?.get_data(PROGRESS).await {
                Ok((data, _)) => String::from_utf8_lossy(&data).parse()?,
                Err(Error::NoNode) => 0,
                Err(error) => return Err(error.into()),
            };
            if done >= before + 5 {
                println!("{done} steps of the job are done");
                return Ok(done);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, waiting).await?
}

/// Removes what would stay.
async fn tidy_up(curator: &Curator, namespace: &str, servers: &str) -> Result<(), Fault> {
    curator.client()?.delete(PROGRESS, None).await?;
    let root = Client::connect(servers).await?;
    for path in [format!("{namespace}{LEADER}"), namespace.to_owned()] {
        match root.delete(&path, None).await {
            Ok(()) | Err(Error::NoNode) => {} // the server may have been faster
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
