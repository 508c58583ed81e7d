//! Workers share the shards of a job: each shard has one worker, and the workers that are alive have about the same number.
//!
//! `cargo run --example sharded_workers -- NAME`, with `ZOOKEEPER_CONNECT` set, is a worker. Without arguments it plays a
//! demonstration, against a ZooKeeper that the testkit starts: four worker processes and 64 shards. One worker is killed, another one
//! is stopped and continues later, and their shards move. The demonstration fails if two workers have one shard, or if a shard has none
//! for longer than a session and a moment.
//!
//! A slot gives each worker a number that no other one has, and a membership under that number says that it is alive. Each worker
//! computes its share from the members. Two workers may see different members for a moment, so each shard has a mutex: a worker works
//! on a shard only while it holds that.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::error::Error;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};
use zookeeper_recipes::group::Members;
use zookeeper_recipes::session::ConnectionState;
use zookeeper_recipes::{CancellationToken, Curator, SlotHold};
use zookeeper_testkit::{TestServer, random_path};

type Fault = Box<dyn Error + Send + Sync>;

const WORKERS: usize = 4;
const SHARDS: usize = 64;
/// How long the shards of a dead worker stay taken. Short, for the demonstration.
const SESSION_TIMEOUT: Duration = Duration::from_secs(6);

/// Works until it is killed. After a loss of its slot it takes part again.
async fn worker(name: &str) -> Result<(), Fault> {
    let namespace = env::var("NAMESPACE").unwrap_or_else(|_| "/sharded".to_owned());
    let servers = env::var("ZOOKEEPER_CONNECT").map_err(|_| "ZOOKEEPER_CONNECT is not set")?;
    let curator = Curator::builder().namespace(&namespace).identity(name);
    let curator = curator.session_timeout(SESSION_TIMEOUT).connect(&servers).await?;
    let slots = curator.slots("/slots", WORKERS)?;
    loop {
        let ended = slots.run(async |slot| share(name, &curator, slot).await).await;
        if curator.state() == ConnectionState::Closed {
            return ended;
        }
        eprintln!("{name} takes part again: {ended:?}");
    }
}

/// Works on the share of this worker, which changes with the members.
async fn share(name: &str, curator: &Curator, slot: SlotHold) -> Result<(), Fault> {
    let id = format!("{:02}", slot.index());
    let _membership = curator.group_member("/workers", &id)?.with_data(name).join().await?;
    let mut observer = curator.observe_group("/workers")?;
    // Dropping a shard's task releases the shard.
    let mut shards = BTreeMap::new();
    loop {
        let members = observer.changed().await?;
        let wanted = share_of(&id, &members);
        let given_up: Vec<_> =
            shards.keys().filter(|shard| !wanted.contains(shard)).copied().collect();
        for shard in given_up {
            if let Some(shard) = shards.remove(&shard) {
                Shard::give_up(shard).await;
            }
        }
        for shard in wanted {
            shards.entry(shard).or_insert_with(|| Shard::take(name, curator, shard));
        }
    }
}

/// Every worker that sees the same members comes to the same result.
fn share_of(id: &str, members: &Members) -> BTreeSet<usize> {
    let Some(place) = members.ids().position(|member| member == id) else {
        return BTreeSet::new();
    };
    (0..SHARDS).filter(|shard| shard % members.len() == place).collect()
}

/// A shard of this worker's share, and the task that works on it.
struct Shard {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Shard {
    #[allow(clippy::disallowed_methods)] // the shard owns its task
    fn take(name: &str, curator: &Curator, shard: usize) -> Self {
        let stop = CancellationToken::new();
        let (name, curator, stopped) = (name.to_owned(), curator.clone(), stop.clone());
        let task = tokio::spawn(async move {
            // A lost lock is acquired again, as long as the shard is of this share.
            while let Some(Err(error)) =
                stopped.run_until_cancelled(work(&name, &curator, shard)).await
            {
                eprintln!("{name} has lost shard {shard}: {error}");
                if curator.state() == ConnectionState::Closed {
                    return;
                }
            }
        });
        Self { stop, task }
    }

