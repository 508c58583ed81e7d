//! An HTTP service of which several processes run and one leads: only the leader runs the background job.
//!
//! `ZOOKEEPER_CONNECT=… cargo run --example leader_service -- serve` is such a process. `LISTEN` (default: a port that the
//! system chooses) and `NAMESPACE` (default: `/leader-service`) say where. `GET /healthz` says whether it works, `GET /leader`
//! names the leader. `SIGTERM` ends the job, then gives up the place, then ends the HTTP server.
//!
//! Without arguments it starts a server (or uses `ZOOKEEPER_CONNECT`) and two such processes, ends the leader by `SIGTERM`, sees
//! the other lead, and ends that one.
#![allow(clippy::disallowed_methods)] // its processes and tasks are its own

mod http;
mod job;
mod service;

use std::error::Error;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;
use zookeeper_testkit::{TestServer, random_path};

type Fault = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Fault> {
    if std::env::args().nth(1).as_deref() == Some("serve") {
        return service::serve().await;
    }
    let server = TestServer::start().await?;
    println!("ZooKeeper runs as {} at {}", server.backend(), server.connect_string());
    let demonstrated = demonstrate(server.connect_string()).await;
    server.close().await?;
    demonstrated
}

async fn demonstrate(servers: &str) -> Result<(), Fault> {
    let namespace = random_path("service");
    let (mut first, mut output) = start(servers, &namespace)?;
    until(&mut output, "leads, ").await?;
    let (mut second, mut next_output) = start(servers, &namespace)?;
    until(&mut next_output, "listens on ").await?;
    terminate(&mut first).await?;
    until(&mut next_output, "leads, ").await?;
    terminate(&mut second).await
}

/// This program as one process of the service.
fn start(servers: &str, namespace: &str) -> Result<(Child, Lines<BufReader<ChildStdout>>), Fault> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("serve").env("ZOOKEEPER_CONNECT", servers).env("NAMESPACE", namespace);
    let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
    let output = child.stdout.take().ok_or("a process without an output")?;
    Ok((child, BufReader::new(output).lines()))
}

/// Prints its output, until a line begins with these words.
async fn until(output: &mut Lines<BufReader<ChildStdout>>, words: &str) -> Result<(), Fault> {
    let reading = async {
        while let Some(line) = output.next_line().await? {
            println!("  {line}");
            if line.starts_with(words) {
                return Ok(());
            }
        }
        Err(format!("it ended before `{words}`").into())
    };
    timeout(Duration::from_secs(60), reading).await?
}

async fn terminate(process: &mut Child) -> Result<(), Fault> {
    let id = process.id().ok_or("it has ended")?;
    println!("SIGTERM");
    kill(Pid::from_raw(id.try_into()?), Signal::SIGTERM)?;
    let status = timeout(Duration::from_secs(60), process.wait()).await??;
    if status.success() { Ok(()) } else { Err(format!("it ended with {status}").into()) }
}
