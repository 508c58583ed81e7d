//! What our dependencies ask of the compiler. That they keep their word is what `scripts/versions.sh` looks at.

use std::process::Command;

use serde_json::Value;

use super::root;

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
