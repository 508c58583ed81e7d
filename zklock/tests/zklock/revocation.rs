//! Requests to give the lock back.

use nix::sys::signal::Signal;

use crate::support::scene::Scene;
use crate::support::scripts::{GIVES_WAY, GOES_ON};

#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_told_when_the_lock_is_asked_for() {
    let (scene, mut life, _) = Scene::staged().await;
    let running = life.up(scene.run(GIVES_WAY).env("ZKLOCK_ID", "host-a")).await;
    let ended = scene.zklock(["revoke", &scene.path]).ended().await.with(0);
    assert!(ended.text().contains("host-a"), "{ended}");
    life.says("TERM").await;
    // It did as it was asked: its code is ours, and one line says why.
    running.ended().await.one_line(5, &[&format!("asked to give {} back", scene.path)]);
    scene.end().await;
}

/// It was asked, not told: nobody is killed, and the lock is held on.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_does_not_give_way_keeps_the_lock() {
    let (scene, mut life, gate) = Scene::staged().await;
    let running = life.up(scene.run_with(["--kill-after=100ms"], GOES_ON)).await;
    scene.zklock(["revoke", &scene.path]).ended().await.with(0);
    life.says("TERM").await;
    scene.run_with(["-w", "3"], "true").ended().await.one_line(75, &["is busy"]);
    gate.open().await;
    running.ended().await.one_line(6, &[&format!("asked to give {} back", scene.path)]);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_on_revoke_ignore_the_command_is_not_told() {
    let (scene, mut life, gate) = Scene::staged().await;
    let mut running = life.up(scene.run_with(["--on-revoke=ignore"], GOES_ON)).await;
    scene.zklock(["revoke", &scene.path]).ended().await.with(0);
    running.stderr.says("ignored").await;
    gate.open().await;
    assert_eq!(life.end().await.0, ["done"]);
    running.ended().await.one_line(6, &[&format!("asked to give {} back; ignored", scene.path)]);
    scene.end().await;
}

/// Before the command runs there is nobody to tell: a waiter that is asked goes on to wait, and is told when it holds.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_was_asked_is_told_once_it_holds() {
    let scene = Scene::new().await;
    let holder = scene.holder("first").await;
    let life = scene.lifeline();
    let running = scene.run(GIVES_WAY).env("LIFE", &life.path).start();
    scene.children_are(2).await;
    let (all, _) = scene.listed().await;
    let name = all[1]["node"].as_str().unwrap();
    scene.zklock(["revoke", &scene.path, "--node", name]).ended().await.with(0);
    holder.release().await;
    let ended = running.ended().await;
    // TERM may come before its trap is set, or before it runs at all.
    assert!([Some(5), Some(143)].contains(&ended.code()), "{ended}");
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_to_ask_is_no_failure() {
    let scene = Scene::new().await;
    for _ in 0..2 {
        let ended = scene.zklock(["revoke", &scene.path]).ended().await;
        ended.one_line(0, &[]);
        assert_eq!(ended.text(), "");
        scene.run("true").ended().await.quietly(0); // and where the path is, and empty
    }
    let tool = scene.zklock(["revoke", &scene.path, "--node", "lock-0000000000"]);
    tool.ended().await.one_line(0, &["lock-0000000000 is not at "]);
    scene.end().await;
}

/// What nobody ended by then is ended by the test.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_does_not_reach_who_took_the_lock_after() {
    let scene = Scene::new().await;
    let (mut first, mut second) = (scene.lifeline(), scene.lifeline());
    let one = first.up(scene.run(GIVES_WAY)).await;
    let two = scene.run(GIVES_WAY).env("LIFE", &second.path).start();
    scene.children_are(2).await;
    scene.zklock(["revoke", &scene.path]).ended().await.with(0);
    first.says("TERM").await;
    one.ended().await.one_line(5, &[]);
    second.says("up").await;
    assert_eq!(second.heard(), Vec::<String>::new());
    two.ended_by(Signal::SIGUSR1).await.quietly(128 + Signal::SIGUSR1 as i32);
    scene.end().await;
}
