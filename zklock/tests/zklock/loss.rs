//! What becomes of the command when the lock is lost, or `zklock` or its supervisor is killed or stopped: `LOSSES=20 cargo test -p zklock -- --nocapture margins`
//! shows how long before the server gives the lock away the command is dead, with all that it started.
//!
//! The time of death is when the pipe ends that all of its processes hold. The lock is given away when another client, which
//! reaches the server by a way of its own, is notified of the node's deletion.

use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use nix::sys::signal::Signal;
use zookeeper_testkit::{Cut, Direction, Operation};

use crate::support::processes::{Process, send};
use crate::support::scene::Scene;
use crate::support::scripts::{GIVES_WAY, GOES_ON, STAYS, STUBBORN};
use crate::support::tool::stop;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    /// The link is silent.
    Stalled,
    /// The link is cut, and no other is had.
    Refused,
    /// `zklock` is stopped, or killed.
    Stopped,
    Killed,
    SupervisorKilled,
    /// And the link is silent: `zklock` sees to it alone.
    SupervisorStopped,
    /// `zklock` and its supervisor at once.
    BothKilled,
    /// Somebody deletes the node.
    Deleted,
    /// `zklock` is told to end.
    Terminated,
    /// The command ends by itself, when the gate is opened.
    Ended,
}
use Loss::*;
use zookeeper_recipes_dev::{eventually, within};

/// Options, script, the number of processes that are told `TERM`, the exit code and words of the one line.
type Row = (Loss, &'static str, &'static str, Option<usize>, i32, &'static [&'static str]);

const LOST: &[&str] = &["lost ", "the command was ended"];
/// Obeys TERM, and so does what it started, which has a group of its own; but for that nobody tells it.
const GROUP: &str =
    r#"exec 9>"$LIFE"; timeout 1000 sh -c 'echo up >&9; while :; do sleep 0.1; done'; exit 4"#;
const JOB: &str = r#"exec 9>"$LIFE"; exec bash -c 'set -m; (echo up >&9; sleep 1000) & wait'"#;
const DAEMON: &str =
    r#"exec 9>"$LIFE"; setsid sh -c '(trap "" TERM; echo up >&9; sleep 1000) &'; exec sleep 1000"#;
/// Out of reach of signals to the group, but not of the supervisor, which adopts it.
const ORPHAN: &str = r#"exec 9>"$LIFE"
    setsid sh -c 'setsid sh -c "trap : TERM; echo up >&9; while :; do sleep 1000 & wait; done" & exit' &
    wait $!; exec sleep 1000"#;
/// As a machine that somebody debugs.
const STOPS: &str = r#"exec 9>"$LIFE"; echo up >&9; kill -STOP $$; exec sleep 1000"#;
/// What it leaves behind is ended before anybody else has the lock: by the default, by its own will, by force.
const LEAVES: [&str; 3] = [
    r#"exec 9>"$LIFE"; sh -c "echo up >&9; while :; do sleep 1000 & wait; done" </dev/null >/dev/null 2>&1 &
        until read line < "$GATE"; do :; done 2>/dev/null; exit 3"#,
    r#"exec 9>"$LIFE"; sh -c "trap 'echo TERM >&9; exit' TERM; echo up >&9; while :; do sleep 1000 & wait; done" &
        until read line < "$GATE"; do :; done 2>/dev/null; exit 3"#,
    r#"exec 9>"$LIFE"; sh -c "trap 'echo TERM >&9' TERM; echo up >&9; while :; do sleep 1000 & wait; done" &
        until read line < "$GATE"; do :; done 2>/dev/null; exit 3"#,
];

