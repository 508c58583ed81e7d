//! Workers share the shards of a job: at most N work at a time, and only one on each shard.
//!
//! `cargo run --example sharded_workers -- NAME`, with `ZOOKEEPER_CONNECT` set, is a worker for the shards that are nodes
//! below `/sharded/shards`. Without arguments it plays a demonstration, against `ZOOKEEPER_CONNECT` or a ZooKeeper that the
//! testkit starts: four worker processes, two leases and eight shards. One worker is killed, and another continues its
//! shard. The demonstration fails if three workers work at a time, or two on one shard.
//!
//! A semaphore limits the load on what all shards share, such as a database; a mutex for each shard says which worker has
//! it. A worker takes a lease first, then a shard, so that no two workers wait for each other. (Workers that keep a shard
//! for as long as they live take its mutex, and no lease.)

use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};
use zookeeper_recipes::zookeeper_client::{Acls, CreateMode};
use zookeeper_recipes::{Curator, Guard, Hold};
use zookeeper_testkit::{TestServer, random_path};

type Fault = Box<dyn Error + Send + Sync>;

/// All processes must use the same limit.
const AT_A_TIME: usize = 2;
const LEASES: &str = "/leases";
/// A persistent node for each shard. Its data is the number of steps that are done.
const SHARDS: &str = "/shards";
const STEPS: u32 = 5;
/// How long the lease and the shard of a dead worker stay taken. Short, for the demonstration.
const SESSION_TIMEOUT: Duration = Duration::from_secs(6);

/// Works until nothing is left to do.
async fn worker(name: &str) -> Result<(), Fault> {
    let namespace = env::var("NAMESPACE").unwrap_or_else(|_| "/sharded".to_owned());
    let servers = env::var("ZOOKEEPER_CONNECT").map_err(|_| "ZOOKEEPER_CONNECT is not set")?;
    let curator = connect(name, &servers, &namespace).await?;
    let leases = curator.semaphore(LEASES, AT_A_TIME)?;
    while leases.run(async |_lease| one_shard(name, &curator).await).await? {}
    curator.close().await;
    Ok(())
}

/// Works on a shard that is not done; `false` when all are done.
async fn one_shard(name: &str, curator: &Curator) -> Result<bool, Fault> {
    let Some((shard, guard)) = take_shard(curator).await? else { return Ok(false) };
    println!("{name} begins {shard} at {}", steps_done(curator, &shard).await?);
    let worked = guard.run(async |hold| work(curator, &shard, hold).await).await;
    println!("{name} ends {shard}");
    worked.map(|()| true)
}

/// A shard that is not done, and on which no other process works; `None` when all are done.
async fn take_shard(curator: &Curator) -> Result<Option<(String, Guard)>, Fault> {
    loop {
        let mut busy = None;
        for shard in curator.client()?.list_children(SHARDS).await? {
            // May be out of date; but what is done stays done.
            if steps_done(curator, &shard).await? == STEPS {
                continue;
            }
            let lock = curator.mutex_for("/locks", &shard)?;
            match lock.try_acquire().await {
                // Under the lock it is not: our server has seen the deletion of the last holder's node, and that
                // holder's writes come before it.
                Ok(guard) if steps_done(curator, &shard).await? < STEPS => {
                    return Ok(Some((shard, guard)));
                }
                Ok(guard) => drop(guard.release().await?),
                Err(error) if error.is_busy() => busy = Some(lock),
                Err(error) => return Err(error.into()),
            }
        }
        match busy {
            None => return Ok(None),
            // Other workers have all that are left. Waiting wastes no lease: there is no shard to use it for.
            Some(lock) => drop(lock.acquire().await?.release().await?),
        }
    }
}

async fn work(curator: &Curator, shard: &str, hold: Hold) -> Result<(), Fault> {
    for step in steps_done(curator, shard).await?..STEPS {
        // Stands for the work. A step whose end is not written is done again by the next worker.
        sleep(Duration::from_millis(100)).await;
        // ZooKeeper refuses it once another worker may have the shard.
        hold.fenced().set(&node(shard), (step + 1).to_string().as_bytes()).await?;
    }
    Ok(())
}

