//! What containers do in a way of their own: their start, their pause, their sweep, and what a signal leaves.

use nix::sys::signal::Signal;
use testcontainers::runners::AsyncRunner;
use zookeeper_testkit::{Backend, TestServer, ZooKeeper};

use crate::support::{Helper, connect, containers, eventually, port, traces};
use crate::{cleanup, lifecycle, selection};

async fn server() -> TestServer {
    TestServer::builder().backend(Backend::Docker).start().await.expect("a container")
}

#[tokio::test]
#[ignore = "make test-all"]
async fn an_image_of_testcontainers_serves_when_it_has_started() {
    let container = ZooKeeper::default().start().await.expect("a container");
    let port = container.get_host_port_ipv4(2181).await.expect("a port");
    let client = connect(&format!("127.0.0.1:{port}")).await;
    assert!(client.check_stat("/").await.expect("an answer").is_some());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-all"]
async fn a_container_lives_as_a_process_does() {
    let server = server().await;
    let filter = format!("publish={}", port(&server));
    assert_eq!(containers(&filter).len(), 1);
    lifecycle::listens_on_loopback_only(&server).await;
    lifecycle::keeps_data_port_and_sessions(&server).await;
    lifecycle::every_call_twice(&server).await;
    lifecycle::pause_stalls(&server).await;
    server.close().await.expect("closed");
    assert_eq!(containers(&filter), Vec::<String>::new());
}

#[test]
#[ignore = "make test-all"]
fn drop_outside_a_runtime_and_a_cancelled_start_leave_nothing() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let server = runtime.block_on(server());
    drop(runtime);
    let filter = format!("publish={}", port(&server));
    assert_eq!(containers(&filter).len(), 1);
    drop(server);
    assert_eq!(containers(&filter), Vec::<String>::new());

    let mut helper = Helper::start("cancel", &[("ZOOKEEPER_BACKEND", "docker")]);
    helper.read("cancelled");
    assert_eq!(traces(helper.pid()), "0 0 0");
}

#[tokio::test]
#[ignore = "make test-all"]
async fn a_container_ends_with_its_owner_or_before_the_next_start() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGKILL] {
        let mut owner = Helper::hold("docker", &[]);
        let pid = owner.pid();
        owner.end(signal);
        eventually("the container is removed", || traces(pid) == "0 0 0").await;
    }
    // Without the command `docker` the next process removes it, which may be one of another test.
    let mut owner = Helper::hold("docker", &[("PATH", "")]);
    Helper::run("docker");
    assert_eq!(traces(owner.pid()), "0 0 1", "a live owner's container stays");
    owner.end(Signal::SIGKILL);
    Helper::run("docker");
    let pid = owner.pid();
    eventually("the container is removed", || traces(pid) == "0 0 0").await;
}

#[tokio::test]
#[ignore = "make test-all"]
async fn an_ensemble_leaves_nothing() {
    cleanup::ensemble_leaves_nothing("docker", "0 0 3").await;
}

#[tokio::test]
#[ignore = "make test-all"]
async fn a_container_that_ends_shows_its_log() {
    selection::shows_its_log(Backend::Docker).await;
}

#[test]
fn a_missing_image_and_a_remote_daemon_are_named() {
    for (variable, value) in
        [("ZOOKEEPER_IMAGE", "127.0.0.1:1/no-such:image"), ("DOCKER_HOST", "tcp://192.0.2.1:2375")]
    {
        let variables = [("ZOOKEEPER_BACKEND", "docker"), (variable, value)];
        let error = Helper::start("run", &variables).read("error");
        // Without a daemon that comes first.
        assert!(error.contains(value) || error.contains("does not answer"), "{error}");
    }
}
