//! The servers, and what they say of themselves.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::process::Command;
use tokio::time::{Instant, sleep};
use zookeeper_recipes::zookeeper_client::{Acls, Client, CreateMode};
use zookeeper_testkit::{Backend, TestEnsemble, TestServer};

use crate::Failure;

const FLAGS: [&str; 4] = [
    // What a session's end writes may take 64 MiB.
    "-Djute.maxbuffer=67108864",
    "-Xmx2g",
    "-XX:TieredStopAtLevel=4",
    // Nodes are counted: no container goes while they are.
    "-Dznode.container.checkIntervalMs=86400000",
];
/// As the sample configuration has it.
const TICK: Duration = Duration::from_secs(2);

/// Nodes in one transaction.
const BATCH: usize = 500;

const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Servers {
    pub(crate) name: &'static str,
    /// Past the proxies of an ensemble, which run in this process.
    pub(crate) connect_string: String,
    processes: Vec<u32>,
    kind: Kind,
    /// Four-letter words so far, which the servers count as packets.
    asked: AtomicU64,
}

enum Kind {
    Single(TestServer),
    Ensemble(TestEnsemble),
}

/// Sums over the members, since they were started; without our own questions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) requests: f64,
    /// Answers and events.
    pub(crate) messages: f64,
    /// The fewest that a member has.
    pub(crate) nodes: f64,
}

impl Servers {
    /// As local processes: their memory is looked at.
    pub(crate) async fn start(members: usize) -> Result<Self, Failure> {
        let (name, kind, ports) = if members == 1 {
            let mut builder = TestServer::builder().backend(Backend::Process).tick_time(TICK);
            for flag in FLAGS {
                builder = builder.jvm_flag(flag);
            }
            let server = builder.start().await?;
            let address = server.connect_string().to_owned();
            ("single", Kind::Single(server), vec![address])
        } else {
            let builder = TestEnsemble::builder(members).backend(Backend::Process);
            let mut builder = builder.tick_time(TICK);
            for flag in FLAGS {
                builder = builder.jvm_flag(flag);
            }
            let ensemble = builder.start().await?;
            let mut addresses = Vec::new();
            for member in ensemble.members() {
                let configuration = member.four_letter_word("conf").await?;
                addresses.push(format!("127.0.0.1:{}", value(&configuration, "clientPort=")?));
            }
            ("ensemble", Kind::Ensemble(ensemble), addresses)
        };
        let processes =
            ports.iter().map(|address| process_at(address)).collect::<Result<_, _>>()?;
        let asked = AtomicU64::new(0);
        Ok(Self { name, connect_string: ports.join(","), processes, kind, asked })
    }

    pub(crate) async fn close(self) -> Result<(), Failure> {
        for process in &self.processes {
            // `jcmd` made it, and a server that is killed leaves it behind.
            let _ = std::fs::remove_file(format!("/tmp/.java_pid{process}"));
        }
        match self.kind {
            Kind::Single(server) => server.close().await?,
            Kind::Ensemble(ensemble) => ensemble.close().await?,
        }
        Ok(())
    }

    async fn ask(&self, word: &str) -> Result<Vec<String>, Failure> {
        let mut answers = Vec::new();
        match &self.kind {
            Kind::Single(server) => answers.push(server.four_letter_word(word).await?),
            Kind::Ensemble(ensemble) => {
                for member in ensemble.members() {
                    answers.push(member.four_letter_word(word).await?);
                }
            }
        }
        Ok(answers)
    }

    pub(crate) async fn counts(&self) -> Result<Counts, Failure> {
        let answers = self.ask("srvr").await?;
        let members = answers.len() as u64;
        let before = self.asked.fetch_add(members, Ordering::Relaxed);
        let mut sum = Counts { nodes: f64::INFINITY, ..Counts::default() };
        for answer in &answers {
            sum.requests += number(answer, "Received: ")?;
            sum.messages += number(answer, "Sent: ")?;
            sum.nodes = sum.nodes.min(number(answer, "Node count: ")?);
        }
        // This very question has been received, and not been answered yet.
        sum.requests -= float(before + members);
        sum.messages -= float(before);
        Ok(sum)
    }

    pub(crate) async fn watches(&self) -> Result<f64, Failure> {
        let answers = self.ask("wchs").await?;
        self.asked.fetch_add(answers.len() as u64, Ordering::Relaxed);
        answers.iter().map(|answer| number(answer, "Total watches:")).sum()
    }

    /// Waits until there are so many nodes.
    pub(crate) async fn nodes_are(&self, nodes: f64) -> Result<(), Failure> {
        let began = Instant::now();
        loop {
            let missing = nodes - self.counts().await?.nodes;
            if missing <= 0.0 {
                return Ok(());
            }
            if began.elapsed() > PATIENCE {
                return Err(format!("{missing} nodes are missing after {PATIENCE:?}").into());
            }
            // Each look costs the server a moment.
            sleep(Duration::from_millis(if missing > 100.0 { 20 } else { 1 })).await;
        }
    }

