//! What compiles, what the compiler warns of, and what it refuses: the traps of the API, each as a line of a program.
//!
//! It needs cargo and a few seconds, and no server. A line that ends with `//~ CODE` must have this error or lint, and no
//! other line may have one.
#![allow(clippy::unwrap_used)] // a test fails by it

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Without borrows, the compiler does not come to look at these while it has errors of types to report.
const CASES: [&str; 4] = ["passes", "warns", "fails", "borrows"];

type Found = BTreeSet<(usize, String)>;

#[test]
fn the_traps_of_the_page_are_closed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let cases = root.join("tests/api/cases");
    let package = Path::new(env!("CARGO_TARGET_TMPDIR")).join("api");
    fs::create_dir_all(package.join("src")).unwrap();
    fs::write(package.join("src/lib.rs"), "").unwrap();
    fs::copy(root.join("Cargo.lock"), package.join("Cargo.lock")).unwrap();
    let bins = CASES.map(|case| {
        let path = cases.join(format!("{case}.rs"));
        format!("[[bin]]\nname = \"{case}\"\npath = {path:?}\n")
    });
    let manifest = format!(
        "[package]\nname = \"api\"\nedition = \"2024\"\n[workspace]\n[dependencies]\nzookeeper-recipes = {{ path = {root:?} }}\n\
         tokio = {{ version = \"1\", features = [\"macros\", \"rt-multi-thread\", \"time\"] }}\n{}",
        bins.concat()
    );
    fs::write(package.join("Cargo.toml"), manifest).unwrap();
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let checked = Command::new(cargo)
        .args(["check", "--bins", "--keep-going", "--offline", "--message-format=json"])
        .current_dir(&package)
        .env("CARGO_TARGET_DIR", package.join("target"))
        .env_remove("RUSTFLAGS")
        .output()
        .unwrap();
    let messages = String::from_utf8(checked.stdout).unwrap();
    for case in CASES {
        let text = fs::read_to_string(cases.join(format!("{case}.rs"))).unwrap();
        let expected: Found = text
            .lines()
            .enumerate()
            .filter_map(|(line, text)| Some((line + 1, text.split_once("//~ ")?.1.to_owned())))
            .collect();
        let found: Found = messages.lines().filter_map(|line| diagnostic(case, line)).collect();
        assert_eq!(found, expected, "{case}.rs; {}", String::from_utf8_lossy(&checked.stderr));
        assert!(messages.contains(case), "{}", String::from_utf8_lossy(&checked.stderr));
    }
}

/// Line and code of an error or a lint in the case.
fn diagnostic(case: &str, line: &str) -> Option<(usize, String)> {
    let line: Value = serde_json::from_str(line).ok()?;
    let of_case = line["reason"] == "compiler-message" && line["target"]["name"] == case;
    let (message, code) = (&line["message"], line["message"]["code"]["code"].as_str());
    let spans = message["spans"].as_array()?;
    let primary = spans.iter().find(|span| span["is_primary"] == true)?;
    let at = usize::try_from(primary["line_start"].as_u64()?).ok()?;
    of_case.then(|| (at, code.unwrap_or_default().to_owned()))
}
