//! Signals: what `zklock` is sent while its command runs is sent on.

use std::time::Duration;

use nix::sys::signal::Signal;

use crate::harness::within;
use crate::processes::Process;
use crate::scene::Scene;
use crate::scripts::{GOES_ON, STAYS, STAYS_AS};

const FORWARDED: [Signal; 6] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];

/// And not the command alone: what it started, too.
#[tokio::test(flavor = "multi_thread")]
async fn each_signal_reaches_the_commands_group() {
    let scene = Scene::new().await;
    for signal in FORWARDED {
        let mut life = scene.lifeline();
        let name = signal.as_str().trim_start_matches("SIG");
        // The inner shell is in the foreground of the outer one, which waits for it.
        let script = format!(
            r#"exec 9>"$LIFE"; trap : {name}
               sh -c 'trap "echo inner >&9; exit 0" {name}; echo up >&9; while :; do sleep 1000 & wait; done'
               echo outer >&9; exit 8"#
        );
        let running = scene.run(&script).env("LIFE", &life.path).start();
        life.says("up").await;
        running.signal(signal);
        life.says("inner").await;
        life.says("outer").await;
        running.ended().await.quietly(8);
        life.end().await;
        scene.children_are(0).await;
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_dies_of_it_gives_128_and_the_signal() {
    let scene = Scene::new().await;
    for signal in FORWARDED {
        let mut life = scene.lifeline();
        let script = format!("ulimit -c 0; {STAYS}");
        let running = scene.run(&script).env("LIFE", &life.path).start();
        life.says("up").await;
        running.signal(signal);
        running.ended().await.quietly(128 + signal as i32);
        life.end().await;
        // It was given back, not left to the end of the session.
        assert_eq!(scene.children().await, Vec::<String>::new());
    }
    scene.end().await;
}

/// The tool goes on to wait for a command that takes its time.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_may_take_its_time_to_end() {
    let (scene, mut life, gate) = Scene::staged().await;
    let tool = scene.run(GOES_ON);
    let mut running = tool.start();
    life.says("up").await;
    running.signal(Signal::SIGTERM);
    life.says("TERM").await;
    assert!(!running.has_ended());
    assert_eq!(scene.children().await.len(), 1, "it holds on");
    gate.open().await;
    running.ended().await.quietly(6);
    life.end().await;
    scene.end().await;
}

/// As by `nohup`.
#[tokio::test(flavor = "multi_thread")]
async fn a_hangup_that_was_ignored_stays_ignored() {
    let (scene, mut life, _) = Scene::staged().await;
    let holder = scene.holder("host-a:123").await;
    let script = r#"exec 9>"$LIFE"; trap 'echo HUP >&9' HUP; trap 'echo USR1 >&9; exit 3' USR1
        grep SigIgn /proc/self/status >&9; echo up >&9; while :; do sleep 1000 & wait; done"#;
    let tool = scene.tool("nohup").args([crate::tool::ZKLOCK, "run", &scene.path]);
    let tool = tool.args(["--", "sh", "-c", script]);
    let running = tool.start();
    scene.children_are(2).await;
    running.signal(Signal::SIGHUP); // while it waits
    holder.release().await;
    let (ignored, _) = life.line().await;
    let ignored = ignored.rsplit(':').next().unwrap().trim();
    assert_eq!(u64::from_str_radix(ignored, 16).unwrap() & 1, 1, "HUP is ignored in the command");
    life.says("up").await;
    running.signal(Signal::SIGHUP); // while it runs
    running.signal(Signal::SIGUSR1);
    life.says("USR1").await;
    running.ended().await.quietly(3);
    life.end().await;
    scene.end().await;
}

/// Nothing of what `zklock` does for itself is inherited.
#[tokio::test(flavor = "multi_thread")]
async fn the_command_starts_with_signals_as_without_us() {
    // Those that glibc keeps for itself: whoever starts a program by `posix_spawn` has it ignore them at first.
    const OF_THE_LIBRARY: u64 = 0b11 << 31;
    let scene = Scene::new().await;
    let look = "grep -E 'Sig(Blk|Ign|Pnd)' /proc/self/status";
    let masks = |text: &str| -> Vec<u64> {
        let masks = text.lines().map(|line| line.rsplit(':').next().unwrap().trim());
        masks.map(|mask| u64::from_str_radix(mask, 16).unwrap() & !OF_THE_LIBRARY).collect()
    };
    let without_us = scene.tool("sh").args(["-c", look]).ended().await.text();
    let ended = scene.run(look).ended().await;
    ended.quietly(0);
    assert_eq!(masks(&ended.text()), masks(&without_us));
    assert_eq!(masks(&without_us).len(), 3, "{without_us}");
    scene.end().await;
}

/// As `systemd` stops a service: all processes at once are told.
#[tokio::test(flavor = "multi_thread")]
async fn all_processes_can_be_told_at_once() {
    let (scene, mut life, _) = Scene::staged().await;
    // `zklock` sends the command what it got itself, perhaps while the trap runs: a shell would begin it once more.
    let script = r#"exec 9>"$LIFE"; trap 'trap "" TERM; echo TERM >&9; echo cleaned up >&9; exit 4' TERM
        echo up >&9; while :; do sleep 1000 & wait; done"#;
    let running = scene.run(script).start();
    life.says("up").await;
    for process in scene.processes() {
        crate::processes::send(Signal::SIGTERM, process.id);
    }
    life.says("TERM").await;
    let ended = running.ended().await;
    assert_eq!(ended.code(), Some(4), "{ended}");
    let (said, _) = life.end().await;
    assert_eq!(said.iter().filter(|line| *line == "cleaned up").count(), 1, "{said:?}");
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_has_a_group_of_its_own() {
    let (scene, mut life, _) = Scene::staged().await;
    let running = scene.run(STAYS_AS).start();
    let command = Process::find(life.process("id").await).unwrap();
    let supervisor = Process::find(running.supervisor()).unwrap();
    let tool = Process::find(running.id).unwrap();
    assert_eq!(command.group, command.id);
    assert_eq!((supervisor.parent, command.parent), (tool.id, supervisor.id));
    assert!(supervisor.group != tool.group && supervisor.group != command.group);
    running.signal(Signal::SIGTERM);
    running.ended().await.quietly(143);
    life.end().await;
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
#[ignore = "make test-all"]
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