    /// Waits until clients ask no more than their leases take, and gives the counts then.
    pub(crate) async fn quiet(&self, sessions: usize) -> Result<Counts, Failure> {
        const LOOK: Duration = Duration::from_millis(300);
        // Many that are busy with long answers ask nothing for a moment.
        let looks = 1 + (sessions / 20).min(2);
        let began = Instant::now();
        let mut last = self.counts().await?;
        let mut quiet = 0;
        while began.elapsed() < PATIENCE {
            sleep(LOOK).await;
            let now = self.counts().await?;
            let few = float(1 + sessions as u64 / 4);
            // Answers that clients have not fetched yet are work, too.
            let is_quiet =
                now.requests - last.requests <= few && now.messages - last.messages <= few;
            quiet = if is_quiet { quiet + 1 } else { 0 };
            if quiet == looks {
                return Ok(now);
            }
            last = now;
        }
        Err("the clients do not come to rest".into())
    }

    /// Waits until the sessions of a step that failed are over, so that their ends are not in the next one's figures.
    pub(crate) async fn are_forsaken(&self) -> Result<(), Failure> {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            let answers = self.ask("mntr").await?;
            self.asked.fetch_add(answers.len() as u64, Ordering::Relaxed);
            let left = answers.iter().map(|answer| number(answer, "zk_ephemerals_count\t"));
            if left.sum::<Result<f64, _>>()? == 0.0 {
                return Ok(());
            }
            sleep(Duration::from_millis(500)).await;
        }
        Err("the nodes of a step that failed do not go".into())
    }

    /// Bytes in use in the servers' heaps, rubbish collected. 0 where there is no `jcmd`.
    pub(crate) async fn heap(&self) -> Result<f64, Failure> {
        let mut bytes = 0.0;
        for process in &self.processes {
            let process = process.to_string();
            let mut heap = String::new();
            for command in ["GC.run", "GC.heap_info"] {
                let Ok(output) = Command::new("jcmd").args([&process, command]).output().await
                else {
                    return Ok(0.0);
                };
                heap = String::from_utf8(output.stdout)?;
            }
            for line in heap.lines().filter(|line| line.contains(" total ")) {
                bytes += number(line, "used ")? * 1024.0;
            }
        }
        Ok(bytes)
    }

    /// Makes `parent`, and so many nodes in it, called `name` and their number.
    pub(crate) async fn make(&self, parent: &str, name: &str, n: usize) -> Result<(), Failure> {
        let client = self.client().await?;
        let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
        if parent != "/" {
            client.create(parent, &[], &options).await?;
        }
        let parent = parent.trim_end_matches('/');
        for from in (0..n).step_by(BATCH) {
            let mut batch = client.new_multi_writer();
            for number in from..n.min(from + BATCH) {
                batch.add_create(&format!("{parent}/{name}{number}"), &[], &options)?;
            }
            batch.commit().await?;
        }
        Ok(())
    }

    /// Removes what [`make`](Self::make) made, and what is empty below.
    pub(crate) async fn remove(&self, parent: &str) -> Result<(), Failure> {
        let client = self.client().await?;
        let children = client.list_children(parent).await?;
        for children in children.chunks(BATCH) {
            let mut batch = client.new_multi_writer();
            for child in children {
                batch.add_delete(&format!("{parent}/{child}"), None)?;
            }
            batch.commit().await?;
        }
        Ok(client.delete(parent, None).await?)
    }

    /// For a moment: it asks the servers for signs of life, which would be counted.
    async fn client(&self) -> Result<Client, Failure> {
        let connector = Client::connector().with_session_timeout(Duration::from_secs(30));
        Ok(connector.connect(&self.connect_string).await?)
    }
}

/// The Java process whose configuration names the port.
fn process_at(address: &str) -> Result<u32, Failure> {
    let port = address.rsplit(':').next().unwrap_or_default();
    let wanted = format!("clientPort={port}\n");
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let command = std::fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
        let configuration = command.trim_end_matches('\0').rsplit('\0').next().unwrap_or_default();
        let program = command.split('\0').next().unwrap_or_default();
        let is_java = program.ends_with("java") && configuration.ends_with("zoo.cfg");
        if is_java && std::fs::read_to_string(configuration).is_ok_and(|c| c.contains(&wanted)) {
            return Ok(id);
        }
    }
    Err(format!("no process serves {address}").into())
}

/// The word after `key`.
fn value<'a>(text: &'a str, key: &str) -> Result<&'a str, Failure> {
    let rest = text.split_once(key).ok_or_else(|| format!("no `{key}` in {text:?}"))?.1;
    Ok(rest.split([' ', '\n', ',']).next().unwrap_or_default())
}

fn number(text: &str, key: &str) -> Result<f64, Failure> {
    Ok(value(text, key)?.trim_end_matches('K').parse()?)
}

#[allow(clippy::cast_precision_loss)]
pub(crate) fn float(number: u64) -> f64 {
    number as f64
}
