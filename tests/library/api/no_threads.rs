//! A process that can start no thread: at its limit, or in a control group that is full.

use std::error::Error as _;
use std::process::Stdio;

use tokio::process::Command;

use crate::prelude::*;

const LONG: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_millis(500);

/// In a process of its own, because threads of 256 TiB are what fails there, whoever runs it.
#[tokio::test]
async fn a_process_that_can_start_no_thread_gets_errors() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "api::no_threads::connects", "--ignored", "--nocapture"]);
    command.env("RUST_MIN_STACK", (1_u64 << 48).to_string()).env("RUST_TEST_THREADS", "1");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = timeout(LONG, command.kill_on_drop(true).output()).await.expect("it hangs");
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Not a test: what the other one runs.
#[tokio::test]
#[ignore = "run by another test, in a process of its own"]
async fn connects() {
    std::thread::Builder::new().spawn(|| ()).expect_err("a thread was started");
    for server in ["localhost:1", "127.0.0.1:1"] {
        let builder = Curator::builder().connection_timeout(PATIENCE);
        let connected = timeout(LONG, builder.connect(server)).await.unwrap();
        let error = fails(connected, ErrorKind::Unavailable);
        let cause = error.source().expect("a cause").to_string();
        assert!(cause.contains("no thread can be started"), "{cause}");

        let curator = Curator::builder().connection_timeout(PATIENCE).connect_lazy(server).unwrap();
        let mutex = curator.mutex("/lock").unwrap();
        let acquired = timeout(LONG, mutex.acquire_timeout(PATIENCE)).await.unwrap();
        fails(acquired, ErrorKind::Unavailable);
        timeout(LONG, curator.close()).await.unwrap();
    }
}
