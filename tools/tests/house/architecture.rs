//! Each function that `docs/internals/architecture.md` names stands in the file that it names.

use std::fs;

use super::root;

/// The names before each file: of "`A::b` calls `c` (`d.rs`)" these are `A::b` and `c`, and `d.rs`.
fn named(page: &str) -> Vec<(Vec<String>, String)> {
    let mut found = Vec::new();
    for sentence in page.split(". ").flat_map(|sentence| sentence.split("\n\n")) {
        let mut names = Vec::new();
        for (place, text) in sentence.split('`').enumerate() {
            let is_code = place % 2 == 1;
            if !is_code {
                continue;
            }
            if text.ends_with(".rs") {
                found.push((std::mem::take(&mut names), text.to_owned()));
            } else if !text.contains([' ', '/']) {
                names.push(text.to_owned());
            }
        }
    }
    found
}

/// Returns what is missing in `text`: a function, or the type of a method.
fn missing(name: &str, text: &str) -> Option<String> {
    let (owner, function) = name.rsplit_once("::").unwrap_or(("", name));
    let is_type = function.starts_with(char::is_uppercase);
    let definition = if is_type { format!("struct {function}") } else { format!("fn {function}") };
    let is_there = text.match_indices(&definition).any(|(start, _)| {
        let after = text[start + definition.len()..].chars().next();
        after.is_some_and(|after| !after.is_alphanumeric() && after != '_')
    });
    if !is_there {
        return Some(definition);
    }
    (!owner.is_empty() && !text.contains(owner)).then(|| owner.to_owned())
}

#[test]
fn each_function_of_the_architecture_is_in_its_file() {
    let page = fs::read_to_string(root().join("docs/internals/architecture.md")).unwrap();
    let walks =
        page.split("## Where a change goes").nth(1).unwrap().split("## The seam").next().unwrap();
    let mut checked = 0;
    for (names, file) in named(walks) {
        let text = fs::read_to_string(root().join("src").join(&file));
        let text = text.unwrap_or_else(|error| panic!("src/{file}: {error}"));
        for name in names {
            assert_eq!(missing(&name, &text), None, "{name} in src/{file}");
            checked += 1;
        }
    }
    assert!(checked > 30, "only {checked} functions were found");
}
