//! A server serves, stops, starts again, dies, sleeps, and keeps its data, its port and its sessions all the while.

use std::fs;
use std::time::Duration;

use tokio::time::timeout;
use zookeeper_client::CreateMode;
use zookeeper_testkit::{TestServer, random_path};

use crate::support::{LIMIT, connect, create, port, server};

#[tokio::test]
async fn serves_and_answers() {
    let server = server().await;
    let configuration = server.four_letter_word("conf").await.expect("an answer");
    for line in
        ["tickTime=200", "maxClientCnxns=0", "minSessionTimeout=400", "maxSessionTimeout=60000"]
    {
        assert!(configuration.contains(line), "{line} in {configuration}");
    }
    listens_on_loopback_only(&server).await;
}

pub(crate) async fn listens_on_loopback_only(server: &TestServer) {
    let suffix = format!(":{:04X}", port(server));
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(fs::read_to_string);
    let tables = tables.map(Result::unwrap_or_default).concat();
    let rows = tables.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let listening: Vec<_> = rows
        .filter(|fields| fields[1].ends_with(&suffix) && fields[3] == "0A")
        .map(|fields| fields[1].trim_end_matches(&suffix).to_owned())
        .collect();
    // 127.0.0.1, alone or mapped to IPv6, as the kernel prints it.
    let loopback = ["0100007F", "0000000000000000FFFF00000100007F"];
    assert!(listening.iter().all(|address| loopback.contains(&&**address)), "{listening:?}");
    assert!(!listening.is_empty(), "no process listens on {}", server.connect_string());
}

#[tokio::test]
async fn stop_and_kill_keep_data_port_and_sessions() {
    keeps_data_port_and_sessions(&server().await).await;
}

pub(crate) async fn keeps_data_port_and_sessions(server: &TestServer) {
    let address = server.connect_string().to_owned();
    let client = connect(&address).await;
    let path = random_path("survivor");
    create(&client, &path, CreateMode::Ephemeral).await;
    for is_killed in [false, true] {
        if is_killed { server.kill().await } else { server.stop().await }.expect("ended");
        server.four_letter_word("srvr").await.expect_err("no server listens");
        server.start_again().await.expect("started");
        assert_eq!(server.connect_string(), address);
        let (data, stat) = client.get_data(&path).await.expect("the node");
        assert_eq!((&*data, stat.ephemeral_owner), (&b"data"[..], client.session_id().0));
    }
}

#[tokio::test]
async fn every_call_has_an_effect_once() {
    every_call_twice(&server().await).await;
}

pub(crate) async fn every_call_twice(server: &TestServer) {
    server.start_again().await.expect("it runs");
    server.kill().await.expect("killed");
    server.kill().await.expect("killed before");
    server.stop().await.expect("killed before");
    server.start_again().await.expect("started");
    server.stop().await.expect("stopped");
    server.stop().await.expect("stopped before");
    server.kill().await.expect("stopped before");
    server.pause().await.expect("stopped before");
    server.resume().await.expect("stopped before");
    server.restart().await.expect("started");
    server.resume().await.expect("never paused");
    server.pause().await.expect("paused");
    server.pause().await.expect("paused before");
    server.resume().await.expect("resumed");
    server.resume().await.expect("resumed before");
    server.four_letter_word("srvr").await.expect("it serves");
}

#[tokio::test]
async fn pause_stalls_and_any_call_wakes() {
    pause_stalls(&server().await).await;
}

pub(crate) async fn pause_stalls(server: &TestServer) {
    let client = connect(server.connect_string()).await;
    for is_started in [false, true] {
        server.pause().await.expect("paused");
        let request = client.check_stat("/");
        tokio::pin!(request);
        timeout(Duration::from_millis(300), &mut request).await.expect_err("no answer");
        if is_started { server.start_again().await } else { server.resume().await }.expect("awake");
        timeout(LIMIT, request).await.expect("in time").expect("an answer");
    }
    let sessions = server.four_letter_word("cons").await.expect("an answer");
    let session = format!("{:x}", client.session_id().0);
    assert!(sessions.contains(&session), "{session} never ended: {sessions}");
    server.pause().await.expect("paused");
    server.restart().await.expect("stopped and started");
    server.pause().await.expect("paused");
    server.kill().await.expect("killed");
    server.start_again().await.expect("started");
    server.pause().await.expect("paused"); // dropped so
}
