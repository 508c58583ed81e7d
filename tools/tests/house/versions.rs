//! What our dependencies ask of the compiler; that they keep their word is what `scripts/versions.sh` looks at. And the
//! version of the packages, which is that of `Cargo.toml` wherever it is written.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{files, root};

/// Of those of Linux, with all features, for the tests as well.
fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--all-features"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

/// `1.88` and `1.88.0` are the same.
fn numbers(version: &str) -> Vec<u32> {
    let mut numbers: Vec<u32> = version.split('.').map(|number| number.parse().unwrap()).collect();
    numbers.resize(3, 0);
    numbers
}

#[test]
fn no_dependency_asks_for_a_newer_compiler_than_we_do() {
    let ours = numbers(env!("CARGO_PKG_RUST_VERSION"));
    let packages = packages();
    let asking: Vec<(&Value, Vec<u32>)> = packages
        .iter()
        .filter_map(|package| Some((package, numbers(package["rust_version"].as_str()?))))
        .collect();
    assert!(asking.len() > 100, "only {} say what they need", asking.len());
    let newer: Vec<String> = asking
        .iter()
        .filter(|(_, needs)| *needs > ours)
        .map(|(package, needs)| format!("{} {}: {needs:?}", package["name"], package["version"]))
        .collect();
    assert!(newer.is_empty(), "newer than {ours:?}: {newer:#?}");
    assert!(numbers("1.100") > numbers("1.88.1") && numbers("1.88") == numbers("1.88.0"));
}

/// The words before our version in pages, manifests and forms.
const BEFORE_OURS: &[&str] =
    &["zklock_", "zklock-", "zklock:", "zookeeper-recipes ", "Version ", "zookeeper-testkit = \""];

/// The numbers behind these words.
fn ours(text: &str) -> Vec<&str> {
    let starts = BEFORE_OURS.iter().flat_map(|before| text.split(before).skip(1));
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let numbers = starts.map(|rest| rest.split(|c| !is_number(c)).next().unwrap_or_default());
    numbers.map(|number| number.trim_end_matches('.')).filter(|it| it.contains('.')).collect()
}

/// A requirement such as `0.1` has the first numbers of the version.
fn fits(number: &str, version: &str) -> bool {
    number == version || version.starts_with(&format!("{number}."))
}

#[test]
fn the_version_is_the_same_everywhere() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let version = manifest.split("[workspace.package]\nversion = \"").nth(1).unwrap();
    let version = version.split('"').next().unwrap();
    let needed = manifest.split("[workspace.dependencies]").nth(1).unwrap();
    let needed: Vec<_> = needed.split("\n\n").next().unwrap().lines().skip(1).collect();
    let alike = format!("{{ version = \"{version}\", ");
    assert!(!needed.is_empty() && needed.iter().all(|line| line.contains(&alike)), "{needed:?}");

    let mut checked = 0;
    let folders = [Path::new(""), Path::new(".github/ISSUE_TEMPLATE")].map(|at| root().join(at));
    let endings = folders.iter().flat_map(|folder| ["md", "yml", "yaml"].map(|it| (folder, it)));
    for path in endings.flat_map(|(folder, ending)| files(folder, ending)) {
        for number in ours(&fs::read_to_string(&path).unwrap()) {
            assert!(fits(number, version), "{}: {number} is not {version}", path.display());
            checked += 1;
        }
    }
    assert!(checked > 5, "only {checked} were found");
    assert_eq!(ours("zklock:1.2.3, or zookeeper-testkit = \"1.2\". Zklock-4"), ["1.2.3", "1.2"]);
    assert!(fits("1.2", "1.2.3") && fits("1.2.3", "1.2.3") && !fits("1.2", "1.20.3"));

    let changes = fs::read_to_string(root().join("CHANGELOG.md")).unwrap();
    let newest = changes.lines().find_map(|line| line.strip_prefix("## ")).unwrap();
    let is_dated = newest.starts_with(&format!("{version} ("));
    assert!(newest == version || is_dated, "the changelog begins with {newest}");
}
