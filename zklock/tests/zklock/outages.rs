//! Servers that are not there at the start, or at the end, and sessions that are shorter than was asked for.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use zookeeper_testkit::{Direction, TestServer};

use crate::support::scene::Scene;
use crate::support::scripts::GOES_ON;

/// The servers end a session of this timeout long before the connection timeout.
const SESSION: &str = "6s";
const CONNECTION: &str = "90s";
const SOON: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn the_end_waits_for_servers_no_longer_than_the_session_can_last() {
    let rows: [(&[&str], i32, &[&str]); 3] = [
        (&[], 6, &["until the session times out"]),
        // A command that fails leaves no record, so nothing about one is unconfirmed.
        (&["--once", "key"], 6, &["until the session times out"]),
        // The script succeeds.
        (
            &["--once", "key"],
            76,
            &["the command ended with 0", "key is not confirmed", "run again"],
        ),
    ];
    for (options, code, said) in rows {
        let (scene, mut life, gate) = Scene::staged().await;
        let link = scene.link().await;
        let script =
            if code == 6 { GOES_ON.to_owned() } else { GOES_ON.replace("exit 6", "exit 0") };
        let tool = scene.run_with(options.iter().chain(&["--on-lost", "warn"]), &script);
        let tool = tool.env("ZKLOCK_SERVER", link.connect_string());
        let tool = tool
            .env("ZKLOCK_SESSION_TIMEOUT", SESSION)
            .env("ZKLOCK_CONNECTION_TIMEOUT", CONNECTION);
        let running = life.up(tool).await;
        let stalled = link.stall(Direction::Both);
        let began = Instant::now();
        gate.open().await;
        let ended = running.ended().await;
        ended.last_line(code, said);
        assert!(began.elapsed() < SOON, "after {:?}: {ended}", began.elapsed());
        stalled.heal();
        scene.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_after_the_end_of_the_command_hides_neither_its_code_nor_that_the_record_is_unknown()
 {
    for (code, ended_with, words) in [
        ("exit 6", 6, &["until the session times out"][..]),
        ("exit 0", 76, &["the command ended with 0", "key is not confirmed", "a signal"]),
    ] {
        let (scene, mut life, gate) = Scene::staged().await;
        let link = scene.link().await;
        let file = scene.folder.join("job.prom");
        let options = ["--once", "key", "-v", "--metrics-file", &file.display().to_string()];
        let tool = scene.run_with(options, &GOES_ON.replace("exit 6", code));
        let mut running = life.up(tool.env("ZKLOCK_SERVER", link.connect_string())).await;
        let stalled = link.stall(Direction::Both);
        gate.open().await;
        running.stderr.says("the command ended with").await;
        running.signal(Signal::SIGTERM);
        running.ended().await.last_line(ended_with, words);
        let metrics = std::fs::read_to_string(file).unwrap();
        let losses = metrics.lines().find(|line| line.starts_with("zklock_losses_total{"));
        assert!(losses.is_some_and(|line| line.ends_with(" 0")), "{metrics}");
        stalled.heal();
        scene.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_to_wait_covers_the_connecting() {
    let rows: [&[&str]; 3] = [&["-w", "1m"], &["-n", "-w", "1m"], &["--once", "key", "-w", "1m"]];
    for options in rows {
        let scene = Scene::new().await;
        let link = scene.link().await;
        let refused = link.refuse();
        let tool = scene.run_with(options, "exit 3").env("ZKLOCK_CONNECTION_TIMEOUT", "2s");
        let mut running = tool.env("ZKLOCK_SERVER", link.connect_string()).start();
        tokio::time::sleep(Duration::from_secs(5)).await; // two connection timeouts
        assert!(!running.has_ended(), "{options:?}");
        refused.heal();
        running.ended().await.quietly(3);
        scene.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_shorter_than_asked_for_is_a_warning_and_a_failed_check() {
    let server = TestServer::builder().property("maxSessionTimeout", "7000").start().await.unwrap();
    let scene = Scene::on(server).await;
    let asked = |tool: crate::support::tool::Tool| tool.env("ZKLOCK_SESSION_TIMEOUT", "3m");
    let said = [
        "a session timeout of 7s, not 3m",
        "an outage of more than 2s 333ms:",
        "maxSessionTimeout",
    ];
    asked(scene.run("exit 3")).ended().await.one_line(3, &said);
    let ended = asked(scene.zklock(["check"])).ended().await.with(69);
    let text = ended.text();
    let failed = text.lines().find(|line| line.starts_with("FAIL")).unwrap_or_default();
    assert!(said.iter().all(|part| failed.contains(part)), "{ended}");
    scene.zklock(["check"]).env("ZKLOCK_SESSION_TIMEOUT", "6s").ended().await.quietly(0);
    scene.end().await;
}

/// The library watches the nodes of holds that have lasted for a twelfth of the session timeout: here 5 s.
#[tokio::test(flavor = "multi_thread")]
async fn a_young_hold_hears_at_once_that_its_node_is_deleted() {
    let (scene, mut life, _gate) = Scene::staged().await;
    let tool = scene.run(crate::support::scripts::GIVES_WAY).env("ZKLOCK_SESSION_TIMEOUT", "60s");
    let running = life.up(tool).await;
    let broken = scene.zklock(["break", "--yes", &scene.path]).ended().await;
    let at = Instant::now();
    broken.last_line(0, &["does not stop the holder", "Curator or kazoo never"]);
    let (_, dead) = life.end().await;
    assert!(dead.saturating_duration_since(at) < Duration::from_secs(3), "{:?}", dead - at);
    running.ended().await.one_line(76, &["deleted", "the command was ended"]);
    scene.end().await;
}
