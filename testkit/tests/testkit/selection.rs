//! Which backend is taken, and what the errors say. The variables are set for helper processes only.

use zookeeper_testkit::{Backend, TestServer, TestkitError};

use crate::support::{Helper, server_on};

/// A machine without anything.
const NOTHING: [(&str, &str); 5] = [
    ("DOCKER_HOST", "tcp://127.0.0.1:1"),
    ("PATH", ""),
    ("JAVA_HOME", ""),
    ("ZOOKEEPER_HOME", "/nowhere"),
    ("ZOOKEEPER_CONNECT", ""),
];

#[test]
fn nothing_works_names_all_three_ways() {
    let error = Helper::start("run", &NOTHING).read("error");
    for part in
        ["ZOOKEEPER_CONNECT is not set", "the Docker daemon does not answer", "there is no `java`"]
    {
        assert!(error.contains(part), "{part} in {error}");
    }
}

#[test]
fn an_unknown_backend_names_the_variable() {
    let error = Helper::start("run", &[("ZOOKEEPER_BACKEND", "podman")]).read("error");
    assert!(error.contains("ZOOKEEPER_BACKEND is `podman`"), "{error}");
}

#[test]
fn a_forced_backend_is_the_only_one_tried() {
    for (backend, part) in
        [("docker", "Docker daemon"), ("process", "java"), ("external", "ZOOKEEPER_CONNECT")]
    {
        let mut variables = NOTHING.to_vec();
        variables.push(("ZOOKEEPER_BACKEND", backend));
        let error = Helper::start("run", &variables).read("error");
        assert!(error.contains(&format!("the backend `{backend}` cannot be used")), "{error}");
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn a_missing_image_is_named() {
    let variables =
        [("ZOOKEEPER_BACKEND", "docker"), ("ZOOKEEPER_IMAGE", "127.0.0.1:1/no-such:image")];
    let error = Helper::start("run", &variables).read("error");
    // Where there is no daemon, that comes first.
    assert!(
        error.contains("127.0.0.1:1/no-such:image") || error.contains("does not answer"),
        "{error}"
    );
}

#[tokio::test]
async fn a_remote_docker_daemon_is_not_ours() {
    let variables = [("ZOOKEEPER_BACKEND", "docker"), ("DOCKER_HOST", "tcp://192.0.2.1:2375")];
    let error = Helper::start("run", &variables).read("error");
    assert!(error.contains("DOCKER_HOST is `tcp://192.0.2.1:2375`"), "{error}");
}

#[tokio::test]
async fn the_process_is_last_but_used() {
    if server_on(Backend::Process).await.is_none() {
        return;
    }
    let mut helper = Helper::start("run", &[("DOCKER_HOST", "tcp://127.0.0.1:1")]);
    assert_eq!(helper.read("backend"), "process");
    helper.read("done");
}

#[tokio::test]
async fn an_external_server_comes_first_and_is_not_ours() {
    let Some(server) = server_on(Backend::Process).await else {
        return;
    };
    let connect_string = format!("127.0.0.1:1,{}/chroot", server.connect_string());
    let mut helper = Helper::start("stop", &[("ZOOKEEPER_CONNECT", &connect_string)]);
    assert_eq!(helper.read("backend"), "external");
    assert_eq!(helper.read("connect"), connect_string);
    let answer = helper.read("stop");
    assert!(answer.contains("Unsupported") && answer.contains("External"), "{answer}");
    helper.read("done");
    server.four_letter_word("srvr").await.expect("it was left alone");
}

#[tokio::test]
async fn options_are_checked_before_anything_starts() {
    let error = TestServer::builder().property("a b", "c").start().await.expect_err("a bad key");
    assert!(matches!(error, TestkitError::InvalidOption { option: "property", .. }), "{error:?}");
}

#[tokio::test]
async fn a_server_that_ends_shows_its_log() {
    for backend in [Backend::Docker, Backend::Process] {
        if server_on(backend).await.is_none() {
            continue;
        }
        let builder = TestServer::builder().backend(backend).property("initLimit", "many");
        let error = builder.start().await.expect_err("a bad property");
        assert!(matches!(error, TestkitError::NotServing { .. }), "{error:?}");
        assert!(error.to_string().contains("ended while it was starting"), "{error}");
        assert!(error.to_string().contains("Invalid config, exiting abnormally"), "{error}");
    }
}
