//! The processes that a command starts end with it, wherever they have moved; and a reader that does not read the output keeps
//! no lock from being held.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;

use nix::fcntl::OFlag;
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use zookeeper_recipes_dev::eventually;
use zookeeper_testkit::Operation;

use crate::support::processes::{Process, send};
use crate::support::scene::{Scene, skipped};
use crate::support::terminal::Terminal;
use crate::support::tool::Tool;

/// A supervisor that cannot see who is left takes nobody for gone.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-all"]
async fn who_cannot_be_looked_for_is_not_taken_for_gone() {
    let (scene, mut life, gate) = Scene::staged().await;
    let script = r#"exec 9>"$LIFE"; (trap '' TERM; echo up >&9; while :; do sleep 0.1; done) & read line < "$GATE""#;
    let running = life.up(scene.run(script)).await;
    let supervisor = running.supervisor().to_string();
    let limit = |files: &str| {
        scene.tool("prlimit").args(["--pid", &supervisor, &format!("--nofile={files}:1024")])
    };
    limit("3").ended().await.quietly(0);
    gate.open().await;
    let (_, dead) = life.end().await; // killed as one of the group, which needs no file
    assert_eq!(scene.children().await.len(), 1, "the lock is kept, {dead:?}");
    limit("1024").ended().await.quietly(0);
    running.ended().await.quietly(0);
    scene.end().await;
}

