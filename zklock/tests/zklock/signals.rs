//! Signals: what `zklock` is sent while its command runs is sent on.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use nix::sys::signal::Signal;
use tokio::net::TcpListener;
use zookeeper_recipes_dev::{eventually, within};
use zookeeper_testkit::Direction;

use crate::support::processes::{Process, send};
use crate::support::scene::Scene;
use crate::support::scripts::{STAYS, STAYS_AS};
use crate::support::tool::ZKLOCK;

/// No process can ignore these, and these are the C library's own.
const NOT_OURS: [i32; 4] = [9, 19, 32, 33];

const FORWARDED: [Signal; 6] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];

/// The command and what it started. `zklock` waits for a command that takes its time, and the code of one that dies is 128 + N.
#[tokio::test(flavor = "multi_thread")]
async fn each_signal_reaches_the_commands_group() {
    let scene = Scene::new().await;
    for signal in FORWARDED {
        let (mut life, gate) = (scene.lifeline(), scene.gate());
        let name = signal.as_str().trim_start_matches("SIG");
        // The inner shell is in the foreground of the outer one, which waits for it.
        let script = format!(
            r#"exec 9>"$LIFE"; trap : {name}
               sh -c 'trap "echo inner >&9; exit 0" {name}; echo up >&9; while :; do sleep 1000 & wait; done'
               echo outer >&9; until read line < "$GATE"; do :; done 2>/dev/null; exit 8"#
        );
        let mut running = life.up(scene.run(&script).env("GATE", &gate.path)).await;
        running.signal(signal);
        life.says("inner").await;
        life.says("outer").await;
        assert!(!running.has_ended());
        assert_eq!(scene.children().await.len(), 1, "it holds on");
        gate.open().await;
        running.ended().await.quietly(8);
        life.end().await;
        // A command that dies of it.
        let running = life.up(scene.run(&format!("ulimit -c 0; {STAYS}"))).await;
        running.ended_by(signal).await.quietly(128 + signal as i32);
        life.end().await;
        // It was given back, not left to the end of the session.
        assert_eq!(scene.children().await, Vec::<String>::new());
    }
    scene.end().await;
}

