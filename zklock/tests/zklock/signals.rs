//! Signals: what `zklock` is sent while its command runs is sent on.

use nix::sys::signal::Signal;

use crate::processes::Process;
use crate::scene::Scene;
use crate::scripts::{GOES_ON, STAYS, STAYS_AS};

pub(crate) const FORWARDED: [Signal; 6] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];

/// Tells each signal, also of a child of its own, and ends with 9 after six. (What a shell starts with `&` ignores
/// `INT` and `QUIT`, hence the child is in front and the shell's `wait` is not: it is another shell's.)
const TELLS: &str = r#"
exec 9>"$LIFE"
n=0
got() { echo "$1" >&9; n=$((n + 1)); [ $n -lt 6 ] || exit 9; }
for s in HUP INT QUIT TERM USR1 USR2; do trap "got $s" $s; done
echo up >&9
while :; do sleep 1000 & wait; done
"#;

#[tokio::test(flavor = "multi_thread")]
async fn each_signal_reaches_the_command() {
    let scene = Scene::new().await;
    let mut life = scene.lifeline();
    let running = scene.run(TELLS).env("LIFE", &life.path).start();
    life.says("up").await;
    for signal in FORWARDED {
        running.signal(signal);
        life.says(signal.as_str().trim_start_matches("SIG")).await;
    }
    running.ended().await.quietly(9);
    life.end().await;
    scene.end().await;
}

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
    let scene = Scene::new().await;
    let mut life = scene.lifeline();
    let gate = scene.gate();
    let tool = scene.run(GOES_ON).env("LIFE", &life.path).env("GATE", &gate.path);
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
    let scene = Scene::new().await;
    let mut life = scene.lifeline();
    let holder = scene.holder("host-a:123").await;
    let script = r#"exec 9>"$LIFE"; trap 'echo HUP >&9' HUP; trap 'echo USR1 >&9; exit 3' USR1
        grep SigIgn /proc/self/status >&9; echo up >&9; while :; do sleep 1000 & wait; done"#;
    let tool = scene.tool("nohup").args([crate::tool::ZKLOCK, "run", &scene.path]);
    let tool = tool.args(["--", "sh", "-c", script]).env("LIFE", &life.path);
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
    let scene = Scene::new().await;
    let mut life = scene.lifeline();
    // `zklock` sends the command what it got itself, perhaps while the trap runs: a shell would begin it once more.
    let script = r#"exec 9>"$LIFE"; trap 'trap "" TERM; echo TERM >&9; echo cleaned up >&9; exit 4' TERM
        echo up >&9; while :; do sleep 1000 & wait; done"#;
    let running = scene.run(script).env("LIFE", &life.path).start();
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
    let scene = Scene::new().await;
    let mut life = scene.lifeline();
    let running = scene.run(STAYS_AS).env("LIFE", &life.path).start();
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
