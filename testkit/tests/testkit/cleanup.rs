//! Nothing is left behind, however a server or its owner ends.

use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use zookeeper_testkit::TestServer;

use crate::support::{Helper, eventually, folders, port, processes, server, traces};

/// The folder of a local server of this process.
fn folder(server: &TestServer) -> PathBuf {
    let line = format!("clientPort={}\n", port(server));
    let has_port = |folder: &PathBuf| {
        std::fs::read_to_string(folder.join("zoo.cfg")).unwrap_or_default().contains(&line)
    };
    let folder = folders(std::process::id()).into_iter().find(has_port).expect("the folder");
    assert_eq!(processes(&folder.to_string_lossy()).len(), 3, "a shell, its guard and Java");
    folder
}

fn assert_gone(folder: &Path) {
    assert_eq!(processes(&folder.to_string_lossy()), Vec::<u32>::new());
    assert!(!folder.exists(), "{}", folder.display());
}

#[test]
fn close_panic_and_drop_leave_nothing() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let started = || {
        let server = runtime.block_on(server());
        let folder = folder(&server);
        (server, folder)
    };
    let (server, its) = started();
    let address = server.connect_string().to_owned();
    runtime.block_on(server.close()).expect("closed");
    assert_gone(&its);
    std::net::TcpStream::connect(&address).expect_err("no server listens");

    let (server, its) = started();
    let task = runtime.spawn(async move {
        let _server = server;
        panic!("on purpose");
    });
    assert!(runtime.block_on(task).expect_err("a panic").is_panic());
    assert_gone(&its);

    let (server, its) = started();
    drop(runtime); // also outside of one
    drop(server);
    assert_gone(&its);
}

#[test]
fn a_cancelled_start_leaves_nothing() {
    // In a process of its own, as others in this one have servers.
    let mut helper = Helper::start("cancel", &[("ZOOKEEPER_BACKEND", "process")]);
    helper.read("cancelled");
    assert_eq!(traces(helper.pid()), "0 0 0");
}

/// The signals do what they do by default.
#[tokio::test]
async fn a_local_server_dies_with_its_owner() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGKILL] {
        let mut owner = Helper::hold("process", &[]);
        let pid = owner.pid();
        assert_eq!(traces(pid), "1 3 0");
        owner.end(signal);
        eventually("Java, its shells and the folder are gone", || traces(pid) == "0 0 0").await;
    }
}

/// The kernel tells the group of a stopped program that its owner is gone.
#[tokio::test]
async fn a_paused_server_dies_with_its_owner() {
    let mut owner = Helper::start("pause and hold", &[("ZOOKEEPER_BACKEND", "process")]);
    assert_eq!(owner.read("pause"), "Ok(())");
    let pid = owner.pid();
    assert_eq!(traces(pid), "1 3 0");
    owner.end(Signal::SIGKILL);
    eventually("Java, its shells and the folder are gone", || traces(pid) == "0 0 0").await;
}

#[tokio::test]
async fn the_next_process_removes_what_a_dead_owner_left() {
    let mut owner = Helper::start("stop and hold", &[("ZOOKEEPER_BACKEND", "process")]);
    assert_eq!(owner.read("stop"), "Ok(())");
    Helper::run("process");
    assert_eq!(traces(owner.pid()), "1 0 0", "a live owner's folder stays");
    owner.end(Signal::SIGKILL);
    Helper::run("process");
    // Another test's process may be removing them.
    let pid = owner.pid();
    eventually("the folder is removed", || traces(pid) == "0 0 0").await;
}

#[tokio::test]
async fn an_ensemble_leaves_nothing() {
    ensemble_leaves_nothing("process", "3 9 0").await;
}

pub(crate) async fn ensemble_leaves_nothing(backend: &str, held: &str) {
    let mut owner = Helper::start("ensemble", &[("ZOOKEEPER_BACKEND", backend)]);
    for (moment, expected) in [("cancelled", "0 0 0"), ("closed", "0 0 0"), ("held", held)] {
        assert_eq!(owner.read(moment), expected, "{moment}");
    }
    owner.end(Signal::SIGINT);
    let pid = owner.pid();
    eventually("all is gone after Ctrl-C", || traces(pid) == "0 0 0").await;
}
