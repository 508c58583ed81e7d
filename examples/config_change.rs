//! A change of two settings that belong together: whoever reads gets both old or both new.
//!
//! `cargo run --example config_change` runs against `ZOOKEEPER_CONNECT`, or a ZooKeeper that the testkit starts. Three
//! readers follow an address and the password that goes with it, each a node. A writer changes both, under a write lock,
//! and goes on reading (a down-grade) while it switches over itself; the next one fails half-way, and the one after it
//! mends that. It prints what each reader takes, and fails if one took halves of two changes.
//!
//! A lock is no transaction: a writer that dies between its two writes leaves the first one. So each half says of which
//! change it is, and a reader that finds two keeps what it has. (For two small nodes in one ZooKeeper, a transaction of the
//! client's does: `MultiWriter`. The lock is for what takes longer, or is kept in several places.)

use std::error::Error;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::sleep;
use zookeeper_recipes::zookeeper_client::{Acls, CreateMode};
use zookeeper_recipes::{Curator, InterProcessReadWriteLock, ReadGuard};
use zookeeper_testkit::{TestServer, random_path};

type Fault = Box<dyn Error + Send + Sync>;

const LOCK: &str = "/config/lock";
const ADDRESS: &str = "/config/address";
const PASSWORD: &str = "/config/password";
const READERS: [&str; 3] = ["anna", "bert", "cleo"];

/// What a node says: of which change it is, and the value.
#[derive(Debug)]
struct Half {
    change: u64,
    value: String,
}

impl Half {
    fn of(data: &[u8]) -> Result<Self, Fault> {
        let (change, value) = std::str::from_utf8(data)?.split_once(' ').ok_or("no number")?;
        Ok(Self { change: change.parse()?, value: value.to_owned() })
    }

    fn data(change: u64, value: &str) -> Vec<u8> {
        format!("{change} {value}").into_bytes()
    }
}

/// What a reader saw: its name, and the pair if both halves are of one change.
type Seen = (&'static str, Option<(Half, Half)>);

/// Follows the pair, until something fails; a service would begin anew then.
async fn follow(
    name: &'static str,
    curator: Curator,
    seen: UnboundedSender<Seen>,
) -> Result<(), Fault> {
    let lock = InterProcessReadWriteLock::new(&curator, LOCK)?;
    loop {
        let guard = lock.read().acquire().await?;
        let client = curator.client()?;
        // What a writer writes first. The watch comes with the read, so no change between the two is missed.
        let (address, _, changes) = client.get_and_watch_data(ADDRESS).await?;
        let (password, _) = client.get_data(PASSWORD).await?;
        guard.release().await?; // an error if the lock was not held to the end: then this may be no pair

        let (address, password) = (Half::of(&address)?, Half::of(&password)?);
        let whole = address.change == password.change;
        seen.send((name, whole.then_some((address, password))))?;
        changes.changed().await; // the writer has begun: the lock waits until it has done
    }
}

/// Writes both, and goes on reading: the guard lets readers in, and no other writer.
async fn change(curator: &Curator, values: [&str; 2], fails: bool) -> Result<ReadGuard, Fault> {
    let guard = InterProcessReadWriteLock::new(curator, LOCK)?.write().acquire().await?;
    let client = curator.client()?;
    let (address, password) =
        (client.get_data(ADDRESS).await?.0, client.get_data(PASSWORD).await?.0);
    // Greater than either: the one before may have failed half-way.
    let change = Half::of(&address)?.change.max(Half::of(&password)?.change) + 1;
    // Refused if the lock was lost unnoticed.
    let fenced = guard.fenced();
    fenced.set(ADDRESS, &Half::data(change, values[0])).await?;
    sleep(Duration::from_millis(50)).await; // stands for what takes longer
    if fails {
        return Err("no more memory, say".into()); // the guard is dropped, and the lock is free
    }
    fenced.set(PASSWORD, &Half::data(change, values[1])).await?;
    Ok(guard.downgrade().await?)
}

#[tokio::main]
async fn main() -> Result<(), Fault> {
    // An existing server if `ZOOKEEPER_CONNECT` names one, else a container or a local process.
    let server = TestServer::start().await?;
    println!("ZooKeeper runs as {} at {}", server.backend(), server.connect_string());

    // Sessions of their own, as of so many processes.
    let namespace = random_path("config-change");
    let connect = || Curator::builder().namespace(&namespace).connect(server.connect_string());
    let writer = connect().await?;
    let client = writer.client()?;
    let persistent = CreateMode::Persistent.with_acls(Acls::anyone_all());
    client.create("/config", b"", &CreateMode::Container.with_acls(Acls::anyone_all())).await?;
    client.create(ADDRESS, &Half::data(1, "db-1.example:5432"), &persistent).await?;
    client.create(PASSWORD, &Half::data(1, "one"), &persistent).await?;

    let (sender, mut seen) = unbounded_channel();
    let mut readers = JoinSet::new();
    for name in READERS {
        readers.spawn(follow(name, connect().await?, sender.clone()));
    }
    drop(sender); // so that the channel ends with the last reader
    all_take(&mut seen, Some("db-1.example:5432 with one")).await?;

    println!("the writer changes both");
    let reading = change(&writer, ["db-2.example:5432", "two"], false).await?;
    all_take(&mut seen, Some("db-2.example:5432 with two")).await?;
    let others = InterProcessReadWriteLock::new(&writer, LOCK)?;
    assert!(others.write().try_acquire().await?.is_none());
    println!("the writer switches over, too; nobody else can write until it has");
    reading.release().await?;

    println!("the next writer fails after the first half");
    let failed = change(&writer, ["db-3.example:5432", "three"], true).await;
    println!("it says: {}", failed.err().ok_or("it did not fail")?);
    all_take(&mut seen, None).await?;

    println!("the one after it writes both anew");
    change(&writer, ["db-4.example:5432", "four"], false).await?.release().await?;
    all_take(&mut seen, Some("db-4.example:5432 with four")).await?;

    readers.shutdown().await; // their curators go with them
    for path in [ADDRESS, PASSWORD] {
        client.delete(path, None).await?; // else they would stay
    }
    drop(client);
    writer.close().await?;
    server.close().await?;
    Ok(())
}

/// Waits until each reader has seen `expected`, and nothing else before it.
async fn all_take(seen: &mut UnboundedReceiver<Seen>, expected: Option<&str>) -> Result<(), Fault> {
    for _ in READERS {
        let (name, pair) = seen.recv().await.ok_or("the readers have ended")?;
        let text =
            pair.map(|(address, password)| format!("{} with {}", address.value, password.value));
        match &text {
            Some(text) => println!("  {name} takes {text}"),
            None => println!("  {name} finds halves of two changes, and keeps what it has"),
        }
        assert_eq!(text.as_deref(), expected);
    }
    Ok(())
}
