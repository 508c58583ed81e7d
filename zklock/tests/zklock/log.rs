//! The lines on stderr: as JSON, with a time, and those of the libraries.

use serde_json::Value;

use crate::support::scene::Scene;
use crate::support::scripts::STAYS;
use crate::support::tool::Ended;

/// All lines are objects with these keys.
#[track_caller]
fn objects(ended: &Ended) -> Vec<Value> {
    let object = |line: &str| {
        let object: Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {ended}"));
        let time = object["time"].as_str().unwrap();
        assert!(time.starts_with("20") && time.ends_with('Z'), "{line}");
        assert!(["level", "event", "message"].iter().all(|key| object[key].is_string()), "{line}");
        assert_ne!(object["message"], "", "{line}");
        object
    };
    ended.stderr.lines().map(object).collect()
}

/// The only line.
#[track_caller]
fn object(ended: &Ended) -> Value {
    let mut all = objects(ended);
    assert_eq!(all.len(), 1, "{ended}");
    all.remove(0)
}

/// Arguments, variables, the event and the exit code. `{held}` is held by another process.
const ROWS: [(&str, &str, &str, i32); 15] = [
    ("run {held} -n -- touch ran", "", "busy", 75),
    ("run {held} -n -E 9 -- touch ran", "", "busy", 9),
    ("run {held} -n -E 0 -- touch ran", "", "busy", 0),
    ("run {path} -- no-such-command", "", "not_executed", 127),
    ("run {path} -- /", "", "not_executed", 126),
    ("run {path} --nonsense -- touch ran", "", "usage", 64),
    ("run {path}", "", "usage", 64),
    ("", "", "usage", 64),
    ("nonsense", "", "usage", 64),
    ("run {path} -E x -- touch ran", "", "usage", 64),
    ("run {path} -w soon -- touch ran", "ZKLOCK_SESSION_TIMEOUT=soon", "usage", 64),
    ("run {path} --config not-there -- touch ran", "", "usage", 64),
    ("run relative -- touch ran", "", "usage", 64),
    (
        "run {path} --server 127.0.0.1:1 -- touch ran",
        "ZKLOCK_CONNECTION_TIMEOUT=1s",
        "unavailable",
        69,
    ),
    ("run {path} --metrics-file /dev/null -- touch ran", "", "usage", 64),
];

