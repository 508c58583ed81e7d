//! A late write is refused by the database: it compares fencing tokens, for the writer cannot know that it is late.
//!
//! `cargo run --example fencing_database` runs against `ZOOKEEPER_CONNECT`, or a ZooKeeper that the testkit starts; the
//! database is SQLite, in a file. A process takes the lock, looks that it holds it, and is stopped right before it writes
//! (`SIGSTOP`; a suspended machine does the same). Its session expires, the next holder writes, then the first goes on.
//! It prints what became of its write to a column that compares tokens, and to one that does not.

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rusqlite::{Connection, params};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;
use tokio::time::timeout;
use zookeeper_recipes::{Curator, FencingToken, InterProcessMutex};
use zookeeper_testkit::{TestServer, random_path};

const LOCK: &str = "/locks/report";
/// Short, for the demonstration.
const SESSION_TIMEOUT: Duration = Duration::from_secs(6);
/// For a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A row for each thing that a lock guards, with the greatest token that wrote it. All who write it use the same
/// lock: tokens of different lock paths say nothing of each other.
struct Reports(Connection);

impl Reports {
    fn open(file: &Path) -> rusqlite::Result<Self> {
        let database = Connection::open(file)?;
        database.busy_timeout(PATIENCE)?;
        database.execute_batch(
            "CREATE TABLE IF NOT EXISTS report (
                 name TEXT PRIMARY KEY, text TEXT NOT NULL, token INTEGER NOT NULL,
                 unfenced TEXT NOT NULL);
             INSERT OR IGNORE INTO report VALUES ('daily', '', 0, '');",
        )?;
        Ok(Self(database))
    }

    /// To be called by a new holder before it *reads*: from here on nobody before it can write. Without it, a late write
    /// could come between what this holder reads and what it writes, for nothing has told the database of its token yet.
    fn claim(&self, token: FencingToken) -> rusqlite::Result<bool> {
        let claim = "UPDATE report SET token = ?1 WHERE name = 'daily' AND token <= ?1";
        Ok(self.0.execute(claim, [token.value()])? == 1)
    }

    /// Whether it was written. Comparing and writing are one statement; a transaction of several begins with this one, and
    /// rolls back if it changes no row. Equal tokens pass: one hold may write often.
    fn write(&self, token: FencingToken, text: &str) -> rusqlite::Result<bool> {
        let write = "UPDATE report SET text = ?2, token = ?1 WHERE name = 'daily' AND token <= ?1";
        Ok(self.0.execute(write, params![token.value(), text])? == 1)
    }

    /// What not to do.
    fn write_unfenced(&self, text: &str) -> rusqlite::Result<bool> {
        Ok(self.0.execute("UPDATE report SET unfenced = ?1 WHERE name = 'daily'", [text])? == 1)
    }

    fn read(&self) -> rusqlite::Result<(String, String)> {
        let read = "SELECT text, unfenced FROM report WHERE name = 'daily'";
        self.0.query_row(read, [], |row| Ok((row.get(0)?, row.get(1)?)))
    }
}

async fn connect(servers: &str, namespace: &str) -> Result<Curator, Box<dyn Error>> {
    let builder = Curator::builder().namespace(namespace).session_timeout(SESSION_TIMEOUT);
    Ok(builder.connect(servers).await?)
}

/// The process that is stopped.
async fn late_writer(file: &Path) -> Result<(), Box<dyn Error>> {
    // Whoever is stopped cannot see that the demonstration was killed.
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    let curator = connect(&env::var("ZOOKEEPER_CONNECT")?, &env::var("NAMESPACE")?).await?;
    let guard = InterProcessMutex::new(&curator, LOCK)?.acquire().await?;
    let token = guard.fencing_token();
    let reports = Reports::open(file)?;
    assert!(reports.claim(token)?);
    assert!(reports.write(token, "by the first")? && reports.write_unfenced("by the first")?);

    if guard.is_held() {
        println!(
            "the first holds token {token}, has written, looked that it holds, and writes again"
        );
        // Here it is stopped. The line comes when the next holder has written.
        std::io::stdin().read_line(&mut String::new())?;
        let taken = |taken| if taken { "taken" } else { "refused" };
        println!("its late write, with the token: {}", taken(reports.write(token, "late")?));
        println!("its late write, without a token: {}", taken(reports.write_unfenced("late")?));
    }
    match guard.loss() {
        Some(loss) => println!("only now it looks again: {loss}"),
        None => return Err("it was not told".into()),
    }
    drop((guard, curator)); // the session is gone, there is nothing to close
    Ok(())
}

async fn demonstrate(servers: &str, file: &Path) -> Result<(), Box<dyn Error>> {
    let namespace = random_path("fencing");
    let mut child = Command::new(env::current_exe()?)
        .arg(file)
        .env("ZOOKEEPER_CONNECT", servers)
        .env("NAMESPACE", &namespace)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut input = child.stdin.take().ok_or("a process without an input")?;
    let mut lines = BufReader::new(child.stdout.take().ok_or("and without an output")?).lines();
    let process = Pid::from_raw(child.id().ok_or("it has ended")?.try_into()?);
    println!("{}", lines.next_line().await?.ok_or("it ended at once")?);
    kill(process, Signal::SIGSTOP)?;
    println!("the first is stopped");

    // The lock passes on when the servers have not heard of the first for its session's timeout.
    let curator = connect(servers, &namespace).await?;
    let guard = InterProcessMutex::new(&curator, LOCK)?.acquire().await?;
    let token = guard.fencing_token();
    println!("its session expired; the next holds token {token}");
    let reports = Reports::open(file)?;
    assert!(reports.claim(token)?);
    assert_eq!(reports.read()?.0, "by the first", "what was written in time is not lost");
    assert!(reports.write(token, "by the next")? && reports.write_unfenced("by the next")?);

    input.write_all(b"go on\n").await?;
    kill(process, Signal::SIGCONT)?;
    println!("the first goes on");
    while let Some(line) = lines.next_line().await? {
        println!("{line}");
    }
    if !child.wait().await?.success() {
        return Err("the first failed".into());
    }
    let (fenced, unfenced) = reports.read()?;
    println!("the column with tokens holds {fenced:?}, the one without {unfenced:?}");
    assert_eq!(fenced, "by the next", "a late write was taken");
    assert_eq!(unfenced, "late", "nothing was shown: it was not late");

    guard.release().await?;
    curator.close().await?;
    Ok(())
}

/// Where the database is; it goes with this.
struct Folder(PathBuf);

impl Folder {
    fn make() -> std::io::Result<Self> {
        let folder = env::temp_dir().join(random_path("reports").trim_start_matches('/'));
        std::fs::create_dir(&folder)?;
        Ok(Self(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    if let Some(file) = env::args_os().nth(1) {
        return late_writer(Path::new(&file)).await;
    }
    // An existing server if `ZOOKEEPER_CONNECT` names one, else a container or a local process.
    let server = TestServer::start().await?;
    println!("ZooKeeper runs as {} at {}", server.backend(), server.connect_string());
    let folder = Folder::make()?;
    let file = folder.0.join("reports.db");
    let done = timeout(PATIENCE, demonstrate(server.connect_string(), &file)).await;
    server.close().await?;
    done?
}
