//! Input, output, arguments and environment are the command's, untouched.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

use crate::harness::within;
use crate::scene::Scene;

const TEN_MEGABYTES: usize = 10 * 1024 * 1024;

fn noise(length: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(8);
    std::iter::repeat_with(|| random.u8(..)).take(length).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_reads_our_input() {
    let scene = Scene::new().await;
    let sent = noise(3_000_001);
    let ended = scene.zklock(["run", &scene.path, "--", "cat"]).input(sent.clone()).ended().await;
    ended.quietly(0);
    assert!(ended.stdout == sent, "{} bytes", ended.stdout.len());
    scene.end().await;
}

/// What the command does not read is left to who reads after `zklock`.
#[tokio::test(flavor = "multi_thread")]
async fn not_a_byte_of_the_input_is_taken_that_the_command_does_not_take() {
    let scene = Scene::new().await;
    let script = r#""$ZKLOCK" run "$LOCK" -- sh -c 'read line; echo "command: $line"'; read line; echo "after: $line""#;
    let tool = scene.tool("sh").args(["-c", script]);
    let ended = tool.input("one\ntwo\nthree\n").ended().await;
    ended.quietly(0);
    assert_eq!(ended.text(), "command: one\nafter: two\n");
    scene.end().await;
}

/// As under `cron` of some systems, or `<&-` in a shell.
#[tokio::test(flavor = "multi_thread")]
async fn closed_streams_are_no_obstacle() {
    let scene = Scene::new().await;
    for closed in ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"] {
        let mut life = scene.lifeline();
        let script = format!(
            r#"exec "$ZKLOCK" run "$LOCK" -- sh -c 'exec 9>"$LIFE"; echo ran >&9; exit 3' {closed}"#
        );
        let tool = scene.tool("sh").args(["-c", &script]);
        let ended = tool.env("LIFE", &life.path).ended().await;
        ended.quietly(3);
        life.says("ran").await;
        life.end().await;
    }
    // What is said then is said to nobody.
    let holder = scene.holder("host-a:123").await;
    let script = r#"exec "$ZKLOCK" run -n -v "$LOCK" -- true <&- >&- 2>&-"#;
    let ended = scene.tool("sh").args(["-c", script]).ended().await;
    assert_eq!(ended.code(), Some(75), "{ended}");
    holder.release().await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_megabytes_come_out_byte_for_byte_however_slowly_they_are_read() {
    let scene = Scene::new().await;
    let content = noise(TEN_MEGABYTES);
    let file = scene.file("content", &content).display().to_string();
    let mut tool =
        scene.zklock(["run", &scene.path, "--", "sh", "-c", "cat \"$0\"; cat \"$0\" >&2", &file]);
    let mut child = tool.command().spawn().unwrap();
    let (mut stdout, mut stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let errors = tokio::spawn(async move {
        let mut all = Vec::new();
        stderr.read_to_end(&mut all).await.unwrap();
        all
    });
    let reading = tokio::spawn(async move {
        let (mut all, mut part) = (Vec::new(), vec![0; 64 * 1024]);
        while let count @ 1.. = stdout.read(&mut part).await.unwrap() {
            all.extend_from_slice(&part[..count]);
            // So that the command has to wait for us.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        all
    });
    let out = within("all of the output", reading).await.unwrap();
    let err = within("all of the errors", errors).await.unwrap();
    let status = within("the end", child.wait()).await.unwrap();
    assert_eq!(status.code(), Some(0));
    assert!(out == content, "{} bytes", out.len());
    assert!(err == content, "{} bytes on stderr", err.len());
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_goes_ends_the_command_as_without_us() {
    let scene = Scene::new().await;
    let mut tool = scene.zklock(["run", &scene.path, "--", "yes"]);
    let mut child = tool.command().spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    within("a line", stdout.read_line(&mut line)).await.unwrap();
    assert_eq!(line, "y\n");
    drop(stdout);
    let output = within("the end", child.wait_with_output()).await.unwrap();
    assert_eq!(output.status.code(), Some(128 + nix::libc::SIGPIPE));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_and_environment_may_be_any_bytes() {
    let scene = Scene::new().await;
    let odd = OsString::from_vec(vec![b'a', 0xff, 0xfe, b'\n', b' ', b'*', 0xc3]);
    let tool =
        scene.zklock(["run", &scene.path, "--", "sh", "-c", r#"printf '%s|%s' "$0" "$ODD""#]);
    let ended = tool.arg(&odd).env("ODD", &odd).ended().await;
    ended.quietly(0);
    assert_eq!(ended.stdout, [odd.as_bytes(), odd.as_bytes()].join(&b'|'));
    // The name of the command, and the line for the shell.
    let mut name = scene.folder.clone().into_os_string();
    name.push("/");
    name.push(OsStr::from_bytes(b"odd\xff"));
    std::os::unix::fs::symlink("/bin/echo", &name).unwrap();
    let ended = scene.zklock(["run", &scene.path, "--"]).arg(&name).arg("hello").ended().await;
    ended.quietly(0);
    assert_eq!(ended.text(), "hello\n");
    let line = OsStr::from_bytes(b"printf '%s' 'a\xffb'");
    let ended = scene.zklock(["run", &scene.path, "-c"]).arg(line).ended().await;
    ended.quietly(0);
    assert_eq!(ended.stdout, b"a\xffb");
    scene.end().await;
}

/// ZooKeeper's paths are text.
#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_is_no_text_is_64() {
    let scene = Scene::new().await;
    let path = OsStr::from_bytes(b"/lock\xff");
    for arguments in [[OsStr::new("run"), path], [OsStr::new("ls"), path]] {
        let ended = scene.zklock(arguments).ended().await;
        assert_eq!(ended.code(), Some(64), "{ended}");
    }
    let ended = scene.run("true").env("ZKLOCK_SERVER", path).ended().await;
    assert_eq!(ended.code(), Some(64), "{ended}");
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stands_behind_the_dashes_is_the_commands() {
    let scene = Scene::new().await;
    let given = ["-n", "--help", "-v", "--server", "nowhere:1", "--", "--version", ""];
    let tool = scene.zklock(["run", &scene.path, "--", "printf", "<%s>"]).args(given);
    let ended = tool.ended().await;
    ended.quietly(0);
    assert_eq!(ended.text(), given.map(|given| format!("<{given}>")).concat());
    scene.end().await;
}

/// A pipe of ours in the command's hands would keep others from seeing its end.
#[tokio::test(flavor = "multi_thread")]
async fn the_command_has_the_files_that_we_were_started_with_and_no_other() {
    let scene = Scene::new().await;
    // Before there is a pipe line, for whose pipes the shell has files open.
    let look = r#"set -- /proc/$$/fd/*; echo "$@" | sed 's,/proc/[0-9]*/fd/,,g'"#;
    // The same shell starts both: what it has itself is the same.
    let script =
        r#"exec 9</dev/null; sh -c "$LOOK" </dev/null; "$ZKLOCK" run "$LOCK" -- sh -c "$LOOK""#;
    let tool = scene.tool("sh").args(["-c", script]);
    let ended = tool.env("LOOK", look).ended().await;
    ended.quietly(0);
    let text = ended.text();
    let lines: Vec<&str> = text.lines().collect();
    let [without_us, with_us] = lines[..] else { panic!("{text}") };
    assert_eq!(with_us, without_us);
    assert!(without_us.contains(" 9"), "{without_us}");
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_folder_and_the_umask_are_ours() {
    let scene = Scene::new().await;
    let script =
        r#"umask 027; cd home; exec "$ZKLOCK" run "$LOCK" -- sh -c 'pwd; umask; ulimit -n'"#;
    let tool = scene.tool("sh").args(["-c", &format!("ulimit -n 500; {script}")]);
    let ended = tool.ended().await;
    ended.quietly(0);
    let home = scene.folder.join("home");
    assert_eq!(ended.text(), format!("{}\n0027\n500\n", home.display()));
    scene.end().await;
}
