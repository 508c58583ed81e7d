//! The time that `zklock` waits, the requests that it sends meanwhile, and its last message.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use nix::sys::signal::Signal;
use zookeeper_recipes::zookeeper_client::{Acls, CreateMode};
use zookeeper_recipes_dev::{eventually, within};
use zookeeper_testkit::{Cut, Direction, Fault, FaultProxy, Message, Operation, TestServer};

use crate::support::scene::Scene;
use crate::support::scripts::GOES_ON;

type Strike = fn(&FaultProxy) -> Vec<Fault>;

/// What was known is said: a server has called the lock busy, whatever became of the link after that.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-all"]
async fn the_time_to_wait_bounds_the_end_however_the_servers_answer() {
    // In that time it must come to wait, also on a busy machine.
    const LIMIT: Duration = Duration::from_secs(10);
    let scene = Scene::new().await;
    let holder = scene.holder("first").await;
    let refused: Strike = |link| {
        let refused = link.refuse();
        link.cut(Cut::Reset);
        vec![refused]
    };
    let rows: [(Strike, Option<bool>); 3] = [
        (refused, Some(true)),
        (|link| vec![link.stall(Direction::Both)], None), // it may be too early to tell
        // Slower than the look for the holder, and than the farewell.
        (|link| vec![link.delay(Direction::ToClient, Duration::from_secs(3))], Some(false)),
    ];
    let waits = async |strike: Strike, no_server: Option<bool>| {
        // One of them is not disturbed by what else this machine does.
        for attempt in 1.. {
            let link = scene.link().await;
            let tool = scene.run_with(["-v", "-w", "10"], "touch ran");
            let tool = tool.env("ZKLOCK_SERVER", link.connect_string());
            let began = Instant::now();
            let mut waiting = tool.env("ZKLOCK_SESSION_TIMEOUT", "20s").start();
            // That its node exists is not enough: only with the server's answer is the lock known to be busy.
            waiting.stderr.says("in the queue").await;
            let faults = strike(&link);
            let ended = waiting.ended().await;
            let over = began.elapsed().saturating_sub(LIMIT);
            let line = ended.last_line(75, &["is busy after 10s"]);
            let told = line.contains("no server answers now");
            assert!(no_server.is_none_or(|no_server| no_server == told), "{ended}");
            drop(faults);
            if over < Duration::from_secs(1) {
                return;
            }
            assert!(attempt < 3, "{over:?} too late: {ended}");
        }
    };
    join_all(rows.map(|(strike, no_server)| waits(strike, no_server))).await;
    assert!(!scene.folder.join("ran").exists());
    holder.release().await;
    scene.end().await;
}

/// What comes after that takes the servers as long as it does.
#[tokio::test(flavor = "multi_thread")]
async fn the_time_to_wait_does_not_end_a_run_that_has_the_lock() {
    const LIMIT: Duration = Duration::from_secs(4);
    let scene = Scene::new().await;
    let link = scene.link().await;
    let began = Instant::now();
    let tool = scene.run_with(["-w", "4"], "exit 3").env("ZKLOCK_SERVER", link.connect_string());
    // The first two are of the way to the lock, this one looks for other recipes on its path.
    let slow = link.hold(Message::reply(Operation::List).nth(3));
    let running = tool.env("ZKLOCK_SESSION_TIMEOUT", "60s").start();
    within("the look for other recipes", slow.struck()).await;
    tokio::time::sleep_until((began + LIMIT + Duration::from_millis(500)).into()).await;
    slow.heal();
    running.ended().await.quietly(3);
    scene.end().await;
}

/// A job whose output is a log must not look hung.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_without_a_terminal_says_after_a_while_what_it_waits_for_and_at_a_signal() {
    let scene = Scene::new().await;
    let holder = scene.holder("first").await;
    let quiet = scene.run_with(["-q"], "true").start();
    scene.children_are(2).await;
    let mut waiting = scene.run("true").start();
    scene.children_are(3).await;
    let path = &scene.path;
    let said = &waiting.stderr.lines(1).await[0];
    assert!(
        said.contains(&format!(
            "waiting for {path}: number 3 in the queue, held by first, queued 1"
        )),
        "{said}"
    );
    assert!(said.ends_with("s so far)"), "{said}");
    let ended = waiting.ended_by(Signal::SIGTERM).await;
    ended.last_line(143, &["ended by SIGTERM after ", &format!("s of waiting for {path}")]);
    let ended = quiet.ended_by(Signal::SIGTERM).await;
    ended.one_line(143, &["ended by SIGTERM"]);
    holder.release().await;
    scene.end().await;
}

