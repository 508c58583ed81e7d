//! Servers for the tests, helper processes, and looks at what is on this machine.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use zookeeper_client;
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions};
use zookeeper_testkit::{self as testkit, Backend, TestEnsemble, TestServer, TestkitError};

pub(crate) const LIMIT: Duration = Duration::from_secs(60);
/// The longest that servers grant: it outlives a restart of the server, however busy the machine is.
pub(crate) const LONG_SESSION: Duration = Duration::from_secs(60);

/// Runs each test, a function of a started server, once on Docker and once as a process.
macro_rules! on_each_backend {
    ($($test:ident),* $(,)?) => {
        mod docker {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                crate::support::on(zookeeper_testkit::Backend::Docker, super::$test).await;
            })*
        }
        mod process {
            $(#[tokio::test]
            async fn $test() {
                crate::support::on(zookeeper_testkit::Backend::Process, super::$test).await;
            })*
        }
    };
}
pub(crate) use on_each_backend;

pub(crate) async fn on(backend: Backend, test: impl AsyncFn(TestServer)) {
    if let Some(server) = server_on(backend).await {
        test(server).await;
    }
}

/// `None` where the machine lacks the backend and need not have it.
pub(crate) async fn server_on(backend: Backend) -> Option<TestServer> {
    match TestServer::builder().backend(backend).start().await {
        Ok(server) => Some(server),
        Err(TestkitError::Unavailable { reason, .. }) if !is_required(backend) => {
            eprintln!("skipped on {backend}: {reason}");
            None
        }
        Err(error) => panic!("no server on {backend}: {error}: {error:?}"),
    }
}

pub(crate) fn is_required(backend: Backend) -> bool {
    match std::env::var("ZOOKEEPER_REQUIRE_BACKENDS") {
        Ok(list) => list.split(',').any(|name| name.trim() == backend.to_string()),
        Err(_) => std::env::var_os("CI").is_some(),
    }
}

pub(crate) async fn connect(server: &TestServer) -> Client {
    let connector = Client::connector().with_session_timeout(LONG_SESSION);
    connector.connect(server.connect_string()).await.expect("a connection")
}

pub(crate) async fn create(client: &Client, path: &str, mode: CreateMode) {
    let options = mode.with_acls(Acls::anyone_all());
    let options: &CreateOptions<'_> = &options;
    client.create(path, b"data", options).await.expect("a new node");
}

pub(crate) fn port(server: &TestServer) -> u16 {
    let (_, port) = server.connect_string().rsplit_once(':').expect("HOST:PORT");
    port.parse().expect("a port")
}

/// For what announces itself to nobody.
pub(crate) async fn eventually(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < deadline, "not within {LIMIT:?}: {what}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// A process that runs the test `helper::main` of this binary, which does what the variables say.
#[derive(Debug)]
pub(crate) struct Helper {
    pub(crate) child: Child,
    output: BufReader<ChildStdout>,
}

impl Helper {
    pub(crate) fn start<V: AsRef<OsStr>>(task: &str, variables: &[(&str, V)]) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this binary"));
        command.args([
            "--exact",
            "support::helper",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ]);
        command.env("TESTKIT_HELPER", task);
        for variable in ["ZOOKEEPER_BACKEND", "ZOOKEEPER_CONNECT"] {
            command.env_remove(variable);
        }
        command.envs(variables.iter().map(|(key, value)| (key, value)));
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("a helper");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, output }
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
    let task = std::env::var("TESTKIT_HELPER").unwrap_or_default();
    if task == "cancel" {
        // At some await of the start, another one each time.
        for milliseconds in [5, 50, 100, 200, 300, 400, 500] {
            let limit = Duration::from_millis(milliseconds);
            let _ = tokio::time::timeout(limit, TestServer::start()).await;
        }
        println!("cancelled=");
        std::future::pending::<()>().await;
    }
    if task == "ensemble" {
        return hold_ensembles().await;
    }
    if let Some(when) = task.strip_prefix("signal itself, left alone ") {
        return signal_itself(when).await;
    }
    match TestServer::start().await {
        Ok(server) => {
            println!("backend={}", server.backend());
            println!("connect={}", server.connect_string());
            match task.as_str() {
                "hold" => std::future::pending().await,
                "stop" => println!("stop={:?}", server.stop().await),
                _ => drop(server),
            }
        }
        Err(error) => println!("error={}", error.to_string().replace('\n', " ")),
    }
    println!("done=");
}

