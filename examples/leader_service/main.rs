//! An HTTP service of which several processes run and one leads: only the leader runs the background job.
//!
//! `ZOOKEEPER_CONNECT=… cargo run --example leader_service -- serve` is such a process. `LISTEN` (default: a port that the
//! system chooses) and `NAMESPACE` (default: `/leader-service`) say where. `POST /orders/4711` works under a lock, `GET /leader`
//! names the leader, `GET /livez` and `GET /readyz` are the probes. `SIGTERM` ends the job, then gives up the place, then ends the
//! HTTP server and the session.
//!
//! Without arguments it starts a server (or uses `ZOOKEEPER_CONNECT`) and two such processes, bills an order at both, ends the
//! leader by `SIGTERM`, sees the other lead, and ends that one. `docs/guide/in-a-service.md` explains it.
#![allow(clippy::disallowed_methods)] // its processes and tasks are its own

mod billing;
mod http;
mod job;
mod service;

use std::error::Error;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;
use zookeeper_recipes::Curator;
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
    let first_address = until(&mut output, "listens on ").await?;
    until(&mut output, "leads, ").await?;
    let (mut second, mut next_output) = start(servers, &namespace)?;
    let second_address = until(&mut next_output, "listens on ").await?;
    answers(&first_address, "GET /livez", "200").await?;
    answers(&first_address, "GET /readyz", "200").await?;
    answers(&first_address, "POST /orders/4711", "200").await?;
    answers(&first_address, "POST /orders/none", "400").await?;
    terminate(&mut first).await?;
    until(&mut next_output, "leads, ").await?;
    answers(&second_address, "POST /orders/4711", "200").await?;
    terminate(&mut second).await?;
    took_nothing_along(servers, &namespace).await
}

/// Neither process left a contender that waits for the end of its session.
async fn took_nothing_along(servers: &str, namespace: &str) -> Result<(), Fault> {
    let curator = Curator::builder().namespace(namespace).connect(servers).await?;
    for path in ["/leader", "/orders/4711"] {
        let left = curator.client()?.list_children(path).await?;
        assert!(left.is_empty(), "left under {path}: {left:?}");
    }
    curator.close().await;
    Ok(())
}

/// This program as one process of the service.
fn start(servers: &str, namespace: &str) -> Result<(Child, Lines<BufReader<ChildStdout>>), Fault> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("serve").env("ZOOKEEPER_CONNECT", servers).env("NAMESPACE", namespace);
    let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
    let output = child.stdout.take().ok_or("a process without an output")?;
    Ok((child, BufReader::new(output).lines()))
}

/// Sends a request, and checks the status of the answer.
async fn answers(address: &str, request: &str, status: &str) -> Result<(), Fault> {
    let mut stream = TcpStream::connect(address).await?;
    let text = format!("{request} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(text.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    println!("{request}: {}", answer.lines().next().unwrap_or_default());
    let is_right = answer.starts_with(&format!("HTTP/1.1 {status} "));
    if is_right { Ok(()) } else { Err(format!("{request}: {answer}").into()) }
}

/// Prints its output, until a line begins with these words. Returns what follows them.
async fn until(output: &mut Lines<BufReader<ChildStdout>>, words: &str) -> Result<String, Fault> {
    let reading = async {
        while let Some(line) = output.next_line().await? {
            println!("  {line}");
            if let Some(rest) = line.strip_prefix(words) {
                return Ok(rest.to_owned());
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
