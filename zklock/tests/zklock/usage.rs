//! A command line without `--`, whose command would be locked instead of run.

use crate::scene::Scene;

#[tokio::test(flavor = "multi_thread")]
async fn a_program_in_place_of_a_path_is_64_and_the_line_says_where_the_dashes_go() {
    let scene = Scene::new().await;
    let ran = scene.folder.join("ran").display().to_string();
    let (path, line) = (scene.path.as_str(), format!("touch {ran}"));
    let other = format!("{path}/other");
    let rows: [(&[&str], &str); 6] = [
        (&["run", path, "/bin/sh", "-c", &line], "/bin/sh"),
        (&["run", "/bin/sh", "-c", &line], "/bin/sh"),
        (&["run", path, "/usr/bin/env", "--", "touch", &ran], "/usr/bin/env"),
        (&["run", path, &other, "/bin/sh", "--", "touch", &ran], "/bin/sh"),
        (&["run", path, "/no/such/program", "-c", &line], "-c"),
        (&["run", path, &other, "--shell", &line], "-c"),
    ];
    for (arguments, named) in rows {
        let tool = scene.zklock(arguments).env("ZKLOCK_NAMESPACE", path);
        tool.ended().await.one_line(64, &[named, " -- "]);
    }
    assert!(!scene.folder.join("ran").exists());
    scene.end().await;
}

/// A lock may be named after what it is for, as of `flock`.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_may_have_the_name_of_a_file() {
    let scene = Scene::new().await;
    let rows: [&[&str]; 4] = [
        &["run", "/bin/sh", "--", "sh", "-c", "exit 3"],
        &["run", "/bin/sh", "/etc/passwd", "/usr/bin", "--", "sh", "-c", "exit 3"],
        &["run", "/etc/passwd", "-c", "exit 3"],
        &["run", "/usr/bin", "-c", "exit 3"],
    ];
    for arguments in rows {
        let tool = scene.zklock(arguments).env("ZKLOCK_NAMESPACE", &scene.path);
        tool.ended().await.quietly(3);
    }
    scene.end().await;
}
