//! `zklock ls` and `zklock break`.

use nix::sys::signal::Signal;
use serde_json::Value;
use zookeeper_recipes::zookeeper_client::{Acls, CreateMode};

use crate::scene::Scene;
use crate::scripts::{GIVES_WAY, STAYS, ends};
use crate::terminal::Terminal;
use crate::tool::{Ended, Running, ZKLOCK};

fn array(ended: &Ended) -> Vec<Value> {
    assert_eq!((ended.code(), ended.stderr.as_str()), (Some(0), ""), "{ended}");
    serde_json::from_slice(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended}"))
}

async fn up(scene: &Scene, id: &str, options: &[&str]) -> Running {
    let mut life = scene.lifeline();
    let tool = scene.run_with(options, STAYS).env("LIFE", &life.path).env("ZKLOCK_ID", id);
    let running = tool.start();
    life.says("up").await;
    running
}

#[tokio::test(flavor = "multi_thread")]
async fn ls_shows_who_holds_and_who_waits() {
    let scene = Scene::new().await;
    let holding = up(&scene, "host-a", &[]).await;
    let waiting = scene.run("true").env("ZKLOCK_ID", "host-b").start();
    scene.children_are(2).await;
    let ended = scene.zklock(["ls", &scene.path, "--json"]).ended().await;
    let (all, listed) = (array(&ended), ended.text());
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
        assert!(one["age"].is_number(), "{one}");
    }
    let keys = ["place", "state", "kind", "identity", "session", "since", "age", "token", "node"];
    let line = listed.lines().nth(1).unwrap();
    let found: Vec<_> = keys
        .into_iter()
        .chain(["path", "revocation_requested"])
        .map(|key| line.find(&format!("\"{key}\":")).unwrap_or_else(|| panic!("{key}: {line}")))
        .collect();
    assert!(found.is_sorted(), "{line}");
    let ended = scene.zklock(["ls", &scene.path]).ended().await;
    ended.quietly(0);
    let text = ended.text();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["PLACE", "STATE", "KIND", "IDENTITY", "SESSION", "AGE", "TOKEN", "NODE"]);
    assert_eq!(rows[1][..4], ["1", "holds", "mutex", "host-a"]);
    assert_eq!(rows[2][..4], ["2", "waits", "mutex", "host-b"]);
    assert_eq!(rows.len(), 3);
    waiting.signal(Signal::SIGTERM);
    waiting.ended().await.one_line(143, &[]);
    ends(holding).await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ls_finds_out_which_recipe_it_is() {
    let scene = Scene::new().await;
    for (options, kind) in
        [(&["--read"][..], "read"), (&["--write"], "write"), (&["--count=3"], "lease")]
    {
        let running = up(&scene, "host-a", options).await;
        let all = array(&scene.zklock(["ls", &scene.path, "--json"]).ended().await);
        assert_eq!(all.len(), 1, "{all:?}");
        let one = ["kind", "state", "identity"].map(|key| all[0][key].as_str().unwrap());
        assert_eq!(one, [kind, "holds", "host-a"]);
        ends(running).await;
        // The next recipe finds nothing of this one.
        for child in scene.children().await {
            let _ = scene.admin.delete(&format!("{}/{child}", scene.path), None).await;
        }
    }
    let mut leader = scene.zklock(["elect", &scene.path, "--id", "host-a"]).start();
    leader.stdout.says("leader").await;
    let all = array(&scene.zklock(["ls", &scene.path, "--json"]).ended().await);
    let one = ["kind", "state", "identity"].map(|key| all[0][key].as_str().unwrap());
    assert_eq!(one, ["leader", "holds", "host-a"]);
    leader.signal(Signal::SIGTERM);
    leader.ended().await.quietly(0);
    scene.end().await;
}

