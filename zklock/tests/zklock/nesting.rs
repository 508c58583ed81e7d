//! A command that asks for the lock under which it runs.

use crate::support::scene::Scene;

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_within_itself_is_refused_where_it_would_wait() {
    // The outer options, the inner ones, and whether the inner one is refused.
    let rows: [(&str, &str, bool); 11] = [
        ("", "", true),
        ("", "-w 1h", true),
        ("", "--once key", false),
        ("--once key", "--once key", true),
        ("--once key", "--once other", false),
        ("--read", "--read", false),
        ("--read", "--write", true),
        ("--count 2", "--count 2", false),
        ("--count 1", "--count 1", true),
        ("--slots 2", "--slots 2", false),
        ("--slots 1", "--slots 1", true),
    ];
    for (outer, inner, is_refused) in rows {
        let scene = Scene::new().await;
        let script = format!(r#""$ZKLOCK" run "$LOCK" {inner} -- sh -c 'exit 3'"#);
        let ended = scene.run_with(outer.split_whitespace(), &script).ended().await;
        if is_refused {
            ended.one_line(64, &[&scene.path, "runs under that lock already", "ZK_LOCK_NODE"]);
        } else {
            ended.quietly(3);
        }
        scene.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_locks_and_an_election_are_refused_as_well() {
    let scene = Scene::new().await;
    // It does not wait.
    let ended = scene.run(r#""$ZKLOCK" run "$LOCK" -n -- true"#).ended().await;
    ended.one_line(75, &["is busy"]);
    let other = format!("{}-other", scene.path);
    let script = r#""$ZKLOCK" run "$LOCK" "$LOCK-new" -- true"#;
    let outer = scene.zklock(["run", &scene.path, &other, "--", "sh", "-c", script]);
    outer.ended().await.one_line(64, &["runs under that lock already"]);
    let script = r#""$ZKLOCK" elect "$LOCK-election" -- true"#;
    let election = format!("{}-election", scene.path);
    let outer = scene.zklock(["elect", &election, "--", "sh", "-c", script]);
    outer.ended().await.one_line(64, &["runs under that lock already"]);
    scene.end().await;
}

/// However many locks are in between.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_within_another_within_itself_is_refused() {
    let scene = Scene::new().await;
    let within =
        |lock: &str, script: &str| format!(r#""$ZKLOCK" run "{lock}" -- sh -c '{script}'"#);
    let script =
        within("$LOCK-second", r#""$ZKLOCK" run "$LOCK-third" -- "$ZKLOCK" run "$LOCK" -- true"#);
    scene.run(&script).ended().await.one_line(64, &["runs under that lock already"]);
    let script = within("$LOCK-second", r#""$ZKLOCK" run "$LOCK-third" -- sh -c "exit 3""#);
    scene.run(&script).ended().await.quietly(3);
    scene.end().await;
}

/// The inner reader would wait for the writer, and the writer waits for the outer reader.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_within_a_read_is_refused_while_a_writer_waits() {
    let (scene, mut life, gate) = Scene::staged().await;
    let script =
        r#"exec 9>"$LIFE"; echo up >&9; read -r _ <"$GATE"; "$ZKLOCK" run "$LOCK" --read -- true"#;
    let outer = life.up(scene.run_with(["--read"], script)).await;
    let writer = scene.run_with(["--write"], "exit 4").start();
    scene.children_are(2).await;
    gate.open().await;
    outer.ended().await.one_line(64, &[&scene.path, "runs under that lock already"]);
    writer.ended().await.quietly(4);
    scene.end().await;
}

/// The environment outlives the lock, and says nothing of other locks.
#[tokio::test(flavor = "multi_thread")]
async fn an_old_environment_is_no_reason_to_refuse() {
    let scene = Scene::new().await;
    let script = r#"echo "$ZK_LOCK_NODE $ZK_LOCK_TOKEN""#;
    let text = scene.run(script).ended().await.text();
    let [node, token] = text.split_whitespace().collect::<Vec<_>>()[..] else { panic!("{text}") };
    let tool = scene.run("exit 3").env("ZK_LOCK_NODE", node).env("ZK_LOCK_TOKEN", token);
    tool.ended().await.quietly(3);
    // A node of this name, and of another session: it is busy.
    let holder = scene.holder("first").await;
    let tool = scene.run_with(["-n"], "exit 3").env("ZK_LOCK_NODE", holder.guard.node());
    tool.env("ZK_LOCK_TOKEN", token).ended().await.one_line(75, &["is busy"]);
    holder.release().await;
    scene.end().await;
}