/// In each of them the command and all that it started dies, and the lock is given away after that unless its node was deleted.
const ROWS: [Row; 26] = [
    (Stalled, "", STUBBORN, Some(2), 76, LOST),
    (Refused, "", STUBBORN, Some(2), 76, LOST),
    (Stopped, "", STUBBORN, Some(2), 76, &["lost ", "zklock was stopped", "the command was ended"]),
    (Killed, "", STUBBORN, Some(0), -1, &[]),
    (Stalled, "--on-lost=kill", STUBBORN, Some(0), 76, LOST),
    (Stopped, "--on-lost=kill", STUBBORN, Some(0), 76, LOST),
    // It ends before the lease does, so that nothing is lost, and nothing is had any more.
    (
        Refused,
        "",
        GIVES_WAY,
        Some(1),
        76,
        &[
            "no answer from 127.0.0.1:",
            " for 3s of the session timeout of 6s",
            "TERM, and KILL after 1s",
        ],
    ),
    (SupervisorKilled, "", STUBBORN, Some(0), 70, &["the supervisor was killed"]),
    (SupervisorStopped, "", STUBBORN, None, 76, &["lost "]),
    (BothKilled, "", STAYS, Some(0), -1, &[]),
    (Deleted, "", GIVES_WAY, Some(1), 76, LOST),
    (Deleted, "", STUBBORN, Some(2), 76, LOST),
    (Deleted, "--kill-after=2s", STUBBORN, Some(2), 76, LOST),
    (Deleted, "--on-lost=kill", STUBBORN, Some(0), 76, LOST),
    (Deleted, "", GROUP, Some(0), 76, LOST),
    (Deleted, "", JOB, Some(0), 76, LOST),
    (Deleted, "", DAEMON, Some(0), 76, LOST),
    (Deleted, "--on-lost=kill", ORPHAN, Some(0), 76, LOST),
    (Deleted, "", STOPS, Some(0), 76, LOST),
    (Killed, "--on-lost=kill", ORPHAN, Some(0), -1, &[]),
    (Killed, "--on-lost=warn", STUBBORN, Some(0), -1, &[]),
    (Killed, "", DAEMON, Some(0), -1, &[]),
    (Terminated, "", GROUP, Some(0), 143, &[]),
    (Ended, "", LEAVES[0], Some(0), 3, &[]),
    (Ended, "", LEAVES[1], Some(1), 3, &[]),
    (Ended, "--kill-after=1s", LEAVES[2], Some(1), 3, &[]),
];

async fn lost_by(number: usize, row: Row) {
    let (loss, option, script, told, code, words) = row;
    let (scene, mut life, gate) = Scene::staged().await;
    let link = scene.link().await;
    let tool = scene.run_with(option.split_whitespace(), script);
    let tool = tool.env("ZKLOCK_SESSION_TIMEOUT", "6s");
    let running = life.up(tool.env("ZKLOCK_SERVER", link.connect_string())).await;
    let deletion = scene.alive_at_deletion(&scene.node().await, &life).await;
    let supervisor = running.supervisor();
    let lost = Instant::now();
    let mut fault = None;
    match loss {
        Stalled => fault = Some(link.stall(Direction::Both)),
        Refused => {
            fault = Some(link.refuse());
            assert_eq!(link.cut(Cut::Reset), 1);
        }
        Stopped => running.stop().await,
        Killed => running.signal(Signal::SIGKILL),
        SupervisorKilled => send(Signal::SIGKILL, supervisor),
        SupervisorStopped => {
            // No renewal lets it go on.
            fault = Some(link.stall(Direction::Both));
            stop(supervisor).await;
        }
        BothKilled => {
            running.stop().await;
            stop(supervisor).await;
            send(Signal::SIGKILL, supervisor);
            running.signal(Signal::SIGKILL);
        }
        Deleted => scene.taken().await,
        Terminated => running.signal(Signal::SIGTERM),
        Ended => gate.open().await,
    }
    let (said, dead) = life.end().await;
    let terms = said.iter().filter(|line| line.contains("TERM")).count();
    assert!(told.is_none_or(|told| told == terms), "{number} {row:?}: {said:?}");
    let (at, alive) = deletion.await.unwrap();
    assert!(
        loss == Deleted || alive.is_empty(),
        "{number} {row:?}: the lock went first, {alive:?}"
    );
    let before = at.saturating_duration_since(dead);
    println!(
        "{number:>3} {loss:?} {option}: dead after {:?}, {before:?} before the node went",
        dead - lost
    );
    if let Some(seconds) = option.strip_prefix("--kill-after=") {
        let given = Duration::from_secs(seconds.trim_end_matches('s').parse().unwrap());
        assert!(dead - lost >= given, "{number} {row:?}: dead after {:?}", dead - lost);
    }
    drop(fault);
    send(Signal::SIGCONT, supervisor);
    running.signal(Signal::SIGCONT);
    let ended = running.ended().await;
    match words {
        [] if code < 0 => assert_eq!((ended.code(), ended.stderr.as_str()), (None, "")),
        [] => ended.quietly(code),
        words => {
            assert!(ended.one_line(code, words).contains(&scene.path), "{number} {row:?}: {ended}");
        }
    }
    scene.end().await;
}

