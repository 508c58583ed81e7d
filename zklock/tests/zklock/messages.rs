//! The lines of `zklock` are true.

use zookeeper_recipes::zookeeper_client::{Acls, CreateMode};

use crate::peers;
use crate::scene::Scene;

#[tokio::test(flavor = "multi_thread")]
async fn a_proc_that_is_missing_or_of_others_is_named() {
    let scene = Scene::new().await;
    let run = r#"exec "$ZKLOCK" run "$LOCK" -- touch ran"#;
    let hidden = format!("mount -t tmpfs none /proc && {run}");
    let namespaces: [(&[&str], &str); 2] = [(&["--mount"], &hidden), (&["--pid", "--fork"], run)];
    for (namespace, script) in namespaces {
        if scene.tool("unshare").args(namespace).arg("true").ended().await.code() != Some(0) {
            peers::skipped("no namespace can be made");
            continue;
        }
        let tool = scene.tool("unshare").args(namespace).args(["sh", "-c", script]);
        let ended = tool.env("LOCK", &scene.path).ended().await;
        let line = ended.one_line(70, &["/proc is missing, or is that of another PID namespace"]);
        assert!(!line.contains("No such file"), "{line}");
    }
    assert!(!scene.folder.join("ran").exists());
    scene.end().await;
}

/// The path is there; it is the node below it that may not be made.
#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_gives_no_permission_to_queue_is_not_said_to_be_missing() {
    let scene = Scene::new().await;
    let options = CreateMode::Persistent.with_acls(Acls::anyone_read());
    scene.admin.create(&scene.path, b"", &options).await.unwrap();
    let ended = scene.run("touch ran").ended().await;
    ended.one_line(69, &[&format!("no permission to create {} or a node under it", scene.path)]);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn blanks_of_a_path_are_kept() {
    let scene = Scene::new().await;
    let path = format!("{}/a  b", scene.path);
    let held = scene.zklock(["run", &path, "--", "sh", "-c"]);
    let inner = r#""$ZKLOCK" run "$ZK_LOCK_PATH" -n -- true"#;
    let ended = held.arg(inner).ended().await;
    ended.one_line(75, &[&format!("{path} is busy")]);
    scene.zklock(["ls", "a  b"]).ended().await.one_line(64, &["\"a  b\""]);
    let ended = scene.zklock(["run", &path, "-w", "a  b", "--", "true"]).ended().await;
    ended.one_line(64, &["'a  b'"]);
    scene.end().await;
}

/// A command that changes its user can be killed only by those who may signal it.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_could_not_be_ended_is_not_said_to_have_been() {
    let scene = Scene::new().await;
    // As `sudo` does it: by a program that is its owner's, with the set-user-ID bit.
    let change = scene.folder.join("change").display().to_string();
    let script = r#"cp "$(command -v setpriv)" "$0" && chmod 4755 "$0" && setpriv --reuid 65534 --clear-groups "$0" --reuid 0 id -u"#;
    let made = scene.tool("sh").args(["-c", script, &change]).ended().await;
    if made.text() != "0\n" {
        peers::skipped("no set-uid program can be made");
        return scene.end().await;
    }
    let (mut life, gate) = (scene.lifeline(), scene.gate());
    let command = r#"exec 9>"$LIFE"; echo up >&9; until read line < "$GATE"; do :; done; exit 4"#;
    let arguments = ["--reuid", "65534", "--clear-groups", crate::tool::ZKLOCK, "run", &scene.path];
    let tool = scene.tool("setpriv").args(arguments);
    let tool = tool.args(["--", &change, "--reuid", "0", "sh", "-c", command]);
    let mut running = tool.env("LIFE", &life.path).env("GATE", &gate.path).start();
    life.says("up").await;
    scene.zklock(["break", &scene.path, "--yes"]).ended().await;
    running.stderr.says("cannot be ended: it is another user's").await;
    gate.open().await;
    life.end().await;
    let ended = running.ended().await;
    assert_eq!(ended.code(), Some(76), "{ended}");
    assert!(ended.stderr.contains("could not be ended"), "{ended}");
    assert!(!ended.stderr.contains("the command was ended"), "{ended}");
    scene.end().await;
}
