//! Who gets a lock, and who waits.

use std::fs::File;
use std::time::Duration;

use futures_util::future::join_all;
use nix::sys::signal::Signal;
use zookeeper_recipes::InterProcessMutex;
use zookeeper_testkit::{Direction, FaultProxy, Operation, TestServer};

use crate::harness::{eventually, within};
use crate::holder;
use crate::lock::{Party, acquired};
use crate::peers;
use crate::rules::{Hold, Mode, Rule, judge};
use crate::scene::Scene;
use crate::scripts::{GOES_ON, STAYS, ends};
use crate::tool::{Tool, ZKLOCK};

#[tokio::test(flavor = "multi_thread")]
async fn on_two_machines_at_two_in_the_morning_one_runs_and_the_other_says_so() {
    let scene = Scene::new().await;
    let (mut life, gate) = (scene.lifeline(), scene.gate());
    let tool = scene.run_with(["-n"], GOES_ON).env("LIFE", &life.path).env("GATE", &gate.path);
    let first = tool.env("ZKLOCK_ID", "host-a").start();
    life.says("up").await;
    let second = scene.run_with(["-n"], "touch ran").env("ZKLOCK_ID", "host-b").ended().await;
    second.one_line(75, &[&format!("{} is busy: held by host-a for ", scene.path)]);
    assert!(!scene.folder.join("ran").exists());
    scene.children_are(1).await;
    gate.open().await;
    first.ended().await.quietly(6);
    scene.run_with(["-n"], "exit 7").ended().await.quietly(7);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn first_come_first_served() {
    let scene = Scene::new().await;
    let holder = scene.holder("first").await;
    let mut life = scene.lifeline();
    let mut waiting = Vec::new();
    for number in 0..4 {
        let script = format!(r#"echo {number} > "$LIFE"; exit {number}"#);
        waiting.push(scene.run(&script).env("LIFE", &life.path).start());
        scene.children_are(number + 2).await;
    }
    // Held open by the test, too: it does not end between the one and the next.
    let held_open = File::options().write(true).open(&life.path).unwrap();
    holder.release().await;
    for (number, running) in waiting.into_iter().enumerate() {
        running.ended().await.quietly(number.try_into().unwrap());
        life.says(&number.to_string()).await;
    }
    drop(held_open);
    scene.end().await;
}

/// Two loops of `zklock`, and Curator: nobody beside anybody else.
#[tokio::test(flavor = "multi_thread")]
async fn two_zklocks_and_curator_on_one_path() {
    let Some(curator) = peers::curator() else { return };
    let scene = Scene::new().await;
    let party = Party::join(&curator, scene.server.connect_string()).await;
    let lock = party.lock("mutex", &scene.path).await;
    // In turn: who holds keeps the others out, and is named.
    lock.acquire().await;
    let ended = scene.run_with(["-n"], "touch ran").ended().await;
    ended.one_line(75, &["is busy: held by "]);
    let (mut life, gate) = (scene.lifeline(), scene.gate());
    let tool = scene.run(GOES_ON).env("LIFE", &life.path).env("GATE", &gate.path);
    let waiting = tool.start();
    scene.children_are(2).await;
    assert_eq!(life.heard(), Vec::<String>::new());
    lock.release().await;
    life.says("up").await;
    assert!(acquired(lock.begin_acquire_for(Duration::from_millis(300))).await.is_none());
    let next = lock.begin_acquire();
    scene.children_are(2).await;
    gate.open().await;
    waiting.ended().await.quietly(6);
    next.await;
    lock.release().await;
    scene.children_are(0).await;
    // All at once, for many holds.
    let script = r#"for i in 1 2 3 4 5 6 7 8 9 10 11 12; do "$ZKLOCK" run "$LOCK" -- "$@" >&2 || exit 1; done"#;
    let loops = ["one", "other"].map(|name| {
        let log = scene.folder.join(name);
        let tool = scene.tool("sh").args(["-c", script, "loop"]).args(holder::command());
        (log.clone(), tool.env("LOCK", &scene.path).env(holder::LOG, &log).start())
    });
    let theirs = async {
        let mut holds = Vec::new();
        let counts = || loops.each_ref().map(|(log, _)| lines(log));
        while counts() != [12, 12] {
            let before = counts();
            let one_more = async {
                while counts() == before {
                    let (time, longest) = (Duration::from_millis(500), Duration::from_millis(10));
                    holds.extend(lock.holds(Mode::Write, time, longest).await);
                }
            };
            within("another hold of a zklock", one_more).await;
        }
        holds
    };
    let mut logs = vec![theirs.await];
    for (log, running) in loops {
        let ended = running.ended().await;
        assert_eq!(ended.code(), Some(0), "{ended}");
        let text = std::fs::read_to_string(&log).unwrap();
        let who = log.display().to_string();
        logs.push(text.lines().map(|line| hold(&who, line)).collect());
    }
    let counts: Vec<usize> = logs.iter().map(Vec::len).collect();
    println!("holds of Curator and of each zklock: {counts:?}");
    assert_eq!(judge(Rule::ReadersTogether, &logs), []);
    scene.end().await;
}

fn lines(log: &std::path::Path) -> usize {
    std::fs::read_to_string(log).unwrap_or_default().lines().count()
}

fn hold(who: &str, line: &str) -> Hold {
    let (from, to) = line.split_once(':').expect("two stamps");
    let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
    Hold { who: who.to_owned(), mode: Mode::Write, from, to }
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_run_together_and_a_writer_alone() {
    let scene = Scene::new().await;
    let (mut one, mut other, mut alone) = (scene.lifeline(), scene.lifeline(), scene.lifeline());
    let reader = scene.run_with(["--read"], STAYS).env("LIFE", &one.path).start();
    one.says("up").await;
    let beside = scene.run_with(["-s", "-n"], STAYS).env("LIFE", &other.path).start();
    other.says("up").await;
    scene.run_with(["--shared"], "exit 2").ended().await.quietly(2);
    for write in ["--write", "-x", "--exclusive"] {
        scene.run_with([write, "-n"], "true").ended().await.one_line(75, &["held by "]);
    }
    let writer = scene.run_with(["--write"], STAYS).env("LIFE", &alone.path).start();
    scene.children_are(3).await;
    // Nobody passes a writer that waits.
    scene.run_with(["--read", "-n"], "true").ended().await.one_line(75, &["is busy"]);
    ends(reader).await;
    assert_eq!(alone.heard(), Vec::<String>::new());
    ends(beside).await;
    alone.says("up").await;
    for options in [["--read", "-n"], ["--write", "-n"]] {
        scene.run_with(options, "true").ended().await.one_line(75, &["held by "]);
    }
    ends(writer).await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_so_many_leases_each_is_had_by_one() {
    let scene = Scene::new().await;
    let mut lives = [scene.lifeline(), scene.lifeline()];
    let mut running = Vec::new();
    for life in &mut lives {
        running.push(scene.run_with(["--count", "2"], STAYS).env("LIFE", &life.path).start());
        life.says("up").await;
    }
    scene.run_with(["--count=2", "-n"], "true").ended().await.one_line(75, &["held by "]);
    scene.run_with(["--count=2", "-w", "3"], "true").ended().await.one_line(75, &["held by "]);
    let waiting = scene.run_with(["--count", "2"], "exit 7").start();
    ends(running.pop().unwrap()).await;
    waiting.ended().await.quietly(7);
    ends(running.pop().unwrap()).await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn several_paths_are_held_at_once_or_not_at_all() {
    let scene = Scene::new().await;
    let (a, b) = (format!("{}/a", scene.path), format!("{}/b", scene.path));
    let mut life = scene.lifeline();
    let script = ["--", "sh", "-c", STAYS];
    let both = scene.zklock(["run", &a, &b]).args(script).env("LIFE", &life.path).start();
    life.says("up").await;
    for path in [&a, &b] {
        let ended = scene.zklock(["run", path, "-n", "--", "true"]).ended().await;
        ended.one_line(75, &[path, "held by "]);
    }
    let ended = scene.zklock(["run", &b, &a, "-n", "--", "true"]).ended().await;
    ended.one_line(75, &["is busy"]);
    ends(both).await;
    // One of them is taken: the other is not kept.
    let curator = scene.curator().await;
    let guard = InterProcessMutex::new(&curator, &b).unwrap().acquire().await.unwrap();
    for options in [["-n", "-v"], ["-w", "3"]] {
        let tool = scene.zklock(["run", &a, &b]).args(options).args(["--", "true"]);
        let ended = tool.ended().await;
        assert_eq!(ended.code(), Some(75), "{ended}");
        assert!(ended.stderr.contains(&b), "{ended}");
        scene.zklock(["run", &a, "-n", "--", "true"]).ended().await.quietly(0);
    }
    guard.release().await.unwrap();
    scene.end().await;
}

/// In whatever order they are named.
#[tokio::test(flavor = "multi_thread")]
async fn several_paths_do_not_lock_each_other_out() {
    let scene = Scene::new().await;
    let (a, b) = (format!("{}/a", scene.path), format!("{}/b", scene.path));
    let script = r#"for i in 1 2 3 4 5 6; do "$ZKLOCK" run "$@" -- true || exit 1; done"#;
    let loops = [[&a, &b], [&b, &a]].map(|paths| {
        let tool = scene.tool("sh").args(["-c", script, "loop"]).args(paths);
        tool.start().ended()
    });
    for ended in join_all(loops).await {
        ended.quietly(0);
    }
    scene.end().await;
}

/// Curator's tools and ours see one queue; a `zklock` that is killed while it waits does not hold it up.
#[tokio::test(flavor = "multi_thread")]
async fn who_is_killed_while_it_waits_is_passed_over() {
    let scene = Scene::new().await;
    let holder = scene.holder("first").await;
    let killed = scene.run("touch ran").env("ZKLOCK_SESSION_TIMEOUT", "2s").start();
    scene.children_are(2).await;
    let next = scene.run("exit 3").start();
    scene.children_are(3).await;
    killed.signal(Signal::SIGKILL);
    killed.ended().await;
    holder.release().await;
    next.ended().await.quietly(3);
    assert!(!scene.folder.join("ran").exists());
    scene.end().await;
}

/// Waiting on a pipe says nothing, but for `-v`.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_terminal_waiting_is_silent_unless_asked() {
    let scene = Scene::new().await;
    for (verbose, options) in [(false, &[][..]), (true, &["-v"][..]), (true, &["--verbose"][..])] {
        let holder = scene.holder("host-a:123").await;
        let mut waiting = scene.run_with(options, "echo ran").start();
        scene.children_are(2).await;
        if verbose {
            waiting.stderr.says("held by host-a:123").await;
        }
        holder.release().await;
        let ended = waiting.ended().await;
        assert_eq!((ended.code(), ended.text().as_str()), (Some(0), "ran\n"), "{ended}");
        assert_eq!(ended.stderr.is_empty(), !verbose, "{ended}");
        assert!(!ended.stderr.contains('\u{1b}') && !ended.stderr.contains('\r'), "{ended}");
    }
    scene.end().await;
}

/// A path from the root down: the parents are made.
#[tokio::test(flavor = "multi_thread")]
async fn a_deep_path_is_made() {
    let scene = Scene::new().await;
    let deep = format!("{}/jobs/nightly/one", scene.path);
    let ended = scene.tool(ZKLOCK).args(["run", &deep, "--", "sh", "-c", "exit 3"]).ended().await;
    ended.quietly(3);
    scene.end().await;
}

/// It is back at the end of the queue in its next session, and its place is nobody's burden.
#[tokio::test(flavor = "multi_thread")]
async fn who_loses_its_session_while_it_waits_waits_on() {
    let scene = Scene::new().await;
    let holder = scene.holder("first").await;
    let link = scene.link().await;
    let tool = scene.run("exit 3").env("ZKLOCK_SERVER", link.connect_string());
    let waiting = tool.env("ZKLOCK_SESSION_TIMEOUT", "2s").start();
    scene.children_are(2).await;
    let stalled = link.stall(Direction::Both);
    scene.children_are(1).await;
    stalled.heal();
    scene.children_are(2).await;
    holder.release().await;
    waiting.ended().await.quietly(3);
    scene.end().await;
}

/// Within the time that it was given for that.
#[tokio::test(flavor = "multi_thread")]
async fn who_comes_before_the_server_waits_for_it() {
    let scene = Scene::new().await;
    let link = scene.link().await;
    let refused = link.refuse();
    let tool = scene.run("exit 3").env("ZKLOCK_SERVER", link.connect_string());
    let mut waiting = tool.env("ZKLOCK_CONNECTION_TIMEOUT", "60s").start();
    refused.struck().await;
    assert!(!waiting.has_ended());
    refused.heal();
    waiting.ended().await.quietly(3);
    scene.end().await;
}

/// The command goes on, and so does who waits.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_restarted_costs_nobody_anything() {
    let scene = Scene::on(TestServer::start().await.unwrap()).await;
    let (mut life, gate) = (scene.lifeline(), scene.gate());
    let links = [scene.link().await, scene.link().await];
    let with = |tool: Tool, link: &FaultProxy| {
        tool.env("ZKLOCK_SERVER", link.connect_string()).env("ZKLOCK_SESSION_TIMEOUT", "60s")
    };
    let tool = scene.run(GOES_ON).env("LIFE", &life.path).env("GATE", &gate.path);
    let holding = with(tool, &links[0]).start();
    life.says("up").await;
    let waiting = with(scene.run("exit 5"), &links[1]).start();
    scene.children_are(2).await;
    let before = scene.children().await;
    let answered = links.each_ref().map(|link| link.replies(Operation::Sync));
    scene.server.restart().await.unwrap();
    for (link, answered) in links.iter().zip(answered) {
        eventually("it is back", async || link.replies(Operation::Sync) > answered).await;
    }
    let mut after = scene.children().await;
    after.sort_by_key(|name| before.iter().position(|other| other == name));
    assert_eq!(after, before);
    gate.open().await;
    holding.ended().await.quietly(6);
    waiting.ended().await.quietly(5);
    scene.end().await;
}

/// No session is left to time out. The tool waits 2 s for the servers' answer, which a busy machine may exceed, so one of
/// five attempts is enough.
#[tokio::test(flavor = "multi_thread")]
async fn the_session_is_closed_at_the_end() {
    let scene = Scene::new().await;
    let link = scene.link().await;
    let through = |tool: Tool| tool.env("ZKLOCK_SERVER", link.connect_string());
    for (script, code) in [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137)] {
        closes(&link, async || through(scene.run(script)).ended().await.quietly(code)).await;
    }
    // Also of a waiter that has looked at the queue.
    closes(&link, async || {
        let holder = scene.holder("first").await;
        let mut waiting = through(scene.run_with(["-v"], "exit 3")).start();
        waiting.stderr.says("2nd in the queue").await;
        holder.release().await;
        assert_eq!(waiting.ended().await.code(), Some(3));
    })
    .await;
    let holder = scene.holder("first").await;
    closes(&link, async || {
        let ended = through(scene.run_with(["-n"], "true")).ended().await;
        ended.one_line(75, &[]);
    })
    .await;
    holder.release().await;
    scene.end().await;
}

/// Runs it up to five times, until one run closes its session.
async fn closes(link: &FaultProxy, run: impl AsyncFn()) {
    for _ in 0..5 {
        link.clear_log();
        run().await;
        if link.log().contains(&Operation::CloseSession) {
            return;
        }
    }
    panic!("no session was closed: {:?}", link.log());
}
