//! What the command is told of the lock.

use zookeeper_testkit::random_path;

use crate::scene::Scene;

const TELL: &str = r#"printf '%s\n' "$ZK_LOCK_PATH" "$ZK_LOCK_NODE" "$ZK_LOCK_TOKEN""#;

#[tokio::test(flavor = "multi_thread")]
async fn path_node_and_token_are_those_of_the_server() {
    let (scene, mut life, gate) = Scene::staged().await;
    let script =
        format!(r#"exec 9>"$LIFE"; {TELL} >&9; until read line < "$GATE"; do :; done 2>/dev/null"#);
    let tool = scene.run(&script);
    let running = tool.start();
    life.says(&scene.path).await;
    let ((node, _), (token, _)) = (life.line().await, life.line().await);
    assert_eq!(scene.node().await, node);
    assert_eq!(scene.stat(&node).await.unwrap().czxid.to_string(), token);
    gate.open().await;
    running.ended().await.quietly(0);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_paths_there_is_a_line_for_each() {
    let scene = Scene::new().await;
    let (one, other) = (format!("{}/a", scene.path), format!("{}/b", scene.path));
    let tool = scene.zklock(["run", &other, &one, "--", "sh", "-c", TELL]);
    let ended = tool.ended().await;
    ended.quietly(0);
    let text = ended.text();
    let [first, second, first_node, second_node, tokens @ ..] = &*text.lines().collect::<Vec<_>>()
    else {
        panic!("{text}")
    };
    assert_eq!([*first, *second], [one.as_str(), other.as_str()]);
    assert!(first_node.starts_with(&one) && second_node.starts_with(&other), "{text}");
    let tokens: Vec<i64> = tokens.iter().map(|token| token.parse().unwrap()).collect();
    assert!(tokens.len() == 2 && tokens[0] != tokens[1], "{text}");
    scene.end().await;
}

/// etcd's tool has it the other way round.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_one_in_the_other_the_inner_one_is_told() {
    let scene = Scene::new().await;
    let (outer, inner) = (format!("{}/outer", scene.path), format!("{}/inner", scene.path));
    let nested =
        format!(r#""$ZKLOCK" run {inner} -- sh -c '{}'; {TELL}"#, TELL.replace('\'', r"'\''"));
    let tool = scene.zklock(["run", &outer, "--", "sh", "-c", &nested]);
    let ended = tool.env("ZK_LOCK_PATH", "bogus").env("ZK_LOCK_TOKEN", "0").ended().await;
    ended.quietly(0);
    let text = ended.text();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines.len(), lines[0], lines[3]), (6, inner.as_str(), outer.as_str()), "{text}");
    assert!(lines[1].starts_with(&inner) && lines[4].starts_with(&outer), "{text}");
    let (of_inner, of_outer) = (lines[2].parse::<i64>().unwrap(), lines[5].parse::<i64>().unwrap());
    assert!(of_inner > of_outer && of_outer > 0, "{text}");
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rest_of_the_environment_is_ours() {
    let scene = Scene::new().await;
    let path = random_path("env");
    let before = scene.tool("env").env("MINE", "1 2\n3").env("EMPTY", "").ended().await.text();
    let tool = scene.zklock(["run", &path, "--", "env"]).env("MINE", "1 2\n3").env("EMPTY", "");
    let text = tool.ended().await.text();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.retain(|line| !line.starts_with("ZK_LOCK_"));
    let mut expected: Vec<&str> = before.lines().collect();
    lines.sort_unstable();
    expected.sort_unstable();
    assert_eq!(lines, expected);
    scene.end().await;
}
