//! The names of Curator that the page for its users knows find what replaces them in rustdoc's search.

use std::collections::BTreeSet;
use std::fs;

use super::{files, root};

/// Words in the code of the page that are no names of Curator's API.
const NO_NAMES: &[&str] = &["List", "SECONDS", "String", "false", "finally", "listener"];

/// The identifiers in the left column of the tables that translate, except for rows without a translation.
fn names_of_curator(page: &str) -> BTreeSet<&str> {
    let mut names = BTreeSet::new();
    let mut translates = false;
    for line in page.lines() {
        let cells: Vec<_> = line.split(" | ").collect();
        let [left, right] = cells[..] else {
            translates = false;
            continue;
        };
        let left = left.trim_start_matches("| ");
        let is_heading = matches!(left, "Curator" | "Java" | "Curator's error policy");
        if is_heading {
            translates = true;
        } else if translates && !right.starts_with("none") {
            for code in left.split('`').skip(1).step_by(2) {
                let words = code.split(|c: char| !c.is_alphanumeric());
                names.extend(words.filter(|word| word.len() > 4 && !NO_NAMES.contains(word)));
            }
        }
    }
    names
}

/// Reads the index that `cargo doc` generated: `scripts/lint.sh` runs this test behind it.
#[test]
#[ignore = "needs the public documentation, which `make lint` generates"]
fn the_search_finds_the_names_of_curator() {
    let page = fs::read_to_string(root().join("docs/guide/coming-from-curator.md")).unwrap();
    let names = names_of_curator(&page);
    assert!(names.len() > 30, "only {names:?} were found");
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into);
    let index: String = files(&target.join("doc/search.index"), "js")
        .into_iter()
        .map(|file| fs::read_to_string(file).unwrap().to_lowercase())
        .collect();
    let missing: Vec<_> =
        names.iter().filter(|name| !index.contains(&name.to_lowercase())).collect();
    assert!(missing.is_empty(), "the search does not find {missing:?}");
}
