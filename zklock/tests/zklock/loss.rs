//! What becomes of the command when the lock is lost.

use std::time::Duration;

use nix::sys::signal::Signal;
use zookeeper_testkit::{Cut, Direction, Operation};

use crate::harness::eventually;
use crate::lifeline::Lifeline;
use crate::processes::{Process, send};
use crate::scene::Scene;
use crate::scripts::{GIVES_WAY, GOES_ON, STUBBORN};
use crate::tool::{Running, Tool};

/// Runs the command and waits until it is there.
async fn up(tool: Tool, life: &mut Lifeline) -> Running {
    let running = tool.env("LIFE", &life.path).start();
    life.says("up").await;
    running
}

/// Somebody deletes the node.
async fn taken(scene: &Scene) {
    scene.admin.delete(&scene.node().await, None).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_polite_command_is_told_and_ends_by_itself() {
    let scene = Scene::new().await;
    let mut life = scene.lifeline();
    // So long a time before KILL that it would be seen.
    let tool = scene.run_with(["--session-timeout=60s", "--kill-after=20s"], GIVES_WAY);
    let running = up(tool, &mut life).await;
    let lost = tokio::time::Instant::now();
    taken(&scene).await;
    life.says("TERM").await;
    life.end().await;
    // Its own code is not ours: what it did may not have been alone.
    let ended = running.ended().await;
    ended.one_line(76, &[&format!("lost {}: ", scene.path), "the command was ended"]);
    println!("from the deletion to the end of it all: {:?}", lost.elapsed());
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stubborn_command_is_killed_with_all_of_its_group() {
    let scene = Scene::new().await;
    let mut life = scene.lifeline();
    let running = up(scene.run_with(["--kill-after=3s"], STUBBORN), &mut life).await;
    taken(&scene).await;
    let mut first = vec![life.line().await, life.line().await];
    first.sort();
    let (said, times): (Vec<_>, Vec<_>) = first.into_iter().unzip();
    assert_eq!(said, ["TERM", "inner TERM"]);
    let (rest, dead) = life.end().await;
    assert_eq!(rest, Vec::<String>::new(), "TERM is sent once");
    let between = dead - times[0].min(times[1]);
    assert!(between > Duration::from_millis(500), "KILL came {between:?} after TERM");
    running.ended().await.one_line(76, &["lost ", "the command was ended"]);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_on_lost_kill_nobody_is_asked() {
    let scene = Scene::new().await;
    let mut life = scene.lifeline();
    let running = up(scene.run_with(["--on-lost=kill"], STUBBORN), &mut life).await;
    taken(&scene).await;
    let (said, _) = life.end().await;
    assert_eq!(said, Vec::<String>::new());
    running.ended().await.one_line(76, &["lost ", "the command was ended"]);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with_on_lost_warn_it_is_said_and_the_command_goes_on() {
    let scene = Scene::new().await;
    let (mut life, gate) = (scene.lifeline(), scene.gate());
    let tool = scene.run_with(["--on-lost=warn"], GOES_ON).env("GATE", &gate.path);
    let mut running = up(tool, &mut life).await;
    taken(&scene).await;
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

/// Not even then it outlives us.
#[tokio::test(flavor = "multi_thread")]
async fn with_on_lost_warn_the_command_still_ends_with_zklock() {
    let scene = Scene::new().await;
    let mut life = scene.lifeline();
    let mut running = up(scene.run_with(["--on-lost=warn"], STUBBORN), &mut life).await;
    taken(&scene).await;
    running.stderr.says("lost ").await;
    running.signal(Signal::SIGKILL);
    life.end().await;
    scene.end().await;
}

/// The link breaks and is back within the lease: nothing is lost, and nobody is told.
#[tokio::test(flavor = "multi_thread")]
async fn a_short_disturbance_loses_nothing() {
    let scene = Scene::new().await;
    let (mut life, gate, link) = (scene.lifeline(), scene.gate(), scene.link().await);
    let tool = scene.run_with(["--session-timeout=60s"], GOES_ON).env("GATE", &gate.path);
    let running = up(tool.env("ZKLOCK_SERVER", link.connect_string()), &mut life).await;
    let node = scene.node().await;
    for cut in [Cut::Reset, Cut::Finish, Cut::Reset] {
        let before = link.accepted();
        assert_eq!(link.cut(cut), 1);
        eventually("the link is back", async || link.accepted() > before).await;
    }
    assert_eq!(scene.node().await, node);
    gate.open().await;
    running.ended().await.quietly(6);
    assert_eq!(life.end().await.0, ["done"]);
    scene.end().await;
}

/// Not the link alone: its session is over at the server while it cannot hear of it, and then it can.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_ends_ends_the_command_before_the_server_gives_the_lock_away() {
    let scene = Scene::new().await;
    for (options, asked) in [(&[][..], true), (&["--on-lost=kill"][..], false)] {
        let (mut life, link) = (scene.lifeline(), scene.link().await);
        let tool = scene.run_with(options, STUBBORN).env("ZKLOCK_SESSION_TIMEOUT", "6s");
        let running = up(tool.env("ZKLOCK_SERVER", link.connect_string()), &mut life).await;
        let deletion = scene.deletion(&scene.node().await).await;
        let waiting = scene.run("exit 3").start();
        scene.children_are(2).await;
        let stalled = link.stall(Direction::Both);
        let (said, dead) = life.end().await;
        assert!(!deletion.is_finished(), "the lock was given away first");
        assert_eq!(said.contains(&"TERM".to_owned()), asked, "{said:?}");
        let ended = running.ended().await;
        ended.one_line(76, &[&format!("lost {}: ", scene.path), "the command was ended"]);
        let deleted = deletion.await.unwrap();
        println!("dead {:?} before the server gave the lock away", deleted.duration_since(dead));
        assert!(dead < deleted);
        waiting.ended().await.quietly(3);
        stalled.heal();
    }
    scene.end().await;
}

/// The command ends as the lock goes: one or the other is said, nothing hangs and nothing is left.
#[tokio::test(flavor = "multi_thread")]
async fn a_loss_at_the_moment_of_the_end_is_one_or_the_other() {
    let scene = Scene::new().await;
    let (mut normal, mut lost) = (0, 0);
    for round in 0..12_u64 {
        let (mut life, gate) = (scene.lifeline(), scene.gate());
        let tool = scene.run_with(["--on-lost=kill"], GOES_ON).env("GATE", &gate.path);
        let running = up(tool, &mut life).await;
        let node = scene.node().await;
        let deleting = async {
            // Earlier and later from round to round; wherever it hits is right.
            tokio::time::sleep(Duration::from_micros(150 * round)).await;
            let _ = scene.admin.delete(&node, None).await; // it may be released already
        };
        tokio::join!(gate.open(), deleting);
        let ended = running.ended().await;
        match ended.code() {
            Some(6) => {
                normal += 1;
                ended.quietly(6);
            }
            _ => {
                lost += 1;
                ended.one_line(76, &["lost "]);
            }
        }
        life.end().await;
        scene.children_are(0).await;
    }
    println!("{normal} ended, {lost} lost");
    scene.end().await;
}

/// What the command did last may not have been alone: its release says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_loss_that_is_learned_at_the_release_is_76() {
    let scene = Scene::new().await;
    let (mut life, gate, link) = (scene.lifeline(), scene.gate(), scene.link().await);
    let tool = scene.run(GOES_ON).env("GATE", &gate.path);
    let tool = tool.env("ZKLOCK_SERVER", link.connect_string());
    let running = up(tool.env("ZKLOCK_SESSION_TIMEOUT", "30s"), &mut life).await;
    // It hears nothing more; what it sends arrives.
    let deaf = link.stall(Direction::ToClient);
    taken(&scene).await;
    gate.open().await;
    life.says("done").await;
    life.end().await;
    eventually("it gives the lock back", async || link.requests(Operation::Delete) > 0).await;
    deaf.heal();
    let ended = running.ended().await;
    ended.one_line(76, &["lost ", &scene.path]);
    scene.end().await;
}

/// Nobody is there to speak to any more.
#[tokio::test(flavor = "multi_thread")]
async fn servers_that_are_gone_end_the_command() {
    let scene = Scene::new().await;
    let (mut life, link) = (scene.lifeline(), scene.link().await);
    let tool = scene.run(GIVES_WAY).env("ZKLOCK_SERVER", link.connect_string());
    let running = up(tool, &mut life).await;
    let refused = link.refuse();
    link.cut(Cut::Reset);
    life.says("TERM").await;
    life.end().await;
    // It ended before the lease did, so that nothing was lost, and nothing is had any more.
    running.ended().await.one_line(76, &[&scene.path, "no word from ZooKeeper", "ended"]);
    refused.heal();
    scene.end().await;
}

/// What is a session of its own is out of reach of signals to the group, but not of the supervisor, which adopts it.
#[tokio::test(flavor = "multi_thread")]
async fn what_left_the_group_is_killed_with_it() {
    let scene = Scene::new().await;
    for kills in [false, true] {
        let mut life = scene.lifeline();
        let script = r#"exec 9>"$LIFE"
            setsid sh -c 'setsid sh -c "trap : TERM; echo up >&9; while :; do sleep 1000 & wait; done" & exit' &
            wait $!; exec sleep 1000"#;
        let tool = scene.run_with(["--on-lost=kill"], script).env("LIFE", &life.path);
        let running = tool.env("ZKLOCK_SESSION_TIMEOUT", "6s").start();
        life.says("up").await;
        let deletion = scene.deletion(&scene.node().await).await;
        if kills {
            running.signal(Signal::SIGKILL);
        } else {
            scene.admin.delete(&scene.node().await, None).await.unwrap();
        }
        let (said, dead) = life.end().await;
        assert_eq!(said, Vec::<String>::new());
        let deleted = deletion.await.unwrap();
        let ended = running.ended().await;
        if kills {
            assert!(dead < deleted, "the lock was given away first");
        } else {
            ended.one_line(76, &["lost "]);
        }
    }
    scene.end().await;
}

/// As a daemon does it, on purpose: it is meant to outlive the command.
#[tokio::test(flavor = "multi_thread")]
async fn what_left_the_group_outlives_a_command_that_ends_by_itself() {
    let scene = Scene::new().await;
    let (mut life, gate) = (scene.lifeline(), scene.gate());
    let script = r#"exec 9>"$LIFE"
        setsid sh -c 'echo daemon $$ >&9; exec 9>&-; exec sleep 1000 <&- >&- 2>&-' & exec 9>&-; until read line < "$GATE"; do :; done 2>/dev/null; exit 3"#;
    let tool = scene.run(script).env("LIFE", &life.path).env("GATE", &gate.path);
    let running = tool.start();
    let daemon = life.process("daemon").await;
    gate.open().await;
    running.ended().await.quietly(3);
    assert_eq!(scene.children().await, Vec::<String>::new());
    assert!(Process::is_alive(daemon));
    send(Signal::SIGKILL, daemon);
    scene.end().await;
}