/// The first four, `LOSSES` times if that is set; else each row once.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_dead_before_the_lock_is_given_away_with_these_margins() {
    let rounds = std::env::var("LOSSES").map(|rounds| rounds.parse().expect("a number"));
    let rows: Vec<Row> = match rounds {
        Ok(rounds) => ROWS[..4].iter().copied().cycle().take(rounds).collect(),
        Err(_) => ROWS.to_vec(),
    };
    let rows = stream::iter(rows).enumerate().map(|(number, row)| lost_by(number + 1, row));
    rows.buffer_unordered(8).collect::<Vec<()>>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_on_lost_warn_it_is_said_and_the_command_goes_on() {
    let (scene, mut life, gate) = Scene::staged().await;
    let mut running = life.up(scene.run_with(["--on-lost=warn"], GOES_ON)).await;
    scene.taken().await;
    running.stderr.says(&format!("zklock: lost {}", scene.path)).await;
    assert!(!running.has_ended());
    // Somebody else has it, and it goes on.
    scene.run_with(["-n"], "exit 3").ended().await.quietly(3);
    gate.open().await;
    let (said, _) = life.end().await;
    assert_eq!(said, ["done"]);
    running.ended().await.one_line(76, &["lost ", &scene.path]);
    scene.end().await;
}

/// The link breaks and is back within the lease, and `zklock` is stopped for less than that: nothing is lost, and nobody is
/// told.
#[tokio::test(flavor = "multi_thread")]
async fn a_short_disturbance_loses_nothing() {
    let (scene, mut life, gate) = Scene::staged().await;
    let link = scene.link().await;
    let tool = scene.run_with(["--session-timeout=60s"], GOES_ON);
    let running = life.up(tool.env("ZKLOCK_SERVER", link.connect_string())).await;
    let node = scene.node().await;
    for cut in [Cut::Reset, Cut::Finish, Cut::Reset] {
        let before = link.accepted();
        assert_eq!(link.cut(cut), 1);
        eventually("the link is back", async || link.accepted() > before).await;
    }
    running.stop().await;
    running.signal(Signal::SIGCONT);
    assert_eq!(scene.node().await, node);
    gate.open().await;
    running.ended().await.quietly(6);
    assert_eq!(life.end().await.0, ["done"]);
    scene.end().await;
}

/// What the command did last may not have been alone: its release says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_loss_that_is_learned_at_the_release_is_76() {
    let (scene, mut life, gate) = Scene::staged().await;
    let link = scene.link().await;
    let tool = scene.run(GOES_ON);
    let tool = tool.env("ZKLOCK_SERVER", link.connect_string());
    let running = life.up(tool.env("ZKLOCK_SESSION_TIMEOUT", "30s")).await;
    // It hears nothing more; what it sends arrives.
    let deaf = link.stall(Direction::ToClient);
    scene.taken().await;
    gate.open().await;
    life.says("done").await;
    life.end().await;
    eventually("it gives the lock back", async || link.requests(Operation::Delete) > 0).await;
    deaf.heal();
    let ended = running.ended().await;
    ended.one_line(76, &["lost ", &scene.path]);
    scene.end().await;
}