    /// Waits until the work has ended, before the next worker can begin.
    async fn give_up(mut self) {
        self.stop.cancel();
        let _ = (&mut self.task).await;
    }
}

impl Drop for Shard {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn work(name: &str, curator: &Curator, shard: usize) -> Result<(), Fault> {
    /// Printed also if the work is dropped.
    struct Working<'a>(&'a str, usize);
    impl Drop for Working<'_> {
        fn drop(&mut self) {
            println!("{} ends {}", self.0, self.1);
        }
    }
    let lock = curator.mutex(format!("/shards/{shard}"))?;
    lock.run(async |_hold| {
        println!("{name} begins {shard}");
        let _working = Working(name, shard);
        // Stands for the work, which passes the hold's fencing token to what it writes to.
        std::future::pending().await
    })
    .await
}

// From here on: the demonstration.

struct Demonstration {
    workers: BTreeMap<String, Child>,
    /// The worker of each shard.
    owners: BTreeMap<usize, String>,
    lines: Lines<BufReader<pipe::Receiver>>,
}

impl Demonstration {
    fn start(servers: &str) -> Result<Self, Fault> {
        let namespace = random_path("sharded");
        // All write to one pipe, so its lines are in the order in which they were written.
        let (writer, reader) = pipe::pipe()?;
        let writer = writer.into_blocking_fd()?;
        let mut workers = BTreeMap::new();
        for name in ["a", "b", "c", "d"] {
            let mut command = Command::new(env::current_exe()?);
            command.arg(name).env("ZOOKEEPER_CONNECT", servers).env("NAMESPACE", &namespace);
            command.stdout(writer.try_clone()?).stderr(Stdio::null()).kill_on_drop(true);
            workers.insert(name.to_owned(), command.spawn()?);
        }
        Ok(Self { workers, owners: BTreeMap::new(), lines: BufReader::new(reader).lines() })
    }

    /// Reads what the workers write until each of these has its share.
    async fn shares(&mut self, workers: &[&str], limit: Duration) -> Result<(), Fault> {
        let least = SHARDS / workers.len();
        let began = Instant::now();
        loop {
            let count =
                |worker: &str| self.owners.values().filter(|owner| *owner == worker).count();
            if self.owners.len() == SHARDS && workers.iter().all(|worker| count(worker) >= least) {
                break;
            }
            let line = timeout_at(began + limit, self.lines.next_line()).await;
            let line = line.map_err(|_| format!("a shard has no worker: {:?}", self.owners))?;
            let line = line?.ok_or("the workers have ended")?;
            let [name, what, shard] = line.split(' ').collect::<Vec<_>>()[..] else {
                return Err(line.into());
            };
            let shard = shard.parse()?;
            if what == "begins" {
                let other = self.owners.insert(shard, name.to_owned());
                assert_eq!(other, None, "{name} begins shard {shard}, which another one has");
            } else if self.owners.get(&shard).is_some_and(|owner| owner == name) {
                self.owners.remove(&shard);
            }
        }
        let shares = workers.iter().map(|worker| {
            let share = self.owners.values().filter(|owner| owner == worker).count();
            format!("{worker} has {share}")
        });
        println!("after {:.1?}: {}", began.elapsed(), shares.collect::<Vec<_>>().join(", "));
        Ok(())
    }

    /// The shards of a worker that does not run are free for the others.
    fn is_absent(&mut self, name: &str) {
        self.owners.retain(|_, owner| owner != name);
    }

    fn signal(&self, name: &str, signal: Signal) -> Result<(), Fault> {
        let id = self.workers.get(name).and_then(Child::id).ok_or("no such worker")?;
        Ok(kill(Pid::from_raw(id.try_into()?), signal)?)
    }
}

async fn demonstrate(servers: &str) -> Result<(), Fault> {
    // A session that ends is noticed when it is over, and the others then need a moment.
    let limit = SESSION_TIMEOUT * 2;
    let mut demonstration = Demonstration::start(servers)?;
    demonstration.shares(&["a", "b", "c", "d"], limit).await?;
    println!("a is killed");
    demonstration.signal("a", Signal::SIGKILL)?;
    demonstration.is_absent("a");
    demonstration.shares(&["b", "c", "d"], limit).await?;
    println!("b is stopped");
    demonstration.signal("b", Signal::SIGSTOP)?;
    demonstration.is_absent("b");
    demonstration.shares(&["c", "d"], limit).await?;
    println!("b continues, finds its shards lost, and takes part again");
    demonstration.signal("b", Signal::SIGCONT)?;
    demonstration.shares(&["b", "c", "d"], limit).await
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
