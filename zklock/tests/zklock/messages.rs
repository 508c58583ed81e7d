//! Messages that the table of [`exit_codes`](crate::exit_codes) cannot show.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::support::scene::Scene;

#[tokio::test(flavor = "multi_thread")]
async fn a_variable_that_is_not_text_is_named() {
    let scene = Scene::new().await;
    for name in ["ZKLOCK_ID", "ZKLOCK_SERVER", "ZKLOCK_NAMESPACE", "ZKLOCK_ACL"] {
        let tool = scene.run("touch ran").env(name, OsStr::from_bytes(b"a\xff"));
        tool.ended().await.one_line(64, &[&format!("{name} is not UTF-8")]);
    }
    let tool = scene.run("touch ran").env("ZKLOCK_SESSION_TIMEOUT", OsStr::from_bytes(b"\xff"));
    tool.ended().await.one_line(64, &["ZKLOCK_SESSION_TIMEOUT is not UTF-8"]);
    assert!(!scene.folder.join("ran").exists());
    scene.end().await;
}

/// From the first that the dynamic loader can work with.
#[tokio::test(flavor = "multi_thread")]
async fn too_few_open_files_are_one_line() {
    let scene = Scene::new().await;
    let limited = |command: &str, files: usize| {
        let script = format!("ulimit -n {files}; exec \"$ZKLOCK\" {command}");
        scene.tool("sh").args(["-c", &script]).ended()
    };
    for files in 4..=18 {
        for command in ["run \"$LOCK\" -- touch ran", "ls \"$LOCK\"", "check", "elect \"$LOCK\""] {
            let ended = limited(command, files).await;
            let line = ended.one_line(70, &["Too many open files", "ulimit -n"]);
            assert!(!line.contains("registry"), "{files}: {line}");
        }
    }
    assert!(!scene.folder.join("ran").exists());
    limited("run \"$LOCK\" -- sh -c 'exit 3'", 32).await.quietly(3);
    scene.end().await;
}
