//! At a terminal.

use std::ffi::OsStr;
use std::process::Stdio;

use nix::sys::signal::Signal;
use zookeeper_recipes_dev::eventually;
use zookeeper_testkit::Operation;

use crate::support::processes::{Process, send};
use crate::support::scene::{Scene, skipped};
use crate::support::terminal::Terminal;
use crate::support::tool::ZKLOCK;

/// A shell with job control at a terminal, which runs these lines.
fn shell(scene: &Scene, script: &str) -> Terminal {
    Terminal::start(scene, &["bash", "--norc", "--noprofile", "-c", script], &[])
}

fn directly(scene: &Scene, script: &str) -> Terminal {
    Terminal::start(scene, &[ZKLOCK, "run", &scene.path, "--", "sh", "-c", script], &[])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_shows_who_holds_for_how_long_and_the_place_in_the_queue() {
    let scene = Scene::new().await;
    let holder = scene.holder("host-a:123").await;
    let log = scene.folder.join("out");
    let program = [ZKLOCK, "run", &scene.path, "--", "sh", "-c", "echo output; exit 3"];
    // The line is for people; the output is the command's.
    let output = Stdio::from(std::fs::File::create(&log).unwrap());
    let mut terminal = Terminal::with_output(&scene, &program, &[], Some(output));
    let line =
        format!("waiting for {}: number 2 in the queue, held by host-a:123, queued ", scene.path);
    terminal.shows(&line).await;
    holder.release().await;
    let text = terminal.ends(3).await;
    assert_eq!(text.matches('\n').count(), 1, "{text:?}");
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "output\n");
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_ends_a_wait_with_one_more_line() {
    let scene = Scene::new().await;
    let holder = scene.holder("host-a:123").await;
    for (keys, code, said) in [("\u{3}", 130, "SIGINT"), ("\u{1c}", 131, "SIGQUIT")] {
        let mut terminal = directly(&scene, "echo it runs");
        terminal.shows("number 2 in the queue").await;
        terminal.types(keys);
        let text = terminal.ends(code).await;
        assert_eq!(text.matches("zklock: ").count(), 2, "{text:?}");
        assert!(text.contains(said) && !text.contains("it runs"), "{text:?}");
        scene.children_are(1).await;
    }
    holder.release().await;
    scene.end().await;
}

/// The kernel drops the signal by which a program ends as interrupted.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_process_of_a_container_is_interrupted_with_130() {
    let scene = Scene::new().await;
    let holder = scene.holder("host-a:123").await;
    let container = ["unshare", "--pid", "--fork", "--mount-proc"];
    if !std::process::Command::new("unshare")
        .args(&container[1..])
        .arg("true")
        .status()
        .unwrap()
        .success()
    {
        return skipped("this user cannot have a process namespace");
    }
    let script = r#"exec "$ZKLOCK" run "$LOCK" -- true"#;
    let mut terminal =
        Terminal::start(&scene, &[&container[..], &["sh", "-c", script]].concat(), &[]);
    terminal.shows("number 2 in the queue").await;
    terminal.types("\u{3}");
    let text = terminal.ends(130).await;
    assert!(text.contains("SIGINT"), "{text:?}");
    holder.release().await;
    scene.end().await;
}

