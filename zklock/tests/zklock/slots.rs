//! `zklock run --slots`, and the file that remembers the number.

use std::fs;

use nix::sys::signal::Signal;
use zookeeper_recipes_dev::eventually;

use crate::support::scene::Scene;

/// Prints its number, and stays until it is ended.
const SAYS: &str = "echo $ZK_LOCK_SLOT; exec sleep 1000";

impl Scene {
    /// The paths of the nodes in a folder below the lock path.
    async fn nodes(&self, folder: &str) -> Vec<String> {
        let folder = format!("{}/{folder}", self.path);
        let names = self.admin.list_children(&folder).await.unwrap();
        names.iter().map(|name| format!("{folder}/{name}")).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn three_of_six_at_once_run_and_each_has_a_number() {
    for (option, expected) in [("--slots", ["0", "1", "2"]), ("--count", [""; 3])] {
        three_of_six(option, expected).await;
    }
}

/// Starts six at once, of which three say the expected numbers, and the others find the path busy.
async fn three_of_six(option: &str, expected: [&str; 3]) {
    let scene = Scene::new().await;
    let tool = || scene.run_with([option, "3", "-n"], SAYS);
    let mut all: Vec<_> = (0..6).map(|_| tool().start()).collect();
    eventually("three are busy", async || {
        all.iter_mut().map(|one| usize::from(one.has_ended())).sum::<usize>() == 3
    })
    .await;
    let mut numbers = Vec::new();
    for mut one in all {
        if one.has_ended() {
            one.ended().await.one_line(75, &[&scene.path, "is busy: held by "]);
        } else {
            numbers.extend(one.stdout.lines(1).await);
            one.ended_by(Signal::SIGTERM).await.quietly(143);
        }
    }
    numbers.sort();
    assert_eq!(numbers, expected, "{option}");
    scene.end().await;
}

/// With the variables of the command: the path, node and token are those of the number.
#[tokio::test(flavor = "multi_thread")]
async fn the_number_in_the_file_is_preferred_and_replaced() {
    let scene = Scene::new().await;
    let file = scene.folder.join("slot");
    let run = |count: &str, script: &str| {
        let tool = scene.zklock(["run", &scene.path, "--slots", count, "--slot-file"]);
        tool.arg(&file).args(["--", "sh", "-c", script])
    };
    let written = || fs::read_to_string(&file).unwrap();
    let script =
        r#"echo $ZK_LOCK_SLOT; echo "$ZK_LOCK_PATH"; echo "$ZK_LOCK_NODE"; echo "$ZK_LOCK_TOKEN""#;
    let ended = run("4", script).ended().await;
    ended.quietly(0);
    let text = ended.text();
    let lines: Vec<_> = text.lines().collect();
    let [number, path, node, token] = lines.as_slice() else { panic!("{ended}") };
    assert_eq!((*number, *path, written().as_str()), ("0", scene.path.as_str(), "0\n"));
    assert!(node.starts_with(&format!("{}/slots/0/_c_", scene.path)), "{ended}");
    assert!(token.parse::<i64>().unwrap() > 0, "{ended}");
    for content in ["2\n", "2", " 3 \n"] {
        fs::write(&file, content).unwrap();
        let ended = run("4", "echo $ZK_LOCK_SLOT").ended().await;
        ended.quietly(0);
        assert_eq!(ended.text().trim(), content.trim());
        assert_eq!(written().trim(), content.trim());
    }
    // The number is taken, and another one is remembered.
    let mut running = run("4", SAYS).start();
    assert_eq!(running.stdout.lines(1).await, ["3"]);
    let ended = run("4", "echo $ZK_LOCK_SLOT").ended().await;
    ended.quietly(0);
    assert_eq!((ended.text().as_str(), written().as_str()), ("0\n", "0\n"));
    running.ended_by(Signal::SIGTERM).await.quietly(143);
    // From a time with more slots.
    fs::write(&file, "7\n").unwrap();
    let ended = run("4", "echo $ZK_LOCK_SLOT").ended().await;
    ended.one_line(0, &["--slot-file", "7 is not one of 4 slots"]);
    assert_eq!((ended.text().as_str(), written().as_str()), ("0\n", "0\n"));
    for content in ["nothing", "-1", "1e2", "0 1"] {
        fs::write(&file, content).unwrap();
        let ended = run("4", "touch ran").ended().await;
        ended.one_line(64, &["--slot-file", "slot", "something else than the number"]);
        assert_eq!(written(), content);
    }
    let tool = scene.zklock(["run", &scene.path, "--slots", "4", "--slot-file", "/no/folder/slot"]);
    tool.args(["--", "touch", "ran"])
        .ended()
        .await
        .one_line(64, &["--slot-file", "/no/folder/slot"]);
    assert!(!scene.folder.join("ran").exists());
    scene.end().await;
}

/// By the node of the number as well as by that of the permit, and another run can ask for it back.
#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_is_taken_away_ends_the_command() {
    let scene = Scene::new().await;
    for folder in ["slots/0", "leases"] {
        let mut running = scene.run_with(["--slots", "1"], SAYS).start();
        running.stdout.lines(1).await;
        let nodes = scene.nodes(folder).await;
        scene.admin.delete(&nodes[0], None).await.unwrap();
        running.ended().await.last_line(76, &[&scene.path]);
    }
    let mut running = scene.run_with(["--slots", "1"], SAYS).start();
    running.stdout.lines(1).await;
    scene.zklock(["revoke", &scene.path]).ended().await.with(0);
    running.ended().await.with(143);
    scene.end().await;
}