/// As by `nohup`.
#[tokio::test(flavor = "multi_thread")]
async fn a_hangup_that_was_ignored_stays_ignored() {
    let (scene, mut life, _) = Scene::staged().await;
    let holder = scene.holder("host-a:123").await;
    let script = r#"exec 9>"$LIFE"; trap 'echo HUP >&9' HUP; trap 'echo USR1 >&9; exit 3' USR1
        grep SigIgn /proc/self/status >&9; echo up >&9; while :; do sleep 1000 & wait; done"#;
    let tool = scene.tool("nohup").args([ZKLOCK, "run", &scene.path]);
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

/// As far as `zklock` got them ignored, and no others: systemd ignores SIGPIPE, `nohup` SIGHUP. The nested one starts afresh.
#[tokio::test(flavor = "multi_thread")]
async fn the_command_gets_the_dispositions_that_zklock_got() {
    let scene = Scene::new().await;
    let all: Vec<String> = (1..=64)
        .filter(|number| !NOT_OURS.contains(number))
        .map(|number| number.to_string())
        .collect();
    let each =
        (1..=31).filter(|number| !NOT_OURS.contains(number)).map(|number| number.to_string());
    let rows = each.chain([String::new(), all.join(","), "PIPE,HUP,INT".to_owned()]);
    let check = async |(number, ignored): (usize, String)| {
        // A shell has a disposition of its own for SIGCHLD.
        let ignore = (!ignored.is_empty()).then(|| format!("--ignore-signal={ignored}"));
        let after = async |run: &[&str]| {
            let tool = scene.tool("env").args(&ignore).args(run).args(["cat", "/proc/self/status"]);
            let ended = tool.ended().await;
            ended.quietly(0);
            let text = ended.text();
            let mask = text.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
            let mask = u64::from_str_radix(mask.trim(), 16).unwrap();
            // The C library ignores its own ones in a child.
            mask & !(1 << 31 | 1 << 32)
        };
        let [path, inner] =
            ["outer", "inner"].map(|name| format!("{}/{number}/{name}", scene.path));
        let plain = after(&[]).await;
        assert_eq!(plain == 0, ignored.is_empty(), "{ignored}: {plain:x}");
        let run = [ZKLOCK, "run", &path, "--"];
        assert_eq!(after(&run).await, plain, "{ignored}");
        let nested = [&run[..], &[ZKLOCK, "run", &inner, "--"]].concat();
        assert_eq!(after(&nested).await, plain, "{ignored}, nested");
    };
    let rows = stream::iter(rows.enumerate().map(check));
    rows.buffer_unordered(8).collect::<Vec<()>>().await;
    let script = r#"trap '' PIPE; exec "$ZKLOCK" run "$LOCK" -- env"#;
    let ended = scene.tool("sh").args(["-c", script]).ended().await;
    ended.quietly(0);
    assert!(!ended.text().contains("IGNORED"), "{ended}");
    // An error and a script without an interpreter line as without that.
    let script = r#"trap '' PIPE; exec "$ZKLOCK" run "$LOCK" -- no-such-command"#;
    let ended = scene.tool("sh").args(["-c", script]).ended().await;
    ended.one_line(127, &["no-such-command"]);
    scene.end().await;
}

/// As `systemd` stops a service: all processes at once are told.
#[tokio::test(flavor = "multi_thread")]
async fn all_processes_can_be_told_at_once() {
    let (scene, mut life, _) = Scene::staged().await;
    // `zklock` sends the command what it got itself, perhaps while the trap runs: a shell would begin it once more.
    let script = r#"exec 9>"$LIFE"; trap 'trap "" TERM; echo TERM >&9; echo cleaned up >&9; exit 4' TERM
        echo up >&9; while :; do sleep 1000 & wait; done"#;
    let running = life.up(scene.run(script)).await;
    for process in scene.processes() {
        send(Signal::SIGTERM, process.id);
    }
    life.says("TERM").await;
    running.ended().await.with(4);
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
    running.ended_by(Signal::SIGTERM).await.quietly(143);
    life.end().await;
    scene.end().await;
}

/// Of `run` and of `elect`, and while there is no connection to wait over.
#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_the_wait_and_nothing_is_left() {
    let scene = Scene::new().await;
    let holder = scene.holder("host-a:123").await;
    let leader = format!("{}/election", scene.path);
    let latch = holder.curator.leader_latch(&leader).unwrap();
    within("it leads", latch.leadership()).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = listener.local_addr().unwrap().to_string();
    for signal in FORWARDED {
        for arguments in
            [&["run", &scene.path][..], &["run", &scene.path, "-w", "1h"], &["elect", &leader]]
        {
            let path = arguments[1];
            let queue = async || scene.admin.list_children(path).await.unwrap().len();
            let others = queue().await;
            let waiting = scene.zklock(arguments).args(["--", "touch", "ran"]).start();
            eventually("it waits", async || queue().await > others).await;
            waiting.ended_by(signal).await.one_line(128 + signal as i32, &[signal.as_str()]);
            // Not by the end of its session.
            assert_eq!(queue().await, others, "{signal}, {arguments:?}");
        }
        let tool = scene.run("touch ran").env("ZKLOCK_SERVER", &silent);
        let waiting = tool.env("ZKLOCK_CONNECTION_TIMEOUT", "1h").start();
        // It has come as far as to ask for a session.
        let (_connection, _) = within("a connection", listener.accept()).await.unwrap();
        waiting.ended_by(signal).await.one_line(128 + signal as i32, &[signal.as_str()]);
    }
    assert!(!scene.folder.join("ran").exists());
    latch.close().await.unwrap();
    holder.release().await;
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
    let stalled = link.stall(Direction::Both);
    waiting.signal(Signal::SIGTERM);
    let ended = tokio::time::timeout(Duration::from_secs(30), waiting.ended()).await;
    ended.expect("it ends").one_line(143, &["SIGTERM"]);
    stalled.heal();
    scene.children_are(1).await;
    holder.release().await;
    scene.end().await;
}