/// As the test of a program that ends in an orderly way at `SIGTERM`.
async fn signal_itself(when: &str) {
    use tokio::signal::unix::{SignalKind, signal};
    if when == "before" {
        testkit::leave_signals_alone();
    }
    let server = TestServer::start().await.expect("a server");
    if when == "after" {
        testkit::leave_signals_alone();
    }
    let mut terminated = signal(SignalKind::terminate()).expect("a handler");
    for _ in 0..10 {
        nix::sys::signal::raise(nix::sys::signal::Signal::SIGTERM).expect("sent");
        terminated.recv().await.expect("a signal");
    }
    server.four_letter_word("srvr").await.expect("it serves");
    server.close().await.expect("closed");
    println!("closed=");
}

/// Says what there is after a cancelled start, while one ensemble is held, after its end, and holds another.
async fn hold_ensembles() {
    let say = |when: &str| println!("{when}={}", traces(std::process::id()));
    for milliseconds in [100, 400, 1_000] {
        let limit = Duration::from_millis(milliseconds);
        let _ = tokio::time::timeout(limit, TestEnsemble::start(3)).await;
    }
    say("cancelled");
    let ensemble = TestEnsemble::start(3).await.expect("an ensemble");
    say("held");
    ensemble.close().await.expect("closed");
    say("closed");
    let _ensemble = TestEnsemble::start(3).await.expect("an ensemble");
    say("again");
    std::future::pending::<()>().await;
}

/// How many data folders, processes and containers the servers of the process `owner` have.
pub(crate) fn traces(owner: u32) -> String {
    let containers = containers(&format!("name=-{owner}-")).len();
    format!("{} {} {containers}", folders(owner).len(), processes_of(owner).len())
}

/// The data folders of all servers of the process `owner`.
pub(crate) fn folders(owner: u32) -> Vec<PathBuf> {
    let roots = [PathBuf::from("/dev/shm"), std::env::temp_dir()];
    let entries = roots.iter().filter_map(|root| fs::read_dir(root).ok()).flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths.filter(|path| is_data_of(&path.to_string_lossy(), owner)).collect()
}

/// The folder of the server on `port`, one of this process.
pub(crate) fn folder(port: u16) -> Option<PathBuf> {
    let has_port = |folder: &PathBuf| {
        let configuration = fs::read_to_string(folder.join("zoo.cfg")).unwrap_or_default();
        configuration.contains(&format!("clientPort={port}\n"))
    };
    folders(std::process::id()).into_iter().find(has_port)
}

/// All processes, shells included, whose command line names something that contains `text`.
pub(crate) fn processes(text: &str) -> Vec<u32> {
    processes_where(|line| line.contains(text))
}

/// All processes, shells included, of all servers of the process `owner`.
pub(crate) fn processes_of(owner: u32) -> Vec<u32> {
    processes_where(|line| is_data_of(line, owner))
}

fn processes_where(concerns: impl Fn(&str) -> bool) -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let line = |number: &u32| fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
    numbers.filter(|number| concerns(&String::from_utf8_lossy(&line(number)))).collect()
}

fn is_data_of(name: &str, owner: u32) -> bool {
    name.contains("zookeeper-recipes.data.") && name.contains(&format!("-{owner}-"))
}

/// The names of containers that `docker ps --all` shows with this filter.
pub(crate) fn containers(filter: &str) -> Vec<String> {
    let arguments = ["ps", "--all", "--filter", filter, "--format", "{{.Names}}"];
    let output = match Command::new("docker").args(arguments).output() {
        // Without a client there is no daemon that tests could use.
        Err(error) if error.kind() == ErrorKind::NotFound => return Vec::new(),
        output => output.expect("the docker client"),
    };
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}
