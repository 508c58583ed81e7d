//! What the command is told of the lock.

use crate::support::scene::Scene;

const TELL: &str = r#"printf '%s\n' "$ZK_LOCK_PATH" "$ZK_LOCK_NODE" "$ZK_LOCK_TOKEN""#;

#[tokio::test(flavor = "multi_thread")]
async fn path_node_and_token_are_those_of_the_server() {
    let (scene, mut life, gate) = Scene::staged().await;
    let script =
        format!(r#"exec 9>"$LIFE"; {TELL} >&9; until read line < "$GATE"; do :; done 2>/dev/null"#);
    let running = scene.run(&script).start();
    life.says(&scene.path).await;
    let ((node, _), (token, _)) = (life.line().await, life.line().await);
    assert_eq!(scene.node().await, node);
    assert_eq!(scene.stat(&node).await.unwrap().czxid.to_string(), token);
    gate.open().await;
    running.ended().await.quietly(0);
    scene.end().await;
}

/// Of an inner run, what that one holds. (etcd's tool has it the other way round.)
#[tokio::test(flavor = "multi_thread")]
async fn of_several_paths_there_is_a_line_for_each_and_the_inner_run_is_told() {
    let scene = Scene::new().await;
    let [outer, one, other] = ["outer", "a", "b"].map(|name| format!("{}/{name}", scene.path));
    let tell = TELL.replace('\'', r"'\''");
    let nested = format!(r#""$ZKLOCK" run {other} {one} -- sh -c '{tell}'; {TELL}"#);
    let tool = scene.zklock(["run", &outer, "--", "sh", "-c", &nested]);
    let ended = tool.env("ZK_LOCK_PATH", "bogus").env("ZK_LOCK_TOKEN", "0").ended().await;
    ended.quietly(0);
    let text = ended.text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        (lines.len(), [lines[0], lines[1], lines[6]]),
        (9, [&*one, &other, &outer]),
        "{text}"
    );
    for (node, path) in [(2, &one), (3, &other), (7, &outer)] {
        assert!(lines[node].starts_with(path), "{text}");
    }
    let [first, second, before] = [4, 5, 8].map(|line| lines[line].parse::<i64>().unwrap());
    assert!(0 < before && before < first && before < second && first != second, "{text}");
    scene.end().await;
}
