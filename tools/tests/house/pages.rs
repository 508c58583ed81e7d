//! Pages lead to each other: no relative link is dead, and no page is out of reach.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::{files, root};

/// Where pages and sources of this repository are read by those who have none of it.
const ELSEWHERE: &str = "https://github.com/zookeeper-recipes/zookeeper-recipes/blob/main/";

/// Every page, by its path below the root.
fn pages() -> BTreeMap<PathBuf, String> {
    let pages = files(&root(), "md").into_iter().map(|path| {
        let text = fs::read_to_string(&path).unwrap();
        (path.strip_prefix(root()).unwrap().to_owned(), text)
    });
    let pages: BTreeMap<_, _> = pages.collect();
    assert!(pages.len() > 20, "the pages were not found");
    pages
}

/// Without blocks and words of code, which may look like links and headings.
fn prose(text: &str) -> String {
    let mut prose = String::new();
    let mut fence = None;
    for line in text.lines() {
        let start = line.trim_start();
        let ticks = start.len() - start.trim_start_matches('`').len();
        match fence {
            Some(open) if ticks >= open => fence = None,
            None if ticks >= 3 => fence = Some(ticks),
            None => prose.push_str(line),
            Some(_) => {}
        }
        prose.push('\n');
    }
    prose
}

/// The targets of the links in a page.
fn links(text: &str) -> Vec<String> {
    let prose = prose(text);
    // A link can begin in one line and end in the next; code in ticks does not.
    let mut bare = String::new();
    for line in prose.lines() {
        for (number, piece) in line.split('`').enumerate() {
            bare.push_str(if number % 2 == 1 { "code" } else { piece });
        }
        bare.push(' ');
    }
    let ends = bare.split("](").skip(1);
    let inline = ends.filter_map(|rest| rest.split_once(')')).map(|(target, _)| target.to_owned());
    inline.chain(definitions(&prose).into_iter().map(|(_, target)| target)).collect()
}

/// The labels that a page defines, `[label]: target`, and what they lead to.
fn definitions(prose: &str) -> Vec<(String, String)> {
    let defined = |line: &str| {
        let (label, target) = line.strip_prefix('[')?.split_once("]: ")?;
        Some((label.to_owned(), target.to_owned()))
    };
    prose.lines().filter_map(defined).collect()
}

/// The names by which headings can be linked, as they are made for the pages of a repository.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let prose = prose(text);
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let heading = line.trim_start_matches('#').trim().to_lowercase();
            let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
            let anchor: String = heading.chars().filter(kept).collect();
            let anchor = anchor.replace(' ', "-");
            let times = seen.entry(anchor.clone()).or_default();
            *times += 1;
            if *times == 1 { anchor } else { format!("{anchor}-{}", *times - 1) }
        })
        .collect()
}

/// `folder/../page` as `page`.
fn straight(path: &Path) -> PathBuf {
    let mut straight = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(straight.pop()),
            Component::CurDir => {}
            part => straight.push(part),
        }
    }
    straight
}

/// What a link of `page` leads to: a path below the root, and an anchor. Nothing for links to elsewhere.
fn destination(page: &Path, target: &str) -> Option<(PathBuf, Option<String>)> {
    let (path, anchor) = match target.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor.to_owned())),
        None => (target, None),
    };
    if let Some(path) = path.strip_prefix(ELSEWHERE) {
        return Some((straight(Path::new(path)), anchor));
    }
    if path.contains(':') {
        return None;
    }
    if path.is_empty() {
        return Some((page.to_owned(), anchor));
    }
    Some((straight(&page.parent().unwrap().join(path)), anchor))
}

/// What is wrong with the links of a page.
fn dead(page: &Path, text: &str, pages: &BTreeMap<PathBuf, String>) -> Vec<String> {
    let is_dead = |target: &String| {
        let Some((path, anchor)) = destination(page, target) else { return false };
        match (pages.get(&path), anchor) {
            (Some(text), Some(anchor)) => !anchors(text).contains(&anchor),
            (None, Some(_)) => true, // of a folder, or a source
            (_, None) => !root().join(&path).exists(),
        }
    };
    let dead = links(text).into_iter().filter(is_dead);
    dead.map(|target| format!("{}: {target}", page.display())).collect()
}

#[test]
fn no_link_between_pages_is_dead() {
    let pages = pages();
    let all: Vec<_> = pages.iter().flat_map(|(page, text)| dead(page, text, &pages)).collect();
    assert!(all.is_empty(), "{all:#?}");
    // The check itself can fail.
    let page = Path::new("docs/page.md");
    let found = |text: &str| dead(page, text, &pages).len();
    assert_eq!(
        found("[a](guide/guarantees.md#the-session-lease), [b](guide/recipes.md), [c](../src)"),
        0
    );
    assert_eq!(found("[page]: no-page.md\n[no heading]: guide/recipes.md#no-heading"), 2);
    assert_eq!(found("[no page](no-page.md), [no heading](guide/recipes.md#no-heading)"), 2);
    assert_eq!(found("[other\npage](no-page.md) `[code](no.md)`\n```text\n[code](no.md)\n```"), 1);
}

