//! A machine whose clock is behind that of the servers.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::support::scene::Scene;

/// Builds a library that makes the wall clock of a program wrong.
fn skewed_clock(scene: &Scene) -> PathBuf {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zklock/support/skewed_clock.c");
    let library = scene.folder.join("skewed_clock.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).arg("-ldl");
    assert!(compiler.status().unwrap().success());
    library
}

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