/// Ctrl-S, or a connection that hangs: neither the place in the queue is lost by it nor a signal.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-all"]
async fn a_terminal_that_is_stopped_keeps_nobody_waiting() {
    let (scene, mut life, _) = Scene::staged().await;
    for is_ended in [true, false] {
        let holder = scene.holder("host-a:123").await;
        let link = scene.link().await;
        let script = r#""$ZKLOCK" run "$LOCK" -- sh -c 'exec 9>"$LIFE"; echo up >&9; exit 3'; echo "code $?""#;
        let variables = [("ZKLOCK_SERVER", OsStr::new(link.connect_string()))];
        let program = ["bash", "--norc", "--noprofile", "-c", script];
        let mut terminal = Terminal::start(&scene, &program, &variables);
        terminal.shows("number 2 in the queue").await;
        terminal.types("\u{13}");
        // It goes on by then.
        let asked = link.replies(Operation::Exists);
        eventually("it asks on", async || link.replies(Operation::Exists) > asked + 2).await;
        let code = if is_ended {
            let waiting = Process::children_of(terminal.id);
            send(Signal::SIGTERM, waiting[0].id);
            scene.children_are(1).await;
            143
        } else {
            3
        };
        holder.release().await;
        if !is_ended {
            life.says("up").await;
            life.end().await;
        }
        terminal.types("\u{11}");
        terminal.shows(&format!("code {code}")).await;
        terminal.ends(0).await;
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_keys_for_signals_go_to_the_command() {
    let (scene, mut life, _) = Scene::staged().await;
    for (key, name) in [("\u{3}", "INT"), ("\u{1c}", "QUIT")] {
        let script = r#"exec 9>"$LIFE"; n=0; got() { echo $1 >&9; n=$((n+1)); [ $n -lt 2 ] || exit 7; }
            trap 'got INT' INT; trap 'got QUIT' QUIT; echo id $$ >&9
            while :; do sleep 1000 & wait; done"#;
        let terminal = directly(&scene, script);
        terminal.is_of(&mut life).await;
        terminal.types(key);
        life.says(name).await;
        // And `zklock` waits for what the command makes of it.
        terminal.types(key);
        life.says(name).await;
        terminal.ends(7).await;
        life.end().await;
        scene.children_are(0).await;
    }
    scene.end().await;
}

/// A holder that sleeps would lose the lock.
#[tokio::test(flavor = "multi_thread")]
async fn ctrl_z_does_not_suspend_a_holder() {
    let (scene, mut life, _) = Scene::staged().await;
    let script = r#"exec 9>"$LIFE"; echo id $$ >&9; read line; echo "read: $line" >&9; exit 5"#;
    let mut terminal = directly(&scene, script);
    let command = terminal.is_of(&mut life).await;
    terminal.types("\u{1a}");
    terminal.shows("zklock: ").await;
    eventually("it goes on", async || !Process::is_stopped(command)).await;
    terminal.types("after\n");
    life.says("read: after").await;
    terminal.ends(5).await;
    scene.end().await;
}

/// The shell reads the terminal, and ends.
async fn is_the_shells(mut terminal: Terminal) {
    terminal.foreground_is(terminal.id).await;
    terminal.types("hello\n");
    terminal.shows("shell read: hello").await;
    terminal.ends(0).await;
}

/// A shell with job control takes it; a script's does not, and would be stopped when it reads.
#[tokio::test(flavor = "multi_thread")]
async fn the_shell_has_the_terminal_again_at_the_end() {
    let (scene, mut life, _) = Scene::staged().await;
    for (jobs, ends, code) in [
        ("set -m", "exit 3", 3),
        ("set -m", "kill -9 $$", 137),
        ("set +m", "exit 3", 3),
        ("set +m", "kill -9 $$", 137),
    ] {
        let script = format!(
            r#"{jobs}; "$ZKLOCK" run "$LOCK" -- sh -c 'exec 9>"$LIFE"; echo id $$ >&9; read line; {ends}'
               echo "code $?"; read line; echo "shell read: $line""#
        );
        let mut terminal = shell(&scene, &script);
        terminal.is_of(&mut life).await;
        terminal.types("go\n");
        terminal.shows(&format!("code {code}")).await;
        assert!(terminal.is_as_before());
        is_the_shells(terminal).await;
        life.end().await;
    }
    scene.end().await;
}

/// Also when the lock is lost and the command is killed, and when nothing could be run.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-all"]
async fn the_shell_has_the_terminal_again_after_a_loss_and_after_a_failure() {
    let (scene, mut life, _) = Scene::staged().await;
    let script = r#"set +m; "$ZKLOCK" run --on-lost=kill "$LOCK" -- sh -c 'exec 9>"$LIFE"; echo id $$ >&9; read line'
        echo "code $?"; "$ZKLOCK" run "$LOCK" -- no-such-command; echo "code $?"
        read line; echo "shell read: $line""#;
    let mut terminal = shell(&scene, script);
    terminal.is_of(&mut life).await;
    scene.taken().await;
    terminal.shows("code 76").await;
    terminal.shows("code 127").await;
    is_the_shells(terminal).await;
    scene.end().await;
}

/// `zklock … &`: it has no claim to the terminal, and takes none.
#[tokio::test(flavor = "multi_thread")]
async fn in_the_background_the_terminal_is_left_alone() {
    let (scene, mut life, gate) = Scene::staged().await;
    let script = r#"set -m
        "$ZKLOCK" run "$LOCK" -- sh -c 'exec 9>"$LIFE"; echo id $$ >&9; until read line < "$GATE"; do :; done 2>/dev/null; exit 6' &
        read line; echo "shell read: $line"; wait $!; echo "code $?""#;
    let mut terminal = shell(&scene, script);
    life.process("id").await;
    terminal.types("hello\n");
    terminal.shows("shell read: hello").await;
    assert_eq!(terminal.foreground(), terminal.id);
    gate.open().await;
    terminal.shows("code 6").await;
    terminal.ends(0).await;
    scene.end().await;
}

/// Waiting can be suspended, as any program: nobody holds anything.
#[tokio::test(flavor = "multi_thread")]
async fn ctrl_z_suspends_a_waiter() {
    let scene = Scene::new().await;
    let holder = scene.holder("host-a:123").await;
    let script = r#"set -m; "$ZKLOCK" --session-timeout 60s run "$LOCK" -- sh -c 'echo it runs; exit 3'
        echo "code $?"; fg; echo "code $?""#;
    let mut terminal = shell(&scene, script);
    terminal.shows("number 2 in the queue").await;
    terminal.types("\u{1a}");
    terminal.shows("code 148").await; // 128 + TSTP
    holder.release().await;
    terminal.shows("code 3").await;
    assert!(terminal.ends(0).await.contains("it runs"));
    scene.end().await;
}

/// A terminal that is closed says `HUP`: nothing lives on without anybody to see it.
#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_that_goes_away_ends_the_command() {
    let (scene, mut life, _) = Scene::staged().await;
    let script = r#"exec 9>"$LIFE"; trap 'echo HUP >&9; exit 1' HUP; echo id $$ >&9
        while :; do sleep 1000 & wait; done"#;
    let terminal = directly(&scene, script);
    terminal.is_of(&mut life).await;
    terminal.hangs_up().await;
    let (said, _) = life.end().await;
    assert!(said.contains(&"HUP".to_owned()), "{said:?}");
    scene.end().await;
}

/// With the input from a file the terminal is still where Ctrl-C comes from.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-all"]
async fn with_the_input_from_a_file_ctrl_c_still_reaches_the_command() {
    let (scene, mut life, _) = Scene::staged().await;
    let script = r#""$ZKLOCK" run "$LOCK" -- sh -c 'exec 9>"$LIFE"; trap "echo INT >&9; exit 2" INT; echo id $$ >&9
        while :; do sleep 1000 & wait; done' </dev/null; echo "code $?""#;
    let mut terminal = shell(&scene, &format!("set -m; trap : INT; {script}"));
    life.process("id").await;
    terminal.types("\u{3}");
    life.says("INT").await;
    terminal.shows("code 2").await;
    terminal.ends(0).await;
    scene.end().await;
}
