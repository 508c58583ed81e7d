//! Who gets a lock, and who waits.

use std::ops::Deref;

use zookeeper_recipes_dev::{children, eventually};
use zookeeper_testkit::{FaultProxy, Operation};

use crate::support::scene::Scene;
use crate::support::scripts::{STAYS, ends};
use crate::support::tool::Tool;

#[tokio::test(flavor = "multi_thread")]
async fn several_paths_are_held_at_once_or_not_at_all() {
    let scene = Scene::new().await;
    let (a, b) = (format!("{}/a", scene.path), format!("{}/b", scene.path));
    let mut life = scene.lifeline();
    let script = ["--", "sh", "-c", STAYS];
    let both = life.up(scene.zklock(["run", &a, &b]).args(script)).await;
    for path in [&a, &b] {
        let ended = scene.zklock(["run", path, "-n", "--", "true"]).ended().await;
        ended.one_line(75, &[path, "held by "]);
    }
    let ended = scene.zklock(["run", &b, &a, "-n", "--", "true"]).ended().await;
    ended.one_line(75, &["is busy"]);
    ends(both).await;
    // One of them is taken: the other is not kept.
    let curator = scene.curator().await;
    let guard = curator.mutex(&b).unwrap().acquire().await.unwrap();
    for options in [["-n", "-v"], ["-w", "3"]] {
        let tool = scene.zklock(["run", &a, &b]).args(options).args(["--", "true"]);
        let ended = tool.ended().await;
        let line = ended.last_line(75, &[&format!("{b} is busy")]);
        assert!(!line.contains(&a), "{line}");
        scene.zklock(["run", &a, "-n", "--", "true"]).ended().await.quietly(0);
    }
    guard.release().await.unwrap();
    scene.end().await;
}

/// A third party takes the first of two locks from a run that waits for the second. Nothing has run yet, so nothing is lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_loses_one_path_while_it_waits_for_another_begins_again() {
    let scene = Scene::new().await;
    let (a, b) = (format!("{}/a", scene.path), format!("{}/b", scene.path));
    let curator = scene.curator().await;
    let guard = curator.mutex(&b).unwrap().acquire().await.unwrap();
    let tool = scene.zklock(["run", &a, &b, "-w", "10m", "--", "sh", "-c", "exit 3"]);
    let running = tool.env("ZKLOCK_SESSION_TIMEOUT", "6s").start();
    eventually("it waits", async || children(&scene.deref().admin, &b).await.len() == 2).await;
    let lost = children(&scene.deref().admin, &a).await;
    scene.remove(&format!("{a}/{}", lost[0])).await;
    eventually("it begins again", async || {
        let now = children(&scene.deref().admin, &a).await;
        now.len() == 1 && now != lost
    })
    .await;
    guard.release().await.unwrap();
    running.ended().await.quietly(3);
    scene.end().await;
}

/// As by a tool that installs a fleet: the namespace and the path are new.
#[tokio::test(flavor = "multi_thread")]
async fn checks_at_once_on_a_new_path_all_succeed() {
    let scene = Scene::new().await;
    let check = || {
        let tool = scene.zklock(["check", "/jobs/a/b"]);
        tool.env("ZKLOCK_NAMESPACE", format!("{}/tenants/a", scene.path)).start()
    };
    let all: Vec<_> = std::iter::repeat_with(check).take(12).collect();
    for one in all {
        let ended = one.ended().await.with(0);
        assert_eq!(ended.text().matches("ok ").count(), 4, "{ended}");
        assert!(!ended.text().contains("FAIL"), "{ended}");
    }
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
        waiting.stderr.says("number 2 in the queue").await;
        holder.release().await;
        waiting.ended().await.with(3);
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

/// Neither keeps the other out, whichever came first. What a semaphore leaves behind keeps nobody out.
#[tokio::test(flavor = "multi_thread")]
async fn a_semaphore_beside_another_recipe_is_wrong_usage() {
    let scene = Scene::new().await;
    let others: [(&[&str], &str); 4] = [
        (&["run"], "a mutex"),
        (&["run", "--read"], "a read lock"),
        (&["run", "--write"], "a write lock"),
        (&["elect"], "an election"),
    ];
    let semaphore: (&[&str], &str) = (&["run", "--count=2"], "a semaphore");
    for other in others {
        for ((first, first_recipe), (second, second_recipe)) in
            [(semaphore, other), (other, semaphore)]
        {
            let mut life = scene.lifeline();
            let command = ["--", "sh", "-c", STAYS];
            let running = life.up(scene.zklock(first).arg(&scene.path).args(command)).await;
            let tool = scene.zklock(second).arg(&scene.path).args(["--", "touch", "ran"]);
            let used = format!("{} is used by {first_recipe} (", scene.path);
            let asked = format!("you asked for {second_recipe}");
            tool.ended().await.one_line(64, &[&used, &asked]);
            ends(running).await;
        }
        let tool = scene.zklock(other.0).arg(&scene.path).args(["--", "sh", "-c", "exit 3"]);
        tool.ended().await.quietly(3);
    }
    assert!(!scene.folder.join("ran").exists());
    scene.end().await;
}