/// In rustdoc a page of the guide is a module: it leads to others by labels, which `src/guide/links.txt` leads to the modules.
#[test]
fn pages_of_the_guide_lead_to_each_other_in_rustdoc() {
    let guide = fs::read_to_string(root().join("src/guide.rs")).unwrap();
    let links = fs::read_to_string(root().join("src/guide/links.txt")).unwrap();
    for (page, text) in pages().iter().filter(|(page, _)| page.starts_with("docs/guide")) {
        let prose = prose(text);
        for (label, target) in definitions(&prose) {
            let is_known = target.contains("://") || links.contains(&format!("[{label}]: "));
            assert!(is_known, "{}: src/guide/links.txt has no [{label}]", page.display());
        }
        // On the web, only the page itself can define a label.
        let used = prose.split("][").skip(1).filter_map(|rest| rest.split_once(']'));
        let defined: Vec<_> = definitions(&prose).into_iter().map(|(label, _)| label).collect();
        for (label, _) in used {
            assert!(defined.iter().any(|one| one == label), "{}: no [{label}]", page.display());
        }
        let inline = prose.split("](").skip(1);
        let out = inline.filter(|target| !target.starts_with('#') && !target.starts_with("http"));
        assert_eq!(out.count(), 0, "{}: use a label", page.display());
        let is_shown = guide.contains(&format!("\"{}\"", page.file_stem().unwrap().display()));
        assert!(is_shown || page.ends_with("README.md"), "{} is no module", page.display());
    }
}

/// The front page of the documentation of the crate links to pages where they are published.
#[test]
fn no_link_from_the_sources_to_a_page_is_dead() {
    let pages = pages();
    let mut found = 0;
    for source in super::sources() {
        for rest in source.text.split(ELSEWHERE).skip(1) {
            let end = |c: char| c.is_whitespace() || matches!(c, ')' | '>' | '"');
            let target = rest.split(end).next().unwrap_or_default();
            let (page, anchor) = target.split_once('#').unwrap_or((target, ""));
            let text = pages.get(Path::new(page));
            let text = text.unwrap_or_else(|| panic!("{}: {target}", source.module));
            assert!(anchor.is_empty() || anchors(text).contains(anchor), "{target}");
            found += 1;
        }
    }
    assert!(found > 0, "none was found");
}

#[test]
fn every_page_can_be_reached_from_the_readme() {
    let pages = pages();
    let mut reached = BTreeSet::new();
    let mut next = vec![PathBuf::from("README.md")];
    while let Some(page) = next.pop() {
        let Some(text) = pages.get(&page) else {
            // A folder reaches all that is in it.
            let within = pages.keys().filter(|other| other.parent() == Some(&page));
            next.extend(within.filter(|other| !reached.contains(*other)).cloned());
            continue;
        };
        if reached.insert(page.clone()) {
            let targets = links(text);
            next.extend(targets.iter().filter_map(|to| Some(destination(&page, to)?.0)));
        }
    }
    let missed: Vec<_> = pages.keys().filter(|page| !reached.contains(*page)).collect();
    assert!(missed.is_empty(), "{missed:?}");
}

/// The pages of the guide whose snippets are parts of files that run, and these files or folders.
const COPIES: [(&str, &[&str]); 4] = [
    ("testing-your-code", &["tests/library/real/testing_your_code.rs"]),
    ("behind-your-own-trait", &["tests/library/api/behind_your_own_trait.rs"]),
    ("beside-the-locks", &["tests/interop/beside_the_locks.rs"]),
    ("in-a-service", &["examples/leader_service"]),
];

/// The blocks of Rust in a page, without the lines that only a documentation test sees.
fn snippets(page: &str) -> Vec<String> {
    let blocks = page.split("\n```rust").skip(1);
    let shown = |rest: &str| {
        let block = rest.split("\n```").next().unwrap_or_default();
        let lines = block.lines().skip(1).filter(|line| !line.starts_with("# "));
        lines.collect::<Vec<_>>().join("\n")
    };
    blocks.map(shown).collect()
}

/// The snippets that none of these files has as they are.
fn changed(snippets: Vec<String>, sources: &[&str]) -> Vec<String> {
    let read = |source: &&str| {
        let path = root().join(source);
        let files = if path.is_dir() { files(&path, "rs") } else { vec![path] };
        files.into_iter().map(|file| fs::read_to_string(file).unwrap()).collect::<Vec<_>>()
    };
    let sources: Vec<String> = sources.iter().flat_map(read).collect();
    let is_there = |snippet: &String| sources.iter().any(|source| source.contains(snippet));
    snippets.into_iter().filter(|snippet| !is_there(snippet)).collect()
}

/// rustdoc compiles the programs of the README, but it drops a `#[tokio::test]` with its body.
#[test]
fn the_test_of_the_readme_is_part_of_a_file_that_runs() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let mut tests = snippets(&readme);
    tests.retain(|snippet| snippet.starts_with("#[tokio::test"));
    assert!(!tests.is_empty(), "the README has no test");
    let changed = changed(tests, &["tests/library/real/testing_your_code.rs"]);
    assert!(changed.is_empty(), "{changed:#?}");
}

#[test]
fn snippets_are_parts_of_files_that_run() {
    for (page, sources) in COPIES {
        let path = root().join(format!("docs/guide/{page}.md"));
        let snippets = snippets(&fs::read_to_string(path).unwrap());
        assert!(snippets.len() > 2, "{page} has only {} snippets", snippets.len());
        let changed = changed(snippets, sources);
        assert!(changed.is_empty(), "{page}: {sources:?} have no {changed:#?}");
    }
    let found =
        snippets("\n```rust,ignore\n# hidden\nuse std::fs;\n```\n\n```rust\nlet none;\n```");
    assert_eq!(found, ["use std::fs;", "let none;"]);
    assert_eq!(changed(found, &["tools/tests/house/pages.rs"]), Vec::<String>::new());
    let absent = vec!["let absent = ".to_owned() + "1;"];
    assert_eq!(changed(absent, &["tools/tests/house"]).len(), 1);
}