/// What strangers write into their nodes does nothing to our terminal.
#[tokio::test(flavor = "multi_thread")]
async fn what_others_are_called_is_shown_and_not_obeyed() {
    let scene = Scene::new().await;
    scene.create(&scene.path, CreateMode::Container).await;
    let name = format!("{}/_c_{}-lock-", scene.path, "01234567-89ab-4def-8123-456789abcdef");
    let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let data = b"evil\x1b[2J\x1b]0;title\x07\r\n\xff\xfe".as_slice();
    scene.admin.create(&name, data, &options).await.unwrap();
    for options in [&[][..], &["--json"]] {
        let ended = scene.zklock(["ls", &scene.path]).args(options).ended().await;
        ended.quietly(0);
        let text = ended.text();
        assert!(text.contains("evil"), "{ended}");
        assert!(!text.contains(['\u{1b}', '\u{7}', '\r']), "{ended}");
    }
    let busy = scene.run_with(["-n"], "true").ended().await;
    assert!(!busy.one_line(75, &["evil"]).contains(['\u{1b}', '\u{7}', '\r']), "{busy}");
    scene.admin.delete(&scene.node().await, None).await.unwrap();
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
    text.signal(Signal::SIGINT);
    json.signal(Signal::SIGTERM);
    text.ended().await.quietly(0);
    json.ended().await.quietly(0);
    let script = r#""$ZKLOCK" ls "$LOCK" --watch=100ms | head -n 1; echo "${PIPESTATUS[*]}""#;
    let ended = scene.tool("bash").args(["-c", script]).ended().await;
    ended.quietly(0);
    assert_eq!(ended.text().lines().last(), Some("0 0"), "{ended}");
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn break_takes_the_lock_away_and_the_holder_is_told() {
    let (scene, mut life, _) = Scene::staged().await;
    let tool = scene.run(GIVES_WAY).env("ZKLOCK_ID", "host-a");
    let holding = tool.start();
    life.says("up").await;
    let name = scene.children().await.remove(0);
    // Nobody to ask, and nobody said yes.
    let ended = scene.zklock(["break", &scene.path]).ended().await;
    ended.one_line(64, &["--yes"]);
    let ended = scene.zklock(["break", &scene.path]).input("y\n").ended().await;
    ended.one_line(64, &["--yes"]);
    scene.children_are(1).await;
    let ended = scene.zklock(["break", &scene.path, "--yes"]).ended().await;
    assert_eq!(ended.code(), Some(0), "{ended}");
    assert!(ended.text().contains(&name) && ended.text().contains("host-a"), "{ended}");
    assert!(ended.stderr.contains("not stopped"), "{ended}");
    life.says("TERM").await;
    holding.ended().await.one_line(76, &["lost ", &scene.path]);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-all"]
async fn break_asks_on_a_terminal() {
    let scene = Scene::new().await;
    let holding = scene.holder("host-a").await;
    let program = [ZKLOCK, "break", &scene.path];
    for (answer, deletes) in [("n\n", false), ("\n", false), ("\u{4}", false), ("y\n", true)] {
        let mut terminal = Terminal::start(&scene, &program, &[]);
        terminal.shows("[y/N]").await;
        assert!(terminal.text().contains("host-a"), "{:?}", terminal.text());
        terminal.types(answer);
        let (code, text) = terminal.ended().await;
        assert_eq!(code == Some(0), deletes, "{text:?}");
        assert_eq!(scene.children().await.is_empty(), deletes, "{text:?}");
    }
    crate::harness::within("the loss", holding.guard.lost()).await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn break_with_several_holders_wants_to_know_which() {
    let scene = Scene::new().await;
    let curators = [scene.curator().await, scene.curator().await, scene.curator().await];
    let mut guards = Vec::new();
    for curator in &curators {
        guards.push(scene.read_write(curator).read().acquire().await.unwrap());
    }
    let ended = scene.zklock(["break", &scene.path, "--yes"]).ended().await;
    ended.one_line(64, &["--all", "--node"]);
    scene.children_are(3).await;
    let name = guards[1].node().rsplit('/').next().unwrap().to_owned();
    let ended = scene.zklock(["break", &scene.path, "--yes", "--node", &name]).ended().await;
    assert_eq!(ended.code(), Some(0), "{ended}");
    crate::harness::within("the loss", guards[1].lost()).await;
    assert!(guards[0].is_held() && guards[2].is_held());
    scene.children_are(2).await;
    let ended = scene.zklock(["break", &scene.path, "--yes", "--all"]).ended().await;
    assert_eq!(ended.code(), Some(0), "{ended}");
    assert_eq!(scene.children().await, Vec::<String>::new());
    let ended = scene.zklock(["break", &scene.path, "--yes"]).ended().await;
    assert_eq!((ended.code(), ended.stderr.lines().count()), (Some(0), 1), "{ended}");
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
    let all = array(&scene.zklock(["ls", &scene.path, "--json"]).ended().await);
    let name = all[1]["node"].as_str().unwrap().to_owned();
    let ended = scene.zklock(["break", &scene.path, "--yes", "--node", &name]).ended().await;
    assert_eq!(ended.code(), Some(0), "{ended}");
    assert!(holder.guard.is_held());
    scene.children_are(2).await;
    assert!(!scene.children().await.contains(&name));
    holder.release().await;
    waiting.ended().await.quietly(4);
    scene.end().await;
}
