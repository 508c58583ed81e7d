//! Input, output, arguments and environment are the command's, untouched.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use zookeeper_recipes_dev::within;

use crate::support::scene::Scene;

const TEN_MEGABYTES: usize = 10 * 1024 * 1024;

fn noise(length: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(8);
    std::iter::repeat_with(|| random.u8(..)).take(length).collect()
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
    let (scene, mut life, _) = Scene::staged().await;
    for closed in ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"] {
        let script = format!(
            r#"exec "$ZKLOCK" run "$LOCK" -- sh -c 'exec 9>"$LIFE"; echo ran >&9; exit 3' {closed}"#
        );
        let tool = scene.tool("sh").args(["-c", &script]);
        tool.ended().await.quietly(3);
        life.says("ran").await;
        life.end().await;
    }
    // What is said then is said to nobody.
    let holder = scene.holder("host-a:123").await;
    let script = r#"exec "$ZKLOCK" run -n -v "$LOCK" -- true <&- >&- 2>&-"#;
    scene.tool("sh").args(["-c", script]).ended().await.with(75);
    holder.release().await;
    scene.end().await;
}

/// In, and out by both streams.
#[tokio::test(flavor = "multi_thread")]
async fn ten_megabytes_pass_byte_for_byte_however_slowly_they_are_read() {
    let scene = Scene::new().await;
    let content = noise(TEN_MEGABYTES);
    let input = File::open(scene.file("content", &content)).unwrap();
    let mut tool = scene.zklock(["run", &scene.path, "--", "tee", "/dev/stderr"]);
    let mut child = tool.command().stdin(input).spawn().unwrap();
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
    assert_eq!(within("the end", child.wait()).await.unwrap().code(), Some(0));
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
    for command in ["run", "ls"] {
        scene.zklock([OsStr::new(command), path]).ended().await.with(64);
    }
    scene.run("true").env("ZKLOCK_SERVER", path).ended().await.with(64);
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

/// Nothing is inherited of what `zklock` does for itself: a pipe of ours in the command's hands would keep others from seeing
/// its end.
#[tokio::test(flavor = "multi_thread")]
async fn the_command_starts_with_files_folder_limits_signals_and_environment_as_without_us() {
    // Those that glibc keeps for itself: whoever starts a program by `posix_spawn` has it ignore them at first.
    const OF_THE_LIBRARY: u64 = 0b11 << 31;
    let scene = Scene::new().await;
    // The files come first: for the pipes of a pipe line the shell has more open.
    let look = r#"set -- /proc/$$/fd/*; echo "$@" | sed 's,/proc/[0-9]*/fd/,,g'; pwd; umask; ulimit -n
        grep -E 'Sig(Blk|Ign|Pnd)' /proc/self/status; env | grep -v ^ZK_LOCK_ | sort"#;
    // The same shell starts both: what it has itself is the same.
    let script = r#"umask 027; cd home; ulimit -n 500; exec 9</dev/null
        sh -c "$LOOK" </dev/null; echo with us; "$ZKLOCK" run "$LOCK" -- sh -c "$LOOK""#;
    let tool = scene.tool("sh").args(["-c", script]).env("LOOK", look);
    let ended = tool.env("MINE", "1 2\n3").env("EMPTY", "").ended().await;
    ended.quietly(0);
    let started_with = |line: &str| match line.split_once(":\t") {
        Some((name, mask)) if name.starts_with("Sig") => {
            let mask = u64::from_str_radix(mask, 16).unwrap() & !OF_THE_LIBRARY;
            format!("{name} {mask:x}")
        }
        _ => line.to_owned(),
    };
    let text = ended.text();
    let (without_us, with_us) = text.split_once("with us\n").unwrap();
    let [with, without] = [with_us, without_us].map(|half| half.lines().map(started_with));
    assert!(with.eq(without), "{ended}");
    let shell = format!("{}\n0027\n500\nSigPnd", scene.folder.join("home").display());
    for expected in [" 9", &shell, "SigBlk", "SigIgn", "MINE=1 2\n", "EMPTY=\n"] {
        assert!(without_us.contains(expected), "{expected}: {without_us}");
    }
    scene.end().await;
}