/// A pipe that takes nothing more.
fn full_pipe(scene: &Scene) -> (std::path::PathBuf, File) {
    let path = scene.folder.join("full");
    mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    let flags = OFlag::O_NONBLOCK.bits();
    let mut pipe = File::options().read(true).write(true).custom_flags(flags).open(&path).unwrap();
    loop {
        match pipe.write(&[b'.'; 512]) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return (path, pipe),
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-all"]
async fn who_does_not_read_stderr_does_not_keep_the_lease_from_being_renewed() {
    let (scene, mut life, gate) = Scene::staged().await;
    let link = scene.link().await;
    let (path, mut pipe) = full_pipe(&scene);
    let script = r#"exec "$ZKLOCK" -v run "$LOCK" --on-revoke=ignore -- sh -c 'exec 9>"$LIFE" 2>/dev/null; echo up >&9; read line < "$GATE"; exit 3' 2>"$FULL""#;
    let tool = scene.tool("sh").args(["-c", script]).env("FULL", &path);
    let running = life.up(tool.env("ZKLOCK_SERVER", link.connect_string())).await;
    scene.zklock(["revoke", &scene.path]).ended().await;
    // So many that the session would be over without them: one comes each seventh of its time.
    let answered = link.replies(Operation::Sync);
    eventually("it renews", async || link.replies(Operation::Sync) > answered + 10).await;
    assert_eq!(scene.children().await.len(), 1);
    gate.open().await;
    life.end().await;
    // What was not said in time is not waited for.
    running.ended().await.quietly(3);
    let mut said = Vec::new();
    let _ = pipe.read_to_end(&mut said); // until there is no more
    let said = String::from_utf8_lossy(&said);
    assert!(said.trim_start_matches('.').lines().count() < 50, "{said}");
    scene.end().await;
}

/// The other end of the pipeline reads the terminal: neither it nor `zklock` is stopped for that.
#[tokio::test(flavor = "multi_thread")]
async fn in_a_pipeline_another_can_read_the_terminal() {
    let (scene, mut life, gate) = Scene::staged().await;
    let script = r#"set -m; "$ZKLOCK" run "$LOCK" -- sh -c 'exec 9>"$LIFE"; echo up >&9; read line < "$GATE"; echo done; exit 5' | sh -c 'read line < /dev/tty; echo "got $line"; cat'; echo "codes ${PIPESTATUS[*]}""#;
    let program = ["bash", "--norc", "--noprofile", "-c", script];
    let mut terminal = Terminal::start(&scene, &program, &[]);
    life.says("up").await;
    terminal.types("a line\n");
    terminal.shows("got a line").await;
    gate.open().await;
    terminal.shows("codes 5 0").await;
    terminal.ends(0).await;
    scene.end().await;
}

/// As it ends that of any command, whoever has the terminal.
#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_ends_a_script() {
    let (scene, mut life, _) = Scene::staged().await;
    for waits in ["sleep 1000", "cat"] {
        let script = format!(
            r#"for i in 1 2 3; do "$ZKLOCK" run "$LOCK" -- sh -c 'exec 9>"$LIFE"; echo "up $$" >&9; exec {waits}'; echo "after $?"; done"#
        );
        let program = ["bash", "--norc", "--noprofile", "-c", &script];
        let terminal = Terminal::start(&scene, &program, &[]);
        let command = life.process("up").await;
        if waits == "cat" {
            // It is given the terminal when it reads.
            terminal.foreground_is(command).await;
        }
        terminal.types("\u{3}");
        let text = terminal.ends(130).await;
        assert!(!text.contains("after"), "{text:?}");
        life.end().await;
    }
    scene.end().await;
}

/// What the program started that became `zklock` is not the command's.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-all"]
async fn what_was_there_before_is_spared() {
    let (scene, mut life, _) = Scene::staged().await;
    let script = r#"sleep 1000 & exec "$ZKLOCK" run "$LOCK" -- sh -c 'exec 9>"$LIFE"; echo "helper $0" >&9; exec sleep 1000' "$!""#;
    let tool = scene.tool("sh").args(["-c", script]);
    let mut running = tool.start();
    let helper = life.process("helper").await;
    scene.zklock(["break", &scene.path, "--yes"]).ended().await;
    life.end().await;
    // The helper has its output open still, so it is not the end of that which is waited for.
    eventually("zklock ends", async || running.has_ended()).await;
    assert!(Process::is_alive(helper));
    send(Signal::SIGKILL, helper);
    running.ended().await.one_line(76, &["lost "]);
    scene.end().await;
}

/// As of a container.
const CONTAINER: [&str; 4] = ["--pid", "--fork", "--mount-proc", "--kill-child"];

/// Runs what follows in such namespaces. None if none can be made here.
async fn in_namespace(scene: &Scene, kinds: &[&str]) -> Option<Tool> {
    let inside = || scene.tool("unshare").args(kinds);
    if inside().arg("true").ended().await.code() == Some(0) {
        return Some(inside());
    }
    skipped("no namespace can be made");
    None
}

/// In a container the leader of our session may be outside, and have no number.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-all"]
async fn in_a_namespace_of_its_own_it_is_the_same() {
    let scene = Scene::new().await;
    let Some(inside) = in_namespace(&scene, &CONTAINER).await else { return scene.end().await };
    let (mut life, gate) = (scene.lifeline(), scene.gate());
    let script = r#""$ZKLOCK" run "$LOCK" -- sh -c 'exec 9>"$LIFE"; (trap "" TERM; echo up >&9; timeout 1000 sleep 1000) & read line < "$GATE"; exit 3'; echo "code $?""#;
    let running = life.up(inside.args(["sh", "-c", script]).env("GATE", &gate.path)).await;
    gate.open().await;
    life.end().await;
    let ended = running.ended().await;
    assert_eq!(ended.text(), "code 3\n", "{ended}");
    scene.end().await;
}

/// Also those of a container, which come to its first process, while it waits and while the command runs.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-all"]
async fn who_is_left_without_a_parent_is_buried() {
    let scene = Scene::new().await;
    let Some(inside) = in_namespace(&scene, &CONTAINER).await else { return scene.end().await };
    let holder = scene.holder("host-a").await;
    let (mut life, end, gates) = (scene.lifeline(), scene.gate(), [scene.gate(), scene.gate()]);
    let script = r#"for gate in "$FIRST" "$SECOND"; do sh -c '(read line < "$0") & echo "id $!"' "$gate" & done; wait
        exec "$ZKLOCK" run "$LOCK" -- sh -c 'exec 9>"$LIFE"; echo up >&9; read line < "$GATE"; exit 3'"#;
    let tool = inside
        .args(["sh", "-c", script])
        .env("FIRST", &gates[0].path)
        .env("SECOND", &gates[1].path);
    let mut running = tool.env("LIFE", &life.path).env("GATE", &end.path).start();
    running.stdout.lines(2).await;
    scene.children_are(2).await;
    let first_process = Process::children_of(running.id)[0].id;
    let children = || Process::children_of(first_process).len();
    assert_eq!(children(), 2);
    let [first, second] = gates;
    first.open().await;
    eventually("it is buried while the lock is waited for", async || children() == 1).await;
    holder.release().await;
    life.says("up").await;
    assert_eq!(children(), 2, "the supervisor, and who waits at the second gate");
    second.open().await;
    eventually("it is buried while the command runs", async || children() == 1).await;
    end.open().await;
    life.end().await;
    running.ended().await.quietly(3);
    scene.end().await;
}

/// The last stage before the command looks once more: all may have been frozen since the lock was had.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_not_started_when_the_lease_has_ended() {
    let scene = Scene::new().await;
    let supervisor = std::process::id().to_string();
    let stage = |lease_end: &str| {
        let stage = scene.zklock(["__execute", &supervisor, lease_end, "background"]);
        stage.args(["echo", "it runs"])
    };
    stage("1").ended().await.quietly(76);
    for lease_end in [&u64::MAX.to_string(), "never"] {
        assert_eq!(stage(lease_end).ended().await.with(0).text(), "it runs\n");
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-all"]
async fn a_proc_that_is_missing_or_of_others_is_named() {
    let scene = Scene::new().await;
    let run = r#"exec "$ZKLOCK" run "$LOCK" -- touch ran"#;
    let hidden = format!("mount -t tmpfs none /proc && {run}");
    let namespaces: [(&[&str], &str); 2] = [(&["--mount"], &hidden), (&["--pid", "--fork"], run)];
    for (namespace, script) in namespaces {
        let Some(inside) = in_namespace(&scene, namespace).await else { continue };
        let ended = inside.args(["sh", "-c", script]).ended().await;
        let line = ended.one_line(70, &["/proc is missing, or is that of another PID namespace"]);
        assert!(!line.contains("No such file"), "{line}");
    }
    assert!(!scene.folder.join("ran").exists());
    scene.end().await;
}

/// A command that changes its user can be killed only by those who may signal it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-all"]
async fn a_command_that_could_not_be_ended_is_not_said_to_have_been() {
    let scene = Scene::new().await;
    // As `sudo` does it: by a program that is its owner's, with the set-user-ID bit.
    let change = scene.folder.join("change").display().to_string();
    let script = r#"cp "$(command -v setpriv)" "$0" && chmod 4755 "$0" && setpriv --reuid 65534 --clear-groups "$0" --reuid 0 id -u"#;
    let made = scene.tool("sh").args(["-c", script, &change]).ended().await;
    if made.text() != "0\n" {
        skipped("no set-uid program can be made");
        return scene.end().await;
    }
    let (mut life, gate) = (scene.lifeline(), scene.gate());
    let command = r#"exec 9>"$LIFE"; echo up >&9; until read line < "$GATE"; do :; done; exit 4"#;
    let arguments =
        ["--reuid", "65534", "--clear-groups", crate::support::tool::ZKLOCK, "run", &scene.path];
    let tool = scene.tool("setpriv").args(arguments);
    let tool = tool.args(["--", &change, "--reuid", "0", "sh", "-c", command]);
    let mut running = life.up(tool.env("GATE", &gate.path)).await;
    scene.zklock(["break", &scene.path, "--yes"]).ended().await;
    running.stderr.says("cannot be ended: it is another user's").await;
    gate.open().await;
    life.end().await;
    let ended = running.ended().await.with(76);
    assert!(ended.stderr.contains("could not be ended"), "{ended}");
    assert!(!ended.stderr.contains("the command was ended"), "{ended}");
    scene.end().await;
}
