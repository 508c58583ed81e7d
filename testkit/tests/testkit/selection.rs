//! Which backend is taken, and what the errors say. The variables are set for helper processes only.

use zookeeper_testkit::{Backend, TestServer, TestkitError};

use crate::support::{Helper, server};

/// A machine without anything.
const NOTHING: [(&str, &str); 4] = [
    ("DOCKER_HOST", "tcp://127.0.0.1:1"),
    ("PATH", ""),
    ("JAVA_HOME", ""),
    ("ZOOKEEPER_HOME", "/nowhere"),
];
const NO_DOCKER: &str = if cfg!(feature = "testcontainers") {
    "the Docker daemon does not answer"
} else {
    "build zookeeper-testkit with the feature `testcontainers`"
};

#[test]
fn errors_name_what_is_missing() {
    let (external, process) = ("ZOOKEEPER_CONNECT is not set", "there is no `java`");
    let parts: [(&str, &[&str]); 5] = [
        ("", &[external, NO_DOCKER, process]),
        ("external", &["the backend `external` cannot be used", external]),
        ("docker", &["the backend `docker` cannot be used", NO_DOCKER]),
        ("process", &["the backend `process` cannot be used", process]),
        ("podman", &["ZOOKEEPER_BACKEND", "is `podman`"]),
    ];
    for (backend, parts) in parts {
        let variables = [&NOTHING[..], &[("ZOOKEEPER_BACKEND", backend)]].concat();
        let error = Helper::start("run", &variables).read("error");
        for part in parts {
            assert!(error.contains(part), "{part} in {error}");
        }
    }
}

#[test]
fn the_process_is_last_but_used() {
    let mut helper = Helper::start("run", &[("DOCKER_HOST", "tcp://127.0.0.1:1")]);
    assert_eq!(helper.read("backend"), "process");
    helper.read("done");
}

#[tokio::test]
async fn an_external_server_comes_first_and_is_not_ours() {
    let server = server().await;
    let connect_string = format!("127.0.0.1:1,{}/chroot", server.connect_string());
    let mut helper = Helper::start("stop and hold", &[("ZOOKEEPER_CONNECT", &connect_string)]);
    assert_eq!(helper.read("backend"), "external");
    assert_eq!(helper.read("connect"), connect_string);
    let answer = helper.read("stop");
    assert!(answer.contains("Unsupported") && answer.contains("External"), "{answer}");
    drop(helper);
    server.four_letter_word("srvr").await.expect("it was left alone");
}

#[tokio::test]
async fn a_server_that_ends_shows_its_log() {
    shows_its_log(Backend::Process).await;
}

pub(crate) async fn shows_its_log(backend: Backend) {
    let builder = TestServer::builder().backend(backend).property("initLimit", "many");
    let error = builder.start().await.expect_err("a bad property");
    assert!(matches!(error, TestkitError::NotServing { .. }), "{error:?}");
    assert!(error.to_string().contains("ended while it was starting"), "{error}");
    assert!(error.to_string().contains("Invalid config, exiting abnormally"), "{error}");
}
