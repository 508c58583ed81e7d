//! The processes: what becomes of the command when `zklock` itself, or its supervisor, is killed or stopped, and what becomes of what
//! the command leaves behind.

use std::time::Duration;

use nix::sys::signal::Signal;
use zookeeper_testkit::Direction;

use crate::harness::eventually;
use crate::processes::{Process, send};
use crate::scene::Scene;
use crate::scripts::{GOES_ON, STAYS_AS, STUBBORN};
use crate::tool::stop;

#[tokio::test(flavor = "multi_thread")]
async fn who_kills_zklock_kills_the_command_and_its_group() {
    let scene = Scene::new().await;
    let mut life = scene.lifeline();
    let tool = scene.run(STUBBORN).env("LIFE", &life.path).env("ZKLOCK_SESSION_TIMEOUT", "6s");
    let running = tool.start();
    life.says("up").await;
    let deletion = scene.deletion(&scene.node().await).await;
    running.signal(Signal::SIGKILL);
    let (said, dead) = life.end().await;
    assert!(!deletion.is_finished());
    assert_eq!(said, Vec::<String>::new(), "nobody was asked");
    let ended = running.ended().await; // and the supervisor does not hold its output open
    assert_eq!((ended.code(), ended.stderr.as_str()), (None, ""));
    assert!(deletion.await.unwrap() > dead);
    scene.end().await;
}

/// It is in the way of nobody's signals, and who kills it all the same has ended the command.
#[tokio::test(flavor = "multi_thread")]
async fn who_kills_the_supervisor_kills_the_command_and_the_lock_goes_after_it() {
    let scene = Scene::new().await;
    let mut life = scene.lifeline();
    let running = scene.run(STUBBORN).env("LIFE", &life.path).start();
    life.says("up").await;
    let alive = scene.alive_at_deletion(&scene.node().await, &life).await;
    send(Signal::SIGKILL, running.supervisor());
    let (said, _) = life.end().await;
    assert_eq!(said, Vec::<String>::new(), "nobody was asked");
    assert_eq!(alive.await.unwrap(), [], "the lock went first");
    running.ended().await.one_line(70, &[]);
    scene.children_are(0).await;
    scene.end().await;
}

/// The command itself dies by the signal that the kernel sends; a process of its own making may live on.
#[tokio::test(flavor = "multi_thread")]
async fn who_kills_both_at_once_kills_the_command() {
    let scene = Scene::new().await;
    let mut life = scene.lifeline();
    let tool = scene.run(STAYS_AS).env("LIFE", &life.path).env("ZKLOCK_SESSION_TIMEOUT", "6s");
    let running = tool.start();
    life.process("id").await;
    let supervisor = running.supervisor();
    running.stop().await;
    stop(supervisor).await;
    send(Signal::SIGKILL, supervisor);
    running.signal(Signal::SIGKILL);
    life.end().await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zklock_that_is_stopped_does_not_keep_the_command_alive() {
    let scene = Scene::new().await;
    for (on_lost, asked) in [("--on-lost=term", true), ("--on-lost=kill", false)] {
        let mut life = scene.lifeline();
        let tool = scene.run_with([on_lost], STUBBORN).env("LIFE", &life.path);
        let running = tool.env("ZKLOCK_SESSION_TIMEOUT", "6s").start();
        life.says("up").await;
        let deletion = scene.deletion(&scene.node().await).await;
        running.stop().await;
        let (said, dead) = life.end().await;
        assert_eq!(said.contains(&"TERM".to_owned()), asked, "{said:?}");
        let deleted = deletion.await.unwrap();
        println!("{on_lost}: dead {:?} before the node went", deleted.duration_since(dead));
        assert!(dead < deleted);
        running.signal(Signal::SIGCONT);
        running.ended().await.one_line(76, &["lost ", &scene.path]);
    }
    scene.end().await;
}

/// Stopped for less than its lease, it goes on as if nothing had been.
#[tokio::test(flavor = "multi_thread")]
async fn a_zklock_that_is_stopped_and_continued_in_time_loses_nothing() {
    let scene = Scene::new().await;
    let (mut life, gate) = (scene.lifeline(), scene.gate());
    let tool = scene.run(GOES_ON).env("LIFE", &life.path).env("GATE", &gate.path);
    let running = tool.env("ZKLOCK_SESSION_TIMEOUT", "60s").start();
    life.says("up").await;
    running.stop().await;
    running.signal(Signal::SIGCONT);
    gate.open().await;
    running.ended().await.quietly(6);
    assert_eq!(life.end().await.0, ["done"]);
    scene.end().await;
}

/// The lock is given back once it goes on, with the command's code.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_may_end_while_zklock_is_stopped() {
    let scene = Scene::new().await;
    let (mut life, gate) = (scene.lifeline(), scene.gate());
    let tool = scene.run(GOES_ON).env("LIFE", &life.path).env("GATE", &gate.path);
    let running = tool.env("ZKLOCK_SESSION_TIMEOUT", "60s").start();
    life.says("up").await;
    running.stop().await;
    gate.open().await;
    life.end().await;
    assert_eq!(scene.children().await.len(), 1);
    running.signal(Signal::SIGCONT);
    running.ended().await.quietly(6);
    assert_eq!(scene.children().await, Vec::<String>::new());
    scene.end().await;
}

