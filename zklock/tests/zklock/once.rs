//! `zklock run --once`, and its records.

use nix::sys::signal::Signal;
use serde_json::Value;
use zookeeper_recipes_dev::eventually;

use crate::support::scene::Scene;
use crate::support::scripts::{GIVES_WAY, GOES_ON};
use crate::support::tool::Tool;

impl Scene {
    fn once(&self, key: &str, script: &str) -> Tool {
        self.run_with(["--once", key], script).env("ZKLOCK_ID", "host-a:1")
    }

    /// The contenders of this key.
    async fn runs(&self, key: &str) -> Vec<String> {
        let path = format!("{}/runs/{key}", self.path);
        let names = self.admin.list_children(&path).await.unwrap_or_default();
        names.iter().map(|name| format!("{path}/{name}")).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_run_until_it_succeeds_and_then_no_more() {
    let scene = Scene::new().await;
    // Key, script, options, code, stdout.
    let rows: [(&str, &str, &[&str], i32, &str); 7] = [
        ("a", "echo fails; exit 3", &[], 3, "fails\n"),
        ("a", "echo $ZK_LOCK_PATH", &["-w", "30"], 0, &format!("{}/runs/a\n", scene.path)),
        ("a", "echo again", &[], 0, ""),
        ("a", "echo again", &["-n"], 0, ""),
        ("a", "echo again", &["-w", "30", "-q"], 0, ""),
        ("b/%", "echo other", &["-n"], 0, "other\n"),
        ("b/%", "echo again", &[], 0, ""),
    ];
    for (key, script, options, code, text) in rows {
        let tool = scene.zklock(["run", &scene.path, "--once", key, "--id", "host-a:1"]);
        let ended = tool.args(options).args(["--shell", script]).ended().await;
        ended.quietly(code);
        assert_eq!(ended.text(), text, "{key} {script} {options:?}");
    }
    let ended = scene.zklock(["run", &scene.path, "-v", "--once", "a", "-c", "true"]).ended().await;
    assert!(
        ended.code() == Some(0) && ended.stderr.contains(" zklock: done by host-a:1 at 20"),
        "{ended}"
    );
    let text = scene.zklock(["ls", &scene.path]).ended().await.text();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["KEY", "DONE", "BY", "AT"]);
    assert_eq!((&rows[1][..2], &rows[2][..2]), (&["a", "host-a:1"][..], &["b/%", "host-a:1"][..]));
    let (all, ended) = scene.listed().await;
    let told =
        |one: &Value| ["state", "key", "identity"].map(|key| one[key].as_str().unwrap().to_owned());
    assert_eq!(
        all.iter().map(told).collect::<Vec<_>>(),
        [["done", "a", "host-a:1"], ["done", "b/%", "host-a:1"]],
        "{ended}"
    );
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_under_way_is_waited_for_and_taken_over() {
    let (scene, mut life, gate) = Scene::staged().await;
    let running = life.up(scene.once("k", GOES_ON)).await;
    // Whoever looks at the path of the crontab sees it.
    let (all, ended) = scene.listed().await;
    assert_eq!((all.len(), all[0]["state"].as_str()), (1, Some("holds")), "{ended}");
    assert_eq!(all[0]["path"], scene.runs("k").await[0]);
    let text = scene.zklock(["ls", &scene.path]).ended().await.text();
    assert!(text.contains(" runs/k/_c_"), "{text}");
    let node =
        scene.runs("k").await[0].strip_prefix(&format!("{}/", scene.path)).unwrap().to_owned();
    for options in [&["revoke"][..], &["break", "--yes"], &["revoke", "--node", &node]] {
        let ended = scene.zklock(options).arg(&scene.path).ended().await;
        ended.one_line(0, &["at PATH/runs/KEY"]);
    }
    let expects = scene.zklock(["ls", &scene.path, "--expect", "1"]);
    expects.ended().await.quietly(0);
    let busy = ["/runs/k is busy", "held by host-a:1, queued "];
    // The holder is read in the last instants of a wait, if the servers answer in time.
    let late = &busy[..1];
    for (options, words) in [(&["-n"][..], &busy[..]), (&["-w", "3"], late), (&["-n", "-q"], &[])] {
        let tool = scene.zklock(["run", &scene.path, "--once", "k"]).args(options);
        let ended = tool.args(["--", "true"]).ended().await;
        if words.is_empty() {
            ended.quietly(75)
        } else {
            drop(ended.one_line(75, words).to_owned())
        }
    }
    let waiting = scene.once("k", "echo took over").start();
    eventually("it waits", async || scene.runs("k").await.len() == 2).await;
    gate.open().await;
    running.ended().await.quietly(6);
    let ended = waiting.ended().await;
    ended.quietly(0);
    assert_eq!(ended.text(), "took over\n");
    scene.end().await;
}

/// The supervision goes on at a loss, and nothing is recorded.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_lost_or_ended_is_not_recorded() {
    for lost in [true, false] {
        let (scene, mut life, _) = Scene::staged().await;
        let running = life.up(scene.once("k", GIVES_WAY)).await;
        if lost {
            scene.admin.delete(&scene.runs("k").await[0], None).await.unwrap();
        } else {
            running.signal(Signal::SIGTERM);
        }
        life.says("TERM").await;
        let ended = running.ended().await;
        if lost {
            ended.one_line(76, &["lost ", "the command was ended"]);
        } else {
            ended.quietly(5);
        }
        let ended = scene.once("k", "echo ran").ended().await;
        assert_eq!((ended.code(), ended.text()), (Some(0), "ran\n".to_owned()), "{ended}");
        scene.end().await;
    }
}