async fn steps_done(curator: &Curator, shard: &str) -> Result<u32, Fault> {
    let (done, _) = curator.client()?.get_data(&node(shard)).await?;
    Ok(String::from_utf8(done)?.parse()?)
}

fn node(shard: &str) -> String {
    format!("{SHARDS}/{shard}")
}

async fn connect(name: &str, servers: &str, namespace: &str) -> Result<Curator, Fault> {
    let builder = Curator::builder().namespace(namespace).identity(name);
    Ok(builder.session_timeout(SESSION_TIMEOUT).connect(servers).await?)
}

// From here on: the demonstration.

async fn demonstrate(servers: &str) -> Result<(), Fault> {
    let namespace = random_path("sharded");
    let curator = connect("demonstration", servers, &namespace).await?;
    let client = curator.client()?;
    let persistent = CreateMode::Persistent.with_acls(Acls::anyone_all());
    client.create(SHARDS, b"", &persistent).await?;
    for shard in 0..8 {
        client.create(&node(&format!("shard-{shard}")), b"0", &persistent).await?;
    }

    // All write to one pipe, so its lines are in the order in which they were written.
    let (writer, reader) = pipe::pipe()?;
    let writer = writer.into_blocking_fd()?;
    let mut workers: BTreeMap<_, Child> = BTreeMap::new();
    for name in ["a", "b", "c", "d"] {
        let mut command = Command::new(env::current_exe()?);
        command.arg(name).env("ZOOKEEPER_CONNECT", servers).env("NAMESPACE", &namespace);
        command.stdout(writer.try_clone()?).kill_on_drop(true);
        workers.insert(name.to_owned(), command.spawn()?);
    }
    drop(writer); // the pipe ends with the last worker

    let (mut working, mut ended, mut killed) = (BTreeMap::new(), 0, None);
    let mut lines = BufReader::new(reader).lines();
    while let Some(line) = lines.next_line().await? {
        println!("{line}");
        let words: Vec<_> = line.split(' ').collect();
        let (name, shard) = (words[0].to_owned(), words[2].to_owned());
        if killed.as_ref() == Some(&name) {
            continue; // written before it was killed
        }
        if words[1] == "ends" {
            working.remove(&name);
            ended += 1;
            continue;
        }
        assert!(!working.values().any(|other| *other == shard), "two work on {shard}");
        working.insert(name.clone(), shard);
        assert!(working.len() <= AT_A_TIME, "too many work at a time: {working:?}");
        if killed.is_none() && ended > 0 && working.len() == AT_A_TIME {
            sleep(Duration::from_millis(250)).await; // so that it has something to show
            workers.remove(&name).ok_or("no such worker")?.kill().await?;
            println!("{name} is killed; its lease and its shard are free when its session is over");
            working.remove(&name);
            killed = Some(name);
        }
    }
    for (name, mut worker) in workers {
        if !worker.wait().await?.success() {
            return Err(format!("{name} failed").into());
        }
    }

    let shards = client.list_children(SHARDS).await?;
    for shard in &shards {
        assert_eq!(steps_done(&curator, shard).await?, STEPS);
        client.delete(&node(shard), None).await?;
    }
    client.delete(SHARDS, None).await?;
    assert!(killed.is_some(), "never did {AT_A_TIME} work at a time");
    println!("{} shards are done, by {AT_A_TIME} workers at a time", shards.len());
    curator.close().await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Fault> {
    if let Some(name) = env::args().nth(1) {
        return worker(&name).await;
    }
    let server = TestServer::start().await?;
    println!("ZooKeeper runs as {} at {}", server.backend(), server.connect_string());
    let done = timeout(Duration::from_secs(120), demonstrate(server.connect_string())).await;
    server.close().await?;
    done?
}
