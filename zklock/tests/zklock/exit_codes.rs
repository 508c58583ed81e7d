//! What `zklock` ends with, and the one line that says why.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use nix::sys::signal::Signal;
use zookeeper_recipes::zookeeper_client::{Acls, CreateMode};
use zookeeper_recipes::{Curator, InterProcessMutex};
use zookeeper_testkit::random_path;

use crate::harness::within;
use crate::scene::Scene;
use crate::scripts::{STAYS, ends};
use crate::signals::FORWARDED;

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_code_is_ours_as_it_is() {
    let scene = Scene::new().await;
    for code in [0, 1, 2, 64, 75, 76, 127, 255] {
        let ended = scene.run(&format!("exit {code}")).ended().await;
        ended.quietly(code);
        assert_eq!(ended.stdout, b"");
        scene.children_are(0).await;
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_killed_by_a_signal_gives_128_and_the_signal() {
    let scene = Scene::new().await;
    let killers = [Signal::SIGKILL, Signal::SIGSEGV, Signal::SIGABRT, Signal::SIGPIPE];
    for signal in FORWARDED.into_iter().chain(killers) {
        let number = signal as i32;
        // No file of its memory.
        let ended = scene.run(&format!("ulimit -c 0; kill -{number} $$")).ended().await;
        ended.quietly(128 + number);
    }
    scene.end().await;
}

/// A line for `/bin/sh`, as of `flock -c`.
#[tokio::test(flavor = "multi_thread")]
async fn a_line_for_the_shell_is_run_by_it() {
    let scene = Scene::new().await;
    let ended = scene.zklock(["run", &scene.path, "-c", "echo $((6 * 7)); exit 5"]).ended().await;
    ended.quietly(5);
    assert_eq!(ended.text(), "42\n");
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_is_busy_is_75_or_what_was_asked_for() {
    let scene = Scene::new().await;
    let holder = scene.holder("host-a:123").await;
    let busy = format!("{} is busy", scene.path);
    for (options, code) in [
        (vec!["-n"], 75),
        (vec!["--nonblock"], 75),
        (vec!["-n", "-E", "1"], 1),
        (vec!["-n", "--conflict-exit-code", "200"], 200),
        (vec!["-n", "-E", "0"], 0),
    ] {
        let ended = scene.run_with(&options, "echo ran").ended().await;
        ended.one_line(code, &[&busy, "held by host-a:123"]);
        assert_eq!(ended.stdout, b"", "{options:?}");
    }
    for (options, code) in [
        (vec!["-w", "3"], 75),
        (vec!["-w", "3s", "-E", "3"], 3),
        (vec!["--timeout", "3s"], 75),
        (vec!["-w", "0"], 75),
    ] {
        let ended = scene.run_with(&options, "echo ran").ended().await;
        ended.one_line(code, &[&busy, "held by host-a:123"]);
        assert_eq!(ended.stdout, b"", "{options:?}");
    }
    let ended = scene.run_with(["-w", "3s"], "echo ran").ended().await;
    ended.one_line(75, &[&format!("{busy} after 3s: held by host-a:123")]);
    scene.children_are(1).await;
    holder.release().await;
    // It is free: none of these waits.
    scene.run_with(["-n"], "exit 4").ended().await.quietly(4);
    scene.run_with(["-w", "0"], "exit 4").ended().await.quietly(4);
    scene.end().await;
}

/// The help says so, and a command may end with any.
#[tokio::test(flavor = "multi_thread")]
async fn the_code_for_busy_changes_no_other() {
    let scene = Scene::new().await;
    scene.run_with(["-n", "-E", "9"], "exit 3").ended().await.quietly(3);
    let bad = scene.run_with(["-n", "-E", "9"], "true").env("ZKLOCK_SERVER", "127.0.0.1:1");
    bad.env("ZKLOCK_CONNECTION_TIMEOUT", "1s").ended().await.one_line(69, &[]);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_usage_is_64_and_nothing_is_run() {
    let scene = Scene::new().await;
    let ran = scene.folder.join("ran").display().to_string();
    let path = scene.path.as_str();
    let touch = ["--", "touch", &ran];
    let options: [&[&str]; 27] = [
        &["-w", "soon"],
        &["-w", "1e19"],
        &["-w", "1000y"],
        &["--kill-after", "1e19"],
        &["--connection-timeout", "1e19"],
        &["-w", "-1"],
        &["-n", "-w", "1"],
        &["-E", "256"],
        &["-E", "busy"],
        &["--read", "--write"],
        &["--read", "--count", "2"],
        &["--count", "0"],
        &["--count", "-1"],
        &["--count", "many"],
        &["--on-lost", "cry"],
        &["--on-revoke", "cry"],
        &["--kill-after", "1h"],
        &["--kill-after", "4s"],
        &["--session-timeout", "never"],
        &["--session-timeout", "0"],
        &["--connection-timeout", "x"],
        &["--namespace", "relative"],
        &["--server", ""],
        &["--config", "not-there.toml"],
        &["--auth-file", "not-there"],
        &["--tls-ca", "not-there"],
        &["--nonsense"],
    ];
    for options in options {
        let ended = scene.zklock(["run", path]).args(options).args(touch).ended().await;
        assert_eq!(ended.code(), Some(64), "{options:?}: {ended}");
        assert!(!ended.stderr.is_empty() && ended.stdout.is_empty(), "{options:?}: {ended}");
    }
    let whole: Vec<Vec<&str>> = vec![
        vec![],
        vec!["nonsense"],
        vec!["run"],
        vec!["run", path],
        vec!["run", path, "--"],
        vec!["run", "--", "touch", &ran],
        vec!["run", path, "-c", "true", "--", "true"],
        vec!["run", "relative", "--", "touch", &ran],
        vec!["run", "", "--", "touch", &ran],
        vec!["run", "/a//b", "--", "touch", &ran],
        vec!["run", "/a/", "--", "touch", &ran],
        vec!["run", "/a/../b", "--", "touch", &ran],
        vec!["run", "/a\u{1}b", "--", "touch", &ran],
        vec!["run", path, path, "--", "touch", &ran],
        vec!["elect"],
        vec!["elect", "relative"],
        vec!["observe", "relative"],
        vec!["ls", "relative"],
        vec!["ls", path, "--watch=1e19"],
        vec!["revoke", "relative"],
        vec!["break", "relative", "--yes"],
        vec!["break", path, "--all", "--node", "x"],
        vec!["completions", "tcsh"],
    ];
    for arguments in whole {
        let ended = scene.zklock(&arguments).ended().await;
        assert_eq!(ended.code(), Some(64), "{arguments:?}: {ended}");
        assert!(!ended.stderr.is_empty() && ended.stdout.is_empty(), "{arguments:?}: {ended}");
    }
    assert!(!std::path::Path::new(&ran).exists());
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_zookeeper_is_69() {
    let scene = Scene::new().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = listener.local_addr().unwrap().to_string();
    for server in ["127.0.0.1:1", "no-such-host.invalid:2181", &silent] {
        for command in [&["run"][..], &["ls"], &["revoke"], &["break", "--yes"]] {
            let tool = scene.zklock(command).args([&scene.path, "--server", server]);
            let tool = tool.args(["--connection-timeout", "1s"]);
            let runs = command == ["run"];
            let tool = if runs { tool.args(["--", "touch", "ran"]) } else { tool };
            let ended = tool.ended().await;
            ended.one_line(69, &[]);
            assert_eq!(ended.stdout, b"", "{ended}");
        }
    }
    assert!(!scene.folder.join("ran").exists());
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_zookeeper_refuses_is_69() {
    let scene = Scene::new().await;
    // Somebody else's, and only theirs.
    let owner = Curator::builder().auth("digest", b"ours:secret").acls(Acls::creator_all());
    let owner = scene.connect(owner).await;
    let private = random_path("private");
    let mutex = InterProcessMutex::new(&owner, &private).unwrap();
    let guard = within("the lock", mutex.acquire()).await.unwrap();
    let ended = scene.zklock(["run", &private, "--", "touch", "ran"]).ended().await;
    ended.one_line(69, &[&private]);
    guard.release().await.unwrap();
    // Below a node that can have no children.
    let barren = random_path("barren");
    scene.create(&barren, CreateMode::Ephemeral).await;
    let below = format!("{barren}/lock");
    let ended = scene.zklock(["run", &below, "--", "touch", "ran"]).ended().await;
    ended.one_line(69, &[&below]);
    assert!(!scene.folder.join("ran").exists());
    scene.end().await;
}

/// A mutex and a read-write lock on one path would not exclude each other.
#[tokio::test(flavor = "multi_thread")]
async fn another_recipe_on_the_path_is_69() {
    let scene = Scene::new().await;
    let holder = scene.holder("host-a:123").await;
    for options in [["--read"], ["--write"]] {
        let ended = scene.run_with(options, "touch ran").ended().await;
        ended.one_line(69, &[&scene.path]);
    }
    assert!(!scene.folder.join("ran").exists());
    scene.children_are(1).await;
    holder.release().await;
    scene.end().await;
}

/// Neither keeps the other out, whichever came first. What a semaphore leaves behind keeps nobody out.
#[tokio::test(flavor = "multi_thread")]
async fn a_semaphore_beside_another_recipe_is_69() {
    let scene = Scene::new().await;
    let others: [&[&str]; 4] = [&["run"], &["run", "--read"], &["run", "--write"], &["elect"]];
    for other in others {
        for (first, second) in [(&["run", "--count=2"][..], other), (other, &["run", "--count=2"])]
        {
            let mut life = scene.lifeline();
            let command = ["--", "sh", "-c", STAYS];
            let tool = scene.zklock(first).arg(&scene.path).args(command);
            let running = tool.env("LIFE", &life.path).start();
            life.says("up").await;
            let tool = scene.zklock(second).arg(&scene.path).args(["--", "touch", "ran"]);
            tool.ended().await.one_line(69, &[&scene.path, "another recipe"]);
            ends(running).await;
        }
        let tool = scene.zklock(other).arg(&scene.path).args(["--", "sh", "-c", "exit 3"]);
        tool.ended().await.quietly(3);
    }
    assert!(!scene.folder.join("ran").exists());
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_is_not_there_is_127_and_one_that_is_none_126() {
    let scene = Scene::new().await;
    let plain = scene.file("plain", "echo it ran");
    let orphan = scene.file("orphan", "#!/no/such/interpreter\n");
    std::fs::set_permissions(&orphan, std::fs::Permissions::from_mode(0o755)).unwrap();
    let [plain, orphan] = [plain, orphan].map(|path| path.display().to_string());
    for (command, code) in [
        ("no-such-command-anywhere", 127),
        ("./no-such-command", 127),
        ("", 127),
        (orphan.as_str(), 127),
        (plain.as_str(), 126),
        ("/", 126),
    ] {
        let ended = scene.zklock(["run", &scene.path, "--", command]).ended().await;
        ended.one_line(code, &[command]);
        scene.children_are(0).await;
    }
    // A script without `#!` is one for the shell, as it is for shells.
    std::fs::set_permissions(&plain, std::fs::Permissions::from_mode(0o755)).unwrap();
    let ended = scene.zklock(["run", &scene.path, "--", &plain]).ended().await;
    ended.quietly(0);
    assert_eq!(ended.text(), "it ran\n");
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_the_wait_and_nothing_is_left() {
    let scene = Scene::new().await;
    let holder = scene.holder("host-a:123").await;
    for signal in FORWARDED {
        for patience in [&[][..], &["-w", "1h"]] {
            let waiting = scene.run_with(patience, "touch ran").start();
            scene.children_are(2).await;
            waiting.signal(signal);
            waiting.ended().await.one_line(128 + signal as i32, &[signal.as_str()]);
            // Not by the end of its session.
            assert_eq!(scene.children().await.len(), 1, "{signal}");
        }
    }
    assert!(!scene.folder.join("ran").exists());
    holder.release().await;
    scene.end().await;
}

/// Also while there is no connection to wait over.
#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_the_wait_for_a_server() {
    let scene = Scene::new().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = listener.local_addr().unwrap().to_string();
    for signal in FORWARDED {
        let tool = scene.run("touch ran").env("ZKLOCK_SERVER", &silent);
        let waiting = tool.env("ZKLOCK_CONNECTION_TIMEOUT", "1h").start();
        // It has come as far as to ask for a session.
        let (_connection, _) = within("a connection", listener.accept()).await.unwrap();
        waiting.signal(signal);
        waiting.ended().await.one_line(128 + signal as i32, &[signal.as_str()]);
    }
    scene.end().await;
}

/// The server does not answer any more: the node goes with the session, and `zklock` does not wait for that for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_the_wait_while_the_link_is_dead() {
    let scene = Scene::new().await;
    let holder = scene.holder("host-a:123").await;
    let link = scene.link().await;
    let tool = scene.run("touch ran").env("ZKLOCK_SERVER", link.connect_string());
    let waiting = tool.env("ZKLOCK_SESSION_TIMEOUT", "3s").start();
    scene.children_are(2).await;
    let stalled = link.stall(zookeeper_testkit::Direction::Both);
    waiting.signal(Signal::SIGTERM);
    let ended = tokio::time::timeout(Duration::from_secs(30), waiting.ended()).await;
    ended.expect("it ends").one_line(143, &["SIGTERM"]);
    stalled.heal();
    scene.children_are(1).await;
    holder.release().await;
    scene.end().await;
}
