//! Servers for the tests, helper processes, and looks at what is on this machine.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::time::{Instant, sleep, timeout};
use zookeeper_client::{Acls, Client, CreateMode};
use zookeeper_testkit::{Backend, TestEnsemble, TestServer};

pub(crate) const LIMIT: Duration = Duration::from_secs(60);
/// The longest that servers grant: it outlives a restart of the server, however busy the machine is.
pub(crate) const LONG_SESSION: Duration = Duration::from_secs(60);

/// A local process.
pub(crate) async fn server() -> TestServer {
    TestServer::builder().backend(Backend::Process).start().await.expect("a server")
}

pub(crate) async fn connect(connect_string: &str) -> Client {
    let connector = Client::connector().with_session_timeout(LONG_SESSION);
    connector.connect(connect_string).await.expect("a connection")
}

pub(crate) async fn create(client: &Client, path: &str, mode: CreateMode) {
    let options = mode.with_acls(Acls::anyone_all());
    client.create(path, b"data", &options).await.expect("a new node");
}

pub(crate) fn port(server: &TestServer) -> u16 {
    let (_, port) = server.connect_string().rsplit_once(':').expect("HOST:PORT");
    port.parse().expect("a port")
}

/// For conditions that nothing announces.
pub(crate) async fn eventually(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < deadline, "not within {LIMIT:?}: {what}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// A process that runs the test [`helper`] of this binary, which does what the variables say.
#[derive(Debug)]
pub(crate) struct Helper {
    pub(crate) child: Child,
    output: BufReader<ChildStdout>,
}

impl Helper {
    pub(crate) fn start(task: &str, variables: &[(&str, &str)]) -> Self {
        // A shell starts what runs in its background with SIGINT ignored, and children inherit that.
        let mut command = Command::new("/usr/bin/env");
        command.arg("--default-signal=INT").arg(std::env::current_exe().expect("this binary"));
        command.args(["--exact", "support::helper", "--ignored", "--nocapture"]);
        command.env("TESTKIT_HELPER", task);
        command.env_remove("ZOOKEEPER_BACKEND").env_remove("ZOOKEEPER_CONNECT");
        command.envs(variables.iter().copied()).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a helper");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, output }
    }

    /// A process that starts a server and holds it.
    pub(crate) fn hold(backend: &str, variables: &[(&str, &str)]) -> Self {
        let backend_first = [&[("ZOOKEEPER_BACKEND", backend)], variables].concat();
        let mut helper = Self::start("hold", &backend_first);
        assert_eq!(helper.read("backend"), backend);
        helper.read("held");
        helper
    }

    /// A process that starts a server and ends.
    pub(crate) fn run(backend: &str) {
        Self::start("run", &[("ZOOKEEPER_BACKEND", backend)]).read("done");
    }

    /// Ends it by a signal that it must not handle.
    pub(crate) fn end(&mut self, signal: Signal) {
        let pid = i32::try_from(self.pid()).expect("a process number");
        kill(Pid::from_raw(pid), signal).expect("sent");
        let status = self.child.wait().expect("an end");
        assert_eq!(status.signal(), Some(signal as i32));
    }

    /// What it says after `KEY=`; the line may begin with the test runner's own words.
    pub(crate) fn read(&mut self, key: &str) -> String {
        let key = format!("{key}=");
        loop {
            let mut line = String::new();
            let length = self.output.read_line(&mut line).expect("a line");
            assert!(length > 0, "the helper ended without `{key}`");
            if let Some((_, value)) = line.split_once(&key) {
                return value.trim().to_owned();
            }
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Not a test: what [`Helper`] runs.
#[tokio::test]
#[ignore = "run by other tests, in a process of its own"]
async fn helper() {
    let Ok(task) = std::env::var("TESTKIT_HELPER") else { return };
    match task.as_str() {
        // At some await of the start, another one each time.
        "cancel" => {
            for milliseconds in [5, 50, 100, 200, 300, 400, 500] {
                let _ = timeout(Duration::from_millis(milliseconds), TestServer::start()).await;
            }
            println!("cancelled=");
            std::future::pending().await
        }
        "ensemble" => return hold_ensembles().await,
        _ => {}
    }
    let server = match TestServer::start().await {
        Ok(server) => server,
        Err(error) => return println!("error={}", error.to_string().replace('\n', " ")),
    };
    println!("backend={}", server.backend());
    println!("connect={}", server.connect_string());
    match task.as_str() {
        "hold" => {
            println!("held=");
            std::future::pending().await
        }
        "pause and hold" => {
            println!("pause={:?}", server.pause().await);
            std::future::pending().await
        }
        "stop and hold" => {
            println!("stop={:?}", server.stop().await);
            std::future::pending().await
        }
        _ => {}
    }
    drop(server);
    println!("done=");
}

/// Says what there is after cancelled starts and after the end of an ensemble, and holds another.
async fn hold_ensembles() {
    let say = |when: &str| println!("{when}={}", traces(std::process::id()));
    for milliseconds in [100, 400, 1_000] {
        let _ = timeout(Duration::from_millis(milliseconds), TestEnsemble::start(3)).await;
    }
    say("cancelled");
    let ensemble = TestEnsemble::start(3).await.expect("an ensemble");
    ensemble.close().await.expect("closed");
    say("closed");
    let _ensemble = TestEnsemble::start(3).await.expect("an ensemble");
    say("held");
    std::future::pending().await
}

/// How many data folders, processes and containers the servers of the process `owner` have.
pub(crate) fn traces(owner: u32) -> String {
    let processes = processes(&format!("-{owner}-"));
    let containers = containers(&format!("name=-{owner}-"));
    format!("{} {} {}", folders(owner).len(), processes.len(), containers.len())
}

/// The data folders of all servers of the process `owner`.
pub(crate) fn folders(owner: u32) -> Vec<PathBuf> {
    let roots = [PathBuf::from("/dev/shm"), std::env::temp_dir()];
    let entries = roots.iter().filter_map(|root| fs::read_dir(root).ok()).flatten().flatten();
    let is_its = |path: &PathBuf| {
        let path = path.to_string_lossy();
        path.contains(DATA) && path.contains(&format!("-{owner}-"))
    };
    entries.map(|entry| entry.path()).filter(is_its).collect()
}

const DATA: &str = "zookeeper-recipes.data.";

/// All processes of servers, shells included, whose command line contains `text`.
pub(crate) fn processes(text: &str) -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_its = |number: &u32| {
        let line = fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        line.contains(DATA) && line.contains(text)
    };
    numbers.filter(is_its).collect()
}

/// The names of containers that `docker ps --all` shows with this filter.
pub(crate) fn containers(filter: &str) -> Vec<String> {
    let arguments = ["ps", "--all", "--filter", filter, "--format", "{{.Names}}"];
    // Without the command there is no daemon that tests could use.
    let output = Command::new("docker").args(arguments).output().map(|output| output.stdout);
    let names = output.unwrap_or_default();
    String::from_utf8_lossy(&names).lines().map(str::to_owned).collect()
}
