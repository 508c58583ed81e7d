//! A server serves, stops, starts again, dies, sleeps, and keeps its data, its port and its sessions all the while.

use std::fs;
use std::time::Duration;

use tokio::time::timeout;
use zookeeper_client;
use zookeeper_client::CreateMode;
use zookeeper_testkit::{TestServer, random_path};

use crate::support::{LIMIT, connect, create, on_each_backend, port};

on_each_backend!(
    serves_and_answers,
    stop_and_start_again_keep_data_and_port,
    sessions_survive_restart_and_kill,
    every_call_twice,
    pause_stalls_and_resume_heals,
    a_paused_server_can_be_stopped,
    a_paused_server_goes_on_when_it_is_started,
    listens_on_loopback_only,
    two_servers_at_once,
    close_reports_and_removes,
);

async fn serves_and_answers(server: TestServer) {
    let answer = server.four_letter_word("srvr").await.expect("an answer");
    assert!(answer.contains("Mode: standalone"), "{answer}");
    let configuration = server.four_letter_word("conf").await.expect("an answer");
    for line in
        ["tickTime=200", "maxClientCnxns=0", "minSessionTimeout=400", "maxSessionTimeout=60000"]
    {
        assert!(configuration.contains(line), "{line} in {configuration}");
    }
    let environment = server.four_letter_word("mntr").await.expect("an answer");
    assert!(environment.contains("zk_version"), "{environment}");
}

async fn stop_and_start_again_keep_data_and_port(server: TestServer) {
    let path = random_path("kept");
    create(&connect(&server).await, &path, CreateMode::Persistent).await;
    let address = server.connect_string().to_owned();

    server.stop().await.expect("stopped");
    server.four_letter_word("srvr").await.expect_err("nobody listens");
    server.start_again().await.expect("started");

    assert_eq!(server.connect_string(), address);
    let (data, _) = connect(&server).await.get_data(&path).await.expect("the node");
    assert_eq!(data, b"data");
}

async fn sessions_survive_restart_and_kill(server: TestServer) {
    let client = connect(&server).await;
    let path = random_path("survivor");
    create(&client, &path, CreateMode::Ephemeral).await;
    let owner = client.session_id().0;

    server.restart().await.expect("restarted");
    let stat = client.check_stat(&path).await.expect("an answer").expect("the node");
    assert_eq!(stat.ephemeral_owner, owner);

    server.kill().await.expect("killed");
    server.start_again().await.expect("started");
    let stat = client.check_stat(&path).await.expect("an answer").expect("the node");
    assert_eq!(stat.ephemeral_owner, owner);
}

async fn every_call_twice(server: TestServer) {
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
    server.start_again().await.expect("started");
    server.resume().await.expect("never paused");
    server.pause().await.expect("paused");
    server.pause().await.expect("paused before");
    server.resume().await.expect("resumed");
    server.resume().await.expect("resumed before");
    server.four_letter_word("srvr").await.expect("it serves");
}

async fn pause_stalls_and_resume_heals(server: TestServer) {
    let client = connect(&server).await;
    server.pause().await.expect("paused");
    let request = client.check_stat("/");
    tokio::pin!(request);
    timeout(Duration::from_millis(300), &mut request).await.expect_err("no answer");
    server.resume().await.expect("resumed");
    let stat = timeout(LIMIT, request).await.expect("in time").expect("an answer");
    assert!(stat.is_some());
}

async fn a_paused_server_can_be_stopped(server: TestServer) {
    server.pause().await.expect("paused");
    server.stop().await.expect("stopped");
    server.start_again().await.expect("started");
    server.pause().await.expect("paused");
    server.kill().await.expect("killed");
    server.start_again().await.expect("started");
    server.pause().await.expect("paused");
    server.close().await.expect("closed");
}

async fn a_paused_server_goes_on_when_it_is_started(server: TestServer) {
    let client = connect(&server).await;
    server.pause().await.expect("paused");
    server.start_again().await.expect("resumed");
    client.check_stat("/").await.expect("an answer");
    let address = server.connect_string();
    let sessions = server.four_letter_word("cons").await.expect("an answer");
    let session = format!("{:x}", client.session_id().0);
    assert!(sessions.contains(&session), "{session} at {address}, which never ended: {sessions}");
}

async fn listens_on_loopback_only(server: TestServer) {
    let suffix = format!(":{:04X}", port(&server));
    let mut listening = 0;
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        for line in fs::read_to_string(table).unwrap_or_default().lines() {
            let mut fields = line.split_whitespace().skip(1);
            let (Some(local), _, Some(state)) = (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            if local.ends_with(&suffix) && state == "0A" {
                listening += 1;
                // 127.0.0.1, alone or mapped to IPv6, as the kernel prints it.
                let address = local.trim_end_matches(&suffix);
                assert!(
                    ["0100007F", "0000000000000000FFFF00000100007F"].contains(&address),
                    "{line}"
                );
            }
        }
    }
    assert!(listening > 0, "nobody listens on {}", server.connect_string());
}

async fn two_servers_at_once(server: TestServer) {
    let other =
        TestServer::builder().backend(server.backend()).start().await.expect("a second server");
    assert_ne!(server.connect_string(), other.connect_string());
    let path = random_path("mine");
    create(&connect(&server).await, &path, CreateMode::Persistent).await;
    let stat = connect(&other).await.check_stat(&path).await.expect("an answer");
    assert!(stat.is_none(), "a server of its own");
    drop(server);
    other.four_letter_word("srvr").await.expect("it lives on");
}

async fn close_reports_and_removes(server: TestServer) {
    let address = server.connect_string().to_owned();
    server.close().await.expect("closed");
    tokio::net::TcpStream::connect(&address).await.expect_err("nobody listens");
}
