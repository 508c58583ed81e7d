//! What compiles, what the compiler warns of, and what it refuses: the traps of the API, each as a line of a program.
//!
//! It needs the compiler and a few seconds, and no server. A line that ends with `//~ CODE` must have this error or lint, and no
//! other line may have one. The programs are compiled against the library that was built for this test.
#![allow(clippy::unwrap_used)] // a test fails by it

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Without borrows, the compiler does not come to look at these while it has errors of types to report.
const CASES: [&str; 4] = ["passes", "warns", "fails", "borrows"];

type Found = BTreeSet<(usize, String)>;

#[test]
fn the_traps_of_the_page_are_closed() {
    let test = std::env::current_exe().unwrap();
    let built = test.parent().unwrap();
    let library = newest(built, "libzookeeper_recipes-");
    let tokio = newest(built, "libtokio-");
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/api/cases");
    for case in CASES {
        let program = cases.join(format!("{case}.rs"));
        let checked = Command::new(std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned()))
            .args(["--edition=2024", "--crate-type=bin", "--emit=metadata", "--error-format=json"])
            .arg(format!("--extern=zookeeper_recipes={}", library.display()))
            .arg(format!("--extern=tokio={}", tokio.display()))
            .arg(format!("-Ldependency={}", built.display()))
            .arg("--out-dir")
            .arg(env!("CARGO_TARGET_TMPDIR"))
            .arg(&program)
            .output()
            .unwrap();
        let text = fs::read_to_string(&program).unwrap();
        let expected: Found = text
            .lines()
            .enumerate()
            .filter_map(|(line, text)| Some((line + 1, text.split_once("//~ ")?.1.to_owned())))
            .collect();
        let messages = String::from_utf8(checked.stderr).unwrap();
        let found: Found = messages.lines().filter_map(diagnostic).collect();
        assert_eq!(found, expected, "{case}.rs; {messages}");
        let is_accepted = matches!(case, "passes" | "warns");
        assert_eq!(checked.status.success(), is_accepted, "{case}.rs; {messages}");
    }
}

/// The library that was built last. Builds with other features have other file names.
fn newest(folder: &Path, start: &str) -> PathBuf {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let libraries = files.filter(|file| {
        let name = file.file_name();
        let name = name.to_str().unwrap();
        name.starts_with(start) && name.ends_with(".rlib")
    });
    let newest = libraries.max_by_key(|file| file.metadata().unwrap().modified().unwrap());
    newest.unwrap_or_else(|| panic!("no {start}*.rlib in {}", folder.display())).path()
}

/// Line and code of an error or a lint.
fn diagnostic(line: &str) -> Option<(usize, String)> {
    let message: Value = serde_json::from_str(line).ok()?;
    let spans = message["spans"].as_array()?;
    let primary = spans.iter().find(|span| span["is_primary"] == true)?;
    let at = usize::try_from(primary["line_start"].as_u64()?).ok()?;
    Some((at, message["code"]["code"].as_str().unwrap_or_default().to_owned()))
}
