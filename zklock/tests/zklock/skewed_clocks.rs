//! A machine whose clock is hours off says when a holder queued by the servers' clock, where it has a node there.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::scene::Scene;
use crate::support::tool::Tool;

/// What the clocks are off, in seconds.
const SKEWS: [&str; 2] = ["7200", "-7200"];

/// Builds a library that makes the wall clock of a program wrong.
fn skewed_clock(scene: &Scene) -> PathBuf {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zklock/support/skewed_clock.c");
    let library = scene.folder.join("skewed_clock.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).arg("-ldl");
    assert!(compiler.status().unwrap().success());
    library
}

/// Returns the age in `queued 1m 2s ago`.
fn queued(line: &str) -> Duration {
    let after = line.split_once("queued ").and_then(|(_, after)| after.split_once(" ago"));
    let (age, _) = after.unwrap_or_else(|| panic!("{line}"));
    humantime::parse_duration(age).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_clock_does_not_change_what_a_waiter_says() {
    let scene = Scene::new().await;
    let library = skewed_clock(&scene);
    let began = Instant::now();
    let holder = scene.holder("first").await;
    let skewed = |tool: Tool, skew: &str| tool.env("LD_PRELOAD", &library).env("SKEW", skew);
    let is_its_age = |skew: &str, line: &str| {
        let age = queued(line);
        // The reminder comes after ten seconds, as does the look before the end of `-w`. An age is in whole seconds.
        assert!(age >= Duration::from_secs(9), "{skew}: {line}");
        assert!(age <= began.elapsed() + Duration::from_secs(1), "{skew}: {line}");
    };
    let says = async |skew: &str| {
        let mut waiting = skewed(scene.run("true"), skew).start();
        let busy = skewed(scene.run_with(["-w", "13s"], "true"), skew).start();
        is_its_age(skew, &waiting.stderr.lines(1).await[0]);
        is_its_age(skew, busy.ended().await.last_line(75, &[]));
        waiting.ended_by(Signal::SIGTERM).await.last_line(143, &[]);
    };
    join_all(SKEWS.map(says)).await;
    for skew in SKEWS {
        let ended = scene.interrupted(|| skewed(scene.run("true"), skew)).await;
        is_its_age(skew, ended.last_line(143, &[]));
    }
    holder.release().await;
    scene.end().await;
}

/// `ls` makes no node, so it goes by the clock of its machine, and shows no negative age.
#[tokio::test(flavor = "multi_thread")]
async fn a_slow_clock_shows_no_negative_age() {
    let scene = Scene::new().await;
    let library = skewed_clock(&scene);
    let holder = scene.holder("first").await;
    let ls = scene.zklock(["ls", "--json", &scene.path]);
    let ended = ls.env("LD_PRELOAD", &library).env("SKEW", "-7200").ended().await.with(0);
    let all: Value = serde_json::from_str(&ended.text()).unwrap();
    assert_eq!(all[0]["queued_seconds"], 0, "{ended}");
    holder.release().await;
    scene.end().await;
}