/// Then `zklock` sees to it alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_supervisor_that_is_stopped_does_not_keep_the_command_alive() {
    let scene = Scene::new().await;
    let (mut life, link) = (scene.lifeline(), scene.link().await);
    let tool = scene.run(STUBBORN).env("LIFE", &life.path).env("ZKLOCK_SESSION_TIMEOUT", "6s");
    let running = tool.env("ZKLOCK_SERVER", link.connect_string()).start();
    life.says("up").await;
    let deletion = scene.deletion(&scene.node().await).await;
    let supervisor = running.supervisor();
    stop(supervisor).await;
    let stalled = link.stall(Direction::Both);
    let (_, dead) = life.end().await;
    let deleted = deletion.await.unwrap();
    println!("dead {:?} before the node went", deleted.duration_since(dead));
    assert!(dead < deleted);
    let ended = running.ended().await;
    ended.one_line(76, &["lost ", &scene.path]);
    stalled.heal();
    send(Signal::SIGCONT, supervisor);
    scene.end().await;
}

/// As a service that makes itself a daemon's child: what it leaves behind is ended before anybody else has the lock.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_command_leaves_behind_is_ended_before_the_lock_is_given_back() {
    let scene = Scene::new().await;
    for (trap, told) in [("", false), ("trap 'echo TERM >&9; exit' TERM;", true)] {
        let (mut life, gate) = (scene.lifeline(), scene.gate());
        let script = format!(
            r#"exec 9>"$LIFE"; sh -c "{trap} echo up >&9; while :; do sleep 1000 & wait; done" </dev/null >/dev/null 2>&1 &
               until read line < "$GATE"; do :; done 2>/dev/null; exit 3"#
        );
        let tool = scene.run(&script).env("LIFE", &life.path).env("GATE", &gate.path);
        let running = tool.start();
        life.says("up").await;
        let alive = scene.alive_at_deletion(&scene.node().await, &life).await;
        gate.open().await;
        let (said, _) = life.end().await;
        assert_eq!(said.contains(&"TERM".to_owned()), told, "{said:?}");
        assert_eq!(alive.await.unwrap(), [], "the lock went first");
        running.ended().await.quietly(3);
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_command_leaves_behind_is_killed_if_it_must_be() {
    let scene = Scene::new().await;
    let (mut life, gate) = (scene.lifeline(), scene.gate());
    let script = r#"exec 9>"$LIFE"
        sh -c "trap 'echo TERM >&9' TERM; echo up >&9; while :; do sleep 1000 & wait; done" &
        until read line < "$GATE"; do :; done 2>/dev/null; exit 3"#;
    let tool = scene.run_with(["--kill-after=2s"], script);
    let running = tool.env("LIFE", &life.path).env("GATE", &gate.path).start();
    life.says("up").await;
    let alive = scene.alive_at_deletion(&scene.node().await, &life).await;
    gate.open().await;
    let told = life.says("TERM").await;
    let (_, dead) = life.end().await;
    assert!(dead - told > Duration::from_millis(150), "it had {:?}", dead - told);
    assert_eq!(alive.await.unwrap(), [], "the lock went first");
    running.ended().await.quietly(3);
    scene.end().await;
}

/// A pipe that the command does not have cannot be what it is watched by.
#[tokio::test(flavor = "multi_thread")]
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
            scene.admin.delete(&scene.node().await, None).await.unwrap();
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
        let status = crate::harness::within("the end", child.wait()).await.unwrap();
        assert!(status.code().is_some());
        assert_eq!(scene.processes(), [], "{script}");
        assert_eq!(scene.children().await, Vec::<String>::new(), "{script}");
    }
    scene.end().await;
}

/// A command that is stopped, by whomever, is no less ended.
#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_is_stopped_is_killed_when_the_lock_is_lost() {
    let scene = Scene::new().await;
    let mut life = scene.lifeline();
    let running = scene.run(STAYS_AS).env("LIFE", &life.path).start();
    let id = life.process("id").await;
    stop(id).await;
    scene.admin.delete(&scene.node().await, None).await.unwrap();
    life.end().await;
    running.ended().await.one_line(76, &["lost "]);
    scene.end().await;
}

/// As when the machine sleeps: nobody can end the command then. It is the first thing that is done after.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_that_are_stopped_the_first_to_go_on_kills_the_command() {
    let scene = Scene::new().await;
    for supervisor_first in [true, false] {
        let mut life = scene.lifeline();
        let tool = scene.run(STUBBORN).env("LIFE", &life.path).env("ZKLOCK_SESSION_TIMEOUT", "6s");
        let running = tool.start();
        life.says("up").await;
        let supervisor = running.supervisor();
        let deletion = scene.deletion(&scene.node().await).await;
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
