//! `zklock ls` and `zklock break`.

use nix::sys::signal::Signal;
use serde_json::Value;
use zookeeper_recipes_dev::within;

use crate::support::scene::Scene;
use crate::support::scripts::{GIVES_WAY, STAYS, ends};
use crate::support::tool::{Ended, Running};

impl Scene {
    /// What `ls --json` prints.
    pub(crate) async fn listed(&self) -> (Vec<Value>, Ended) {
        let ended = self.zklock(["ls", &self.path, "--json"]).ended().await.with(0);
        (serde_json::from_slice(&ended.stdout).unwrap(), ended)
    }
}

async fn up(scene: &Scene, id: &str, options: &[&str]) -> Running {
    scene.lifeline().up(scene.run_with(options, STAYS).env("ZKLOCK_ID", id)).await
}

/// `zklock break PATH --yes`, and more: it succeeds.
async fn breaks(scene: &Scene, options: &[&str]) -> Ended {
    scene.zklock(["break", &scene.path, "--yes"]).args(options).ended().await.with(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn ls_shows_who_holds_and_who_waits() {
    let scene = Scene::new().await;
    let holding = up(&scene, "host-a", &[]).await;
    let waiting = scene.run("true").env("ZKLOCK_ID", "host-b").start();
    scene.children_are(2).await;
    let (all, ended) = scene.listed().await;
    ended.quietly(0);
    let names: Vec<[&str; 3]> = all
        .iter()
        .map(|one| ["identity", "state", "kind"].map(|key| one[key].as_str().unwrap()))
        .collect();
    assert_eq!(names, [["host-a", "holds", "mutex"], ["host-b", "waits", "mutex"]]);
    for (place, one) in (1..).zip(&all) {
        let node = format!("{}/{}", scene.path, one["node"].as_str().unwrap());
        let stat = scene.stat(&node).await.unwrap();
        assert_eq!(one["place"], place);
        assert_eq!(one["token"], stat.czxid);
        assert_eq!(one["session"], format!("0x{:x}", stat.ephemeral_owner));
        assert!(one["queued_seconds"].is_number(), "{one}");
    }
    let keys = ["place", "state", "kind", "identity", "session", "queued_at", "queued_seconds"];
    let text = ended.text();
    let line = text.lines().nth(1).unwrap();
    let found: Vec<_> = keys
        .into_iter()
        .chain(["token", "node", "path", "revocation_requested"])
        .map(|key| line.find(&format!("\"{key}\":")).unwrap_or_else(|| panic!("{key}: {line}")))
        .collect();
    assert!(found.is_sorted(), "{line}");
    let ended = scene.zklock(["ls", &scene.path]).ended().await;
    ended.quietly(0);
    let text = ended.text();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        rows[0],
        ["PLACE", "STATE", "KIND", "IDENTITY", "SESSION", "QUEUED", "TOKEN", "NODE"]
    );
    assert_eq!(rows[1][..4], ["1", "holds", "mutex", "host-a"]);
    assert_eq!(rows[2][..4], ["2", "waits", "mutex", "host-b"]);
    assert_eq!(rows.len(), 3);
    waiting.ended_by(Signal::SIGTERM).await.one_line(143, &[]);
    ends(holding).await;
    scene.end().await;
}

async fn one_holds(scene: &Scene, kind: &str) {
    let (all, ended) = scene.listed().await;
    ended.quietly(0);
    assert_eq!(all.len(), 1, "{ended}");
    let one = ["kind", "state", "identity"].map(|key| all[0][key].as_str().unwrap());
    assert_eq!(one, [kind, "holds", "host-a"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn ls_finds_out_which_recipe_it_is() {
    let scene = Scene::new().await;
    for (options, kind) in
        [(&["--read"][..], "read"), (&["--write"], "write"), (&["--count=3"], "lease")]
    {
        let running = up(&scene, "host-a", options).await;
        one_holds(&scene, kind).await;
        ends(running).await;
        // The next recipe finds nothing of this one.
        for child in scene.children().await {
            let _ = scene.admin.delete(&format!("{}/{child}", scene.path), None).await;
        }
    }
    let mut leader = scene.zklock(["elect", &scene.path, "--id", "host-a"]).start();
    leader.stdout.says("leader").await;
    one_holds(&scene, "leader").await;
    leader.ended_by(Signal::SIGTERM).await.quietly(0);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ls_watches() {
    let scene = Scene::new().await;
    let mut text = scene.zklock(["ls", &scene.path, "--watch=100ms"]).start();
    let mut json = scene.zklock(["ls", &scene.path, "--watch=100ms", "--json"]).start();
    text.stdout.says("PLACE").await;
    json.stdout.says("[]\n").await;
    let holding = up(&scene, "host-a", &[]).await;
    text.stdout.says("host-a").await;
    json.stdout.says("host-a").await;
    ends(holding).await;
    // What goes to a pipe has nothing for a terminal in it.
    assert!(!text.stdout.text().contains('\u{1b}'));
    for line in json.stdout.text().lines() {
        let _: Vec<Value> = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
    }
    text.ended_by(Signal::SIGINT).await.quietly(0);
    json.ended_by(Signal::SIGTERM).await.quietly(0);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn break_takes_the_lock_away_and_the_holder_is_told() {
    let (scene, mut life, _) = Scene::staged().await;
    let holding = life.up(scene.run(GIVES_WAY).env("ZKLOCK_ID", "host-a")).await;
    let name = scene.children().await.remove(0);
    // Nobody to ask, and nobody said yes.
    let ended = scene.zklock(["break", &scene.path]).ended().await;
    ended.one_line(64, &["--yes"]);
    let ended = scene.zklock(["break", &scene.path]).input("y\n").ended().await;
    ended.one_line(64, &["--yes"]);
    scene.children_are(1).await;
    let ended = breaks(&scene, &[]).await;
    assert!(ended.text().contains(&name) && ended.text().contains("host-a"), "{ended}");
    assert!(ended.stderr.contains("does not stop the holder"), "{ended}");
    life.says("TERM").await;
    holding.ended().await.one_line(76, &["lost ", &scene.path]);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn break_with_several_holders_wants_to_know_which() {
    let scene = Scene::new().await;
    let curators = [scene.curator().await, scene.curator().await, scene.curator().await];
    let mut guards = Vec::new();
    for curator in &curators {
        guards.push(scene.read_write(curator).read().await.unwrap());
    }
    let ended = scene.zklock(["break", &scene.path, "--yes"]).ended().await;
    ended.one_line(64, &["--all", "--node"]);
    scene.children_are(3).await;
    let name = guards[1].node().rsplit('/').next().unwrap().to_owned();
    breaks(&scene, &["--node", &name]).await;
    within("the loss", guards[1].lost()).await;
    assert!(guards[0].is_held() && guards[2].is_held());
    scene.children_are(2).await;
    breaks(&scene, &["--all"]).await;
    assert_eq!(scene.children().await, Vec::<String>::new());
    breaks(&scene, &[]).await.one_line(0, &[]);
    scene.end().await;
}

/// A waiter that is broken enters again, at the tail.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-all"]
async fn break_of_a_waiter_takes_only_its_place() {
    let scene = Scene::new().await;
    let holder = scene.holder("host-a").await;
    let waiting = scene.run("exit 4").env("ZKLOCK_ID", "host-b").start();
    scene.children_are(2).await;
    let (all, _) = scene.listed().await;
    let name = all[1]["node"].as_str().unwrap().to_owned();
    breaks(&scene, &["--node", &name]).await;
    assert!(holder.guard.is_held());
    scene.children_are(2).await;
    assert!(!scene.children().await.contains(&name));
    holder.release().await;
    waiting.ended().await.quietly(4);
    scene.end().await;
}
