//! `zklock ls --expect`.

use std::time::{Duration, Instant};

use zookeeper_recipes::zookeeper_client::{Acls, CreateMode};
use zookeeper_testkit::{Direction, Message, Operation};

use crate::support::scene::Scene;

/// Ends as soon as all were seen, at the latest after all looks.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_counted_not_contenders() {
    let scene = Scene::new().await;
    // Two contenders of one session, and one that stays when its creator ends.
    scene.create(&scene.path, CreateMode::Container).await;
    let mut nodes = Vec::new();
    for mode in [
        CreateMode::EphemeralSequential,
        CreateMode::EphemeralSequential,
        CreateMode::PersistentSequential,
    ] {
        let prefix = format!("{}/_c_01234567-89ab-4def-8123-{:012}-lock-", scene.path, nodes.len());
        let options = mode.with_acls(Acls::anyone_all());
        let (_, sequence) = scene.admin.create(&prefix, b"host-a", &options).await.unwrap();
        nodes.push(format!("{prefix}{sequence}"));
    }
    let expect = |count: &str| scene.zklock(["ls", &scene.path, "--expect", count]).ended();
    expect("1").await.quietly(0);
    let began = Instant::now();
    let ended = expect("2").await;
    ended.one_line(1, &["1 of 2 sessions contend", &scene.path, "looks within 30s: host-a"]);
    assert!(ended.text().contains("host-a"), "the listing as always: {ended}");
    assert!(began.elapsed() >= Duration::from_secs(29), "{:?}", began.elapsed());
    // One that waits.
    let other = scene.zklock(["run", &scene.path, "--", "true"]).start();
    scene.children_are(4).await;
    expect("2").await.quietly(0);
    for node in nodes {
        scene.admin.delete(&node, None).await.unwrap();
    }
    other.ended().await.quietly(0);
    scene.end().await;
}

/// One that has a node for a small part of the time, in many looks.
#[tokio::test(flavor = "multi_thread")]
async fn a_quick_holder_is_seen() {
    const HOLD: Duration = Duration::from_millis(5);
    const PAUSE: Duration = Duration::from_millis(95);
    let scene = Scene::new().await;
    let curator = scene.connect(scene.builder().identity("quick")).await;
    let mutex = curator.mutex(&scene.path).unwrap();
    let quick = tokio::spawn(async move {
        loop {
            let guard = mutex.acquire().await.unwrap();
            tokio::time::sleep(HOLD).await;
            guard.release().await.unwrap();
            tokio::time::sleep(PAUSE).await;
        }
    });
    scene.zklock(["ls", &scene.path, "--expect", "1"]).ended().await.quietly(0);
    quick.abort();
    let _ = quick.await;
    let _ = curator.close().await;
    scene.end().await;
}

/// That nobody contends is claimed only after a look.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-all"]
async fn without_an_answer_it_is_69() {
    let scene = Scene::new().await;
    scene.create(&scene.path, CreateMode::Container).await;
    let link = scene.link().await;
    let first = link.hold(Message::reply(Operation::List));
    let tool = scene.zklock(["ls", &scene.path, "--expect", "1"]);
    let tool = tool.env("ZKLOCK_SERVER", link.connect_string());
    let looking = tool.start();
    first.struck().await;
    let silent = link.stall(Direction::Both);
    let ended = looking.ended().await;
    ended.one_line(69, &["no answer of the servers about", &scene.path, "within 30s"]);
    drop((first, silent));
    scene.end().await;
}