/// `-w` covers the connecting, so a run may wait for hours before it has a session.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_for_a_server_says_so_and_at_a_signal() {
    let scene = Scene::new().await;
    let link = scene.link().await;
    let refused = link.refuse();
    let server = link.connect_string();
    let waits = |options: &[&str]| {
        let tool = scene.run_with(options.iter().chain(&["-w", "1h"]), "true");
        tool.env("ZKLOCK_SERVER", server).env("ZKLOCK_CONNECTION_TIMEOUT", "4s").start()
    };
    let quiet = waits(&["-q"]);
    let mut waiting = waits(&[]);
    let said = &waiting.stderr.lines(1).await[0];
    assert!(said.contains(&format!("waiting for ZooKeeper: {server} ")), "{said}");
    assert!(said.ends_with("s so far)"), "{said}");
    let at_signal = format!("s of waiting for ZooKeeper ({server})");
    waiting
        .ended_by(Signal::SIGTERM)
        .await
        .last_line(143, &["ended by SIGTERM after ", &at_signal]);
    quiet.ended_by(Signal::SIGTERM).await.one_line(143, &["ended by SIGTERM after ", &at_signal]);
    refused.heal();
    scene.end().await;
}

/// The limit counts all connections from one address, and the waiters have one each.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-all"]
async fn too_many_connections_from_here_are_named() {
    let server = TestServer::builder().property("maxClientCnxns", "1").start().await.unwrap();
    let scene = Scene::on(server).await;
    let tool = scene.run("touch ran").env("ZKLOCK_CONNECTION_TIMEOUT", "6s");
    tool.ended().await.one_line(69, &["maxClientCnxns"]);
    assert!(!scene.folder.join("ran").exists());
    scene.end().await;
}

/// However long the queue is: the line is said when the wait begins, and when the holder changes.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-all"]
async fn what_a_waiter_shows_does_not_cost_a_read_for_each_other() {
    const OTHERS: usize = 30;
    let scene = Scene::new().await;
    let holder = scene.holder("host-a:123").await;
    let mut others: Vec<String> = Vec::new();
    for number in 1..=OTHERS {
        let prefix = format!("{}/_c_01234567-89ab-4def-8123-{number:012}-lock-", scene.path);
        let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
        let (_, sequence) = scene.admin.create(&prefix, b"other", &options).await.unwrap();
        others.push(format!("{prefix}{sequence}"));
    }
    let link = scene.link().await;
    let tool = scene.run_with(["-v"], "exit 3").env("ZKLOCK_SERVER", link.connect_string());
    let mut waiting = tool.start();
    waiting.stderr.says(&format!("number {} in the queue, held by host-a:123", OTHERS + 2)).await;
    // While nothing changes it asks for one node.
    let reads = [Operation::GetData, Operation::List].map(|read| link.requests(read));
    let looks = link.replies(Operation::Exists);
    eventually("it looks", async || link.replies(Operation::Exists) > looks + 2).await;
    assert_eq!([Operation::GetData, Operation::List].map(|read| link.requests(read)), reads);
    let next = others.remove(0);
    for other in others {
        scene.admin.delete(&other, None).await.unwrap();
    }
    holder.release().await;
    waiting.stderr.says(": number 2 in the queue, held by other").await;
    scene.admin.delete(&next, None).await.unwrap();
    let ended = waiting.ended().await.with(3);
    let said = ended.stderr.lines().filter(|line| line.contains("waiting for "));
    assert_eq!(said.count(), 2, "{ended}");
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_place_and_the_holder_are_said_in_each_kind_of_queue() {
    let scene = Scene::new().await;
    for kind in ["--count=1", "--write", "--read"] {
        let (mut life, gate) = (scene.lifeline(), scene.gate());
        // A reader waits for writers only.
        let first = if kind == "--read" { "--write" } else { kind };
        let tool = scene.run_with([first], GOES_ON).env("GATE", &gate.path);
        let holding = life.up(tool.env("ZKLOCK_ID", "host-a")).await;
        let mut second = scene.run_with([first, "-v"], "exit 3").start();
        second.stderr.says("number 2 in the queue, held by host-a").await;
        let mut third = scene.run_with([kind, "-v"], "exit 4").start();
        third.stderr.says("number 3 in the queue, held by host-a").await;
        gate.open().await;
        holding.ended().await.quietly(6);
        second.ended().await.with(3);
        third.ended().await.with(4);
    }
    scene.end().await;
}