#[tokio::test(flavor = "multi_thread")]
async fn each_failure_is_one_object_by_option_variable_and_file() {
    let scene = Scene::new().await;
    let holder = scene.holder("host-a:123").await;
    let file = scene.file("json.toml", "log-format = \"json\"\nacl = []\n").display().to_string();
    for (arguments, variables, event, code) in ROWS {
        let other = format!("{}/other", scene.path);
        let arguments = arguments.replace("{held}", &scene.path).replace("{path}", &other);
        let zklock = || {
            let tool = scene.zklock(arguments.split_whitespace());
            let variables = variables.split_whitespace().map(|one| one.split_once('=').unwrap());
            variables.fold(tool, |tool, (name, value)| tool.env(name, value))
        };
        let mut ways = vec![zklock().env("ZKLOCK_LOG_FORMAT", "json")];
        if !arguments.is_empty() {
            let (command, rest) = arguments.split_once(' ').unwrap_or((&arguments, ""));
            let before =
                ["--log-format", "json", command].into_iter().chain(rest.split_whitespace());
            let option = scene.zklock(before).env("ZKLOCK_LOG_FORMAT", "text");
            let variables = variables.split_whitespace().map(|one| one.split_once('=').unwrap());
            ways.push(variables.fold(option, |tool, (name, value)| tool.env(name, value)));
        }
        if !arguments.contains("--config") {
            ways.push(zklock().env("ZKLOCK_CONFIG", &file));
        }
        for way in ways {
            let ended = way.ended().await.with(code);
            let object = object(&ended);
            assert_eq!(object["event"], event, "{arguments}: {ended}");
            assert_eq!(object["exit_code"], code, "{arguments}: {ended}");
            let level = if event == "busy" { "info" } else { "error" };
            assert_eq!(object["level"], level, "{arguments}: {ended}");
            if ["busy", "unavailable"].contains(&event) {
                assert!(arguments.contains(object["path"].as_str().unwrap()), "{ended}");
            }
            // The command was about to run under the lock.
            assert_eq!(object["token"].is_number(), event == "not_executed", "{ended}");
        }
    }
    assert!(!scene.folder.join("ran").exists());
    holder.release().await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_in_the_file_have_the_format_that_it_asks_for() {
    let scene = Scene::new().await;
    let file = scene.file("wrong.toml", "log-format = \"json\"\nsevers = \"a\"\n");
    let ended = scene.run("touch ran").env("ZKLOCK_CONFIG", &file).ended().await.with(64);
    let object = object(&ended);
    assert_eq!(object["event"], "usage");
    assert!(object["message"].as_str().unwrap().contains("wrong.toml:2: unknown key"), "{ended}");
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_and_a_loss_carry_path_token_and_exit_code() {
    let (scene, mut life, _) = Scene::staged().await;
    let tool = scene.run_with(["-v", "--log-format=json"], "echo $ZK_LOCK_TOKEN; exit 3");
    let ended = tool.ended().await.with(3);
    let all = objects(&ended);
    let (of_library, own): (Vec<_>, Vec<_>) = all.iter().partition(|one| one["event"] == "library");
    // A slow server makes it say that it waits.
    let events: Vec<_> = own.into_iter().filter(|one| one["event"] != "waiting").collect();
    let names: Vec<_> = events.iter().map(|one| one["event"].as_str().unwrap()).collect();
    assert_eq!(names, ["started", "ended"], "{ended}");
    assert_eq!(events[1]["exit_code"], 3);
    let token: i64 = ended.text().trim().parse().unwrap();
    for one in events {
        assert_eq!((&one["path"], &one["token"]), (&scene.path.as_str().into(), &token.into()));
    }
    assert!(!of_library.is_empty(), "the library logs as well: {ended}");
    for one in of_library {
        assert!(one["target"].as_str().unwrap().starts_with("zookeeper_recipes"), "{one}");
    }
    let running = life.up(scene.run_with(["--log-format=json"], STAYS)).await;
    scene.taken().await;
    let ended = running.ended().await.with(76);
    let lost = object(&ended);
    assert_eq!((&lost["event"], &lost["level"]), (&"lost".into(), &"error".into()), "{ended}");
    assert_eq!((&lost["path"], &lost["exit_code"]), (&scene.path.as_str().into(), &76.into()));
    assert!(lost["token"].as_i64().unwrap() > token, "{ended}");
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_locks_there_are_arrays() {
    let scene = Scene::new().await;
    let [a, b] = ["a", "b"].map(|name| format!("{}/{name}", scene.path));
    let tool = scene.zklock(["run", &b, &a, "--log-format=json", "--", "no-such-command"]);
    let object = object(&tool.ended().await.with(127));
    assert_eq!(object["path"], Value::from(vec![a, b]));
    let tokens = object["token"].as_array().unwrap();
    assert!(tokens[0].as_i64().unwrap() < tokens[1].as_i64().unwrap(), "{object}");
    scene.end().await;
}

/// The command does not get the state of the log, nor another variable of ours.
#[tokio::test(flavor = "multi_thread")]
async fn verbose_lines_have_a_time_and_the_command_knows_nothing_of_it() {
    let scene = Scene::new().await;
    for (name, value, verbose) in [
        ("ZKLOCK_VERBOSE", "1", true),
        ("ZKLOCK_VERBOSE", "true", true),
        ("ZKLOCK_VERBOSE", "0", false),
    ] {
        let ended = scene.run("env").env(name, value).ended().await.with(0);
        assert!(!ended.text().contains("_LOG="), "{ended}");
        assert_eq!(!ended.stderr.is_empty(), verbose, "{ended}");
        for line in ended.stderr.lines() {
            assert!(line.starts_with("20") && line.contains("Z "), "{ended}");
        }
        assert_eq!(ended.stderr.contains("Z zklock: the command runs as process "), verbose);
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_of_the_libraries_is_selected_without_verbose() {
    let scene = Scene::new().await;
    let ended = scene.run("true").env("RUST_LOG", "zookeeper_recipes=debug").ended().await.with(0);
    assert!(ended.stderr.contains(" zookeeper_recipes::"), "{ended}");
    assert!(!ended.stderr.contains("zklock: "), "{ended}");
    let tool = scene.run("true").env("RUST_LOG", "zookeeper_recipes=debug");
    let ended = tool.env("ZKLOCK_LOG_FORMAT", "json").ended().await.with(0);
    let all = objects(&ended);
    assert!(!all.is_empty() && all.iter().all(|one| one["event"] == "library"), "{ended}");
    scene.end().await;
}
