//! Nothing is left behind, however a server or its owner ends.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use zookeeper_testkit::{Backend, TestServer};

use crate::support::{
    Helper, containers, eventually, folder, folders, port, processes, processes_of, server_on,
    traces,
};

/// What belongs to one server of this process.
#[derive(Debug)]
enum Traces {
    Docker { container: String },
    Process { folder: PathBuf },
}

impl Traces {
    fn of(server: &TestServer) -> Self {
        match server.backend() {
            Backend::Docker => {
                let found = containers(&format!("publish={}", port(server)));
                Self::Docker { container: found.into_iter().next().expect("the container") }
            }
            _ => {
                let folder = folder(port(server)).expect("the folder");
                assert_eq!(
                    processes(&folder.to_string_lossy()).len(),
                    3,
                    "a shell, its guard and Java"
                );
                Self::Process { folder }
            }
        }
    }

    fn assert_gone(&self) {
        match self {
            Self::Docker { container } => {
                assert!(containers(&format!("name={container}")).is_empty())
            }
            Self::Process { folder } => {
                assert_eq!(processes(&folder.to_string_lossy()), Vec::<u32>::new());
                assert!(!folder.exists(), "{}", folder.display());
            }
        }
    }
}

/// How often it is tried to leave something that another test's process does not sweep first.
const TRIES: usize = 10;

const OWNED: [Backend; 2] = [Backend::Docker, Backend::Process];

#[tokio::test]
async fn drop_leaves_nothing() {
    for backend in OWNED {
        let Some(server) = server_on(backend).await else {
            continue;
        };
        let traces = Traces::of(&server);
        drop(server);
        traces.assert_gone();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn panic_leaves_nothing() {
    for backend in OWNED {
        let Some(server) = server_on(backend).await else {
            continue;
        };
        let traces = Traces::of(&server);
        let task = tokio::spawn(async move {
            let _server = server;
            panic!("on purpose");
        });
        assert!(task.await.expect_err("a panic").is_panic());
        traces.assert_gone();
    }
}

#[test]
fn drop_outside_a_runtime_leaves_nothing() {
    for backend in OWNED {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let Some(server) = runtime.block_on(server_on(backend)) else {
            continue;
        };
        drop(runtime);
        let traces = Traces::of(&server);
        drop(server);
        traces.assert_gone();
    }
}

#[tokio::test]
async fn a_cancelled_start_leaves_nothing() {
    for backend in OWNED {
        if server_on(backend).await.is_none() {
            continue;
        }
        // In a process of its own, as others in this one have servers.
        let mut helper = Helper::start("cancel", &[("ZOOKEEPER_BACKEND", backend.to_string())]);
        helper.read("cancelled");
        let pid = helper.pid();
        assert_eq!(folders(pid), Vec::<PathBuf>::new());
        assert_eq!(processes_of(pid), Vec::<u32>::new());
        assert_eq!(containers(&format!("name=-{pid}-")), Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_local_server_dies_with_its_owner() {
    if server_on(Backend::Process).await.is_none() {
        return;
    }
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        assert!(!is_left_by_an_owner_that_ends_by(signal).await.exists(), "{signal}");
    }
    // After SIGKILL the folder has nobody left to remove it but the next process, which may be another test's.
    for _ in 0..TRIES {
        let folder = is_left_by_an_owner_that_ends_by(Signal::SIGKILL).await;
        let was_left = folder.exists();
        let bystander = hold("process");
        assert!(!folder.exists());
        run("process");
        assert_eq!(folders(bystander.pid()).len(), 1, "a live owner's folder stays");
        if was_left {
            return;
        }
    }
    panic!("none of {TRIES} folders was left to the next process of ours");
}

/// The folder of a local server, when neither its owner nor it runs any more.
async fn is_left_by_an_owner_that_ends_by(signal: Signal) -> PathBuf {
    let mut owner = hold("process");
    let folder = folders(owner.pid()).pop().expect("the folder");
    assert_eq!(processes(&folder.to_string_lossy()).len(), 3);
    end(&mut owner, signal);
    eventually("Java and its shells are gone", || processes(&folder.to_string_lossy()).is_empty())
        .await;
    folder
}

#[tokio::test]
async fn signals_can_be_left_to_a_process_that_handles_them() {
    for backend in OWNED {
        if server_on(backend).await.is_none() {
            continue;
        }
        for when in ["before", "after"] {
            let task = format!("signal itself, left alone {when}");
            let mut helper = Helper::start(&task, &[("ZOOKEEPER_BACKEND", backend.to_string())]);
            helper.read("closed");
            let status = helper.child.wait().expect("an end");
            assert!(status.success(), "{backend}, {when} the server's start: {status}");
            assert_eq!(traces(helper.pid()), "0 0 0");
        }
    }
}

#[tokio::test]
async fn a_dead_owners_container_is_swept() {
    if server_on(Backend::Docker).await.is_none() {
        return;
    }
    for _ in 0..TRIES {
        let mut owner = hold("docker");
        let filter = format!("name=-{}-", owner.pid());
        assert_eq!(containers(&filter).len(), 1);
        run("docker");
        assert_eq!(containers(&filter).len(), 1, "a live owner's container stays");
        end(&mut owner, Signal::SIGKILL);
        // By the next process, which may be another test's.
        let was_left = containers(&filter).len() == 1;
        run("docker");
        // Who removed it first may be at it still.
        eventually("it is swept", || containers(&filter).is_empty()).await;
        if was_left {
            return;
        }
    }
    panic!("none of {TRIES} containers was left to the next process of ours");
}

#[tokio::test]
async fn a_signal_removes_the_container() {
    if server_on(Backend::Docker).await.is_none() {
        return;
    }
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let mut owner = hold("docker");
        let filter = format!("name=-{}-", owner.pid());
        assert_eq!(containers(&filter).len(), 1);
        end(&mut owner, signal);
        assert_eq!(containers(&filter), Vec::<String>::new());
    }
}

#[tokio::test]
async fn an_ensemble_leaves_nothing() {
    for (backend, held) in [(Backend::Process, "3 9 0"), (Backend::Docker, "0 0 3")] {
        if server_on(backend).await.is_none() {
            continue;
        }
        let mut owner = Helper::start("ensemble", &[("ZOOKEEPER_BACKEND", backend.to_string())]);
        for (moment, expected) in
            [("cancelled", "0 0 0"), ("held", held), ("closed", "0 0 0"), ("again", held)]
        {
            assert_eq!(owner.read(moment), expected, "{backend}, {moment}");
        }
        end(&mut owner, Signal::SIGINT);
        let pid = owner.pid();
        eventually("all is gone after Ctrl-C", || traces(pid) == "0 0 0").await;
    }
}

/// A process that starts a server and holds it.
fn hold(backend: &str) -> Helper {
    let mut helper = Helper::start("hold", &[("ZOOKEEPER_BACKEND", backend)]);
    assert_eq!(helper.read("backend"), backend);
    helper.read("connect");
    helper
}

/// A process that starts a server and ends, so that it has swept.
fn run(backend: &str) {
    Helper::start("run", &[("ZOOKEEPER_BACKEND", backend)]).read("done");
}

fn end(owner: &mut Helper, signal: Signal) {
    let pid = i32::try_from(owner.pid()).expect("a process number");
    kill(Pid::from_raw(pid), signal).expect("sent");
    let status = owner.child.wait().expect("an end");
    assert_eq!(status.signal(), Some(signal as i32));
}