/// As a daemon does it, on purpose: it is meant to outlive the command.
#[tokio::test(flavor = "multi_thread")]
async fn what_left_the_group_outlives_a_command_that_ends_by_itself() {
    let (scene, mut life, gate) = Scene::staged().await;
    let script = r#"exec 9>"$LIFE"
        setsid sh -c 'echo daemon $$ >&9; exec 9>&-; exec sleep 1000 <&- >&- 2>&-' & exec 9>&-; until read line < "$GATE"; do :; done 2>/dev/null; exit 3"#;
    let running = scene.run(script).start();
    let daemon = life.process("daemon").await;
    gate.open().await;
    running.ended().await.quietly(3);
    assert_eq!(scene.children().await, Vec::<String>::new());
    assert!(Process::is_alive(daemon));
    send(Signal::SIGKILL, daemon);
    scene.end().await;
}

/// A pipe that the command does not have cannot be what it is watched by.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-all"]
async fn a_command_that_closes_all_its_files_is_still_watched() {
    let scene = Scene::new().await;
    for kill in [false, true] {
        let mut life = scene.lifeline();
        let script = r#"exec 9>"$LIFE"; echo id $$ >&9
            exec 0<&- 1>&- 2>&- 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
            trap '' TERM; while :; do sleep 1; done"#;
        let tool = scene.run(script).env("LIFE", &life.path);
        let running = tool.env("ZKLOCK_SESSION_TIMEOUT", "6s").start();
        let id = life.process("id").await;
        assert!(Process::is_alive(id));
        if kill {
            running.signal(Signal::SIGKILL);
        } else {
            scene.taken().await;
        }
        eventually("the command is dead", async || !Process::is_alive(id)).await;
        let ended = running.ended().await;
        if !kill {
            ended.one_line(76, &["lost "]);
        }
        scene.children_are(0).await;
    }
    scene.end().await;
}

/// All three names of it are dead, and so is what it started, when `zklock` has ended.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_left_the_moment_zklock_ends() {
    let scene = Scene::new().await;
    for script in ["exit 0", "sleep 1000 & exit 3", "kill -9 $$", "sleep 1000 & kill -9 $$"] {
        let mut tool = scene.run(script);
        let mut child = tool.command().stdout(std::process::Stdio::null()).spawn().unwrap();
        let status = within("the end", child.wait()).await.unwrap();
        assert!(status.code().is_some());
        assert_eq!(scene.processes(), [], "{script}");
        assert_eq!(scene.children().await, Vec::<String>::new(), "{script}");
    }
    scene.end().await;
}

/// As when the machine sleeps: nobody can end the command then. It is the first thing that is done after.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-all"]
async fn of_two_that_are_stopped_the_first_to_go_on_kills_the_command() {
    let scene = Scene::new().await;
    for supervisor_first in [true, false] {
        let mut life = scene.lifeline();
        let tool = scene.run(STUBBORN).env("ZKLOCK_SESSION_TIMEOUT", "6s");
        let running = life.up(tool).await;
        let supervisor = running.supervisor();
        let deletion = scene.alive_at_deletion(&scene.node().await, &life).await;
        running.stop().await;
        stop(supervisor).await;
        deletion.await.unwrap();
        assert_eq!(life.heard(), Vec::<String>::new(), "it lives, and nobody told it anything");
        let first = if supervisor_first { supervisor } else { running.id };
        send(Signal::SIGCONT, first);
        life.end().await;
        for id in [supervisor, running.id] {
            send(Signal::SIGCONT, id);
        }
        running.ended().await.one_line(76, &["lost ", &scene.path]);
    }
    scene.end().await;
}
