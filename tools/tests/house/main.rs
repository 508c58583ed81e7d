//! Needs no server: the house rules that a reader of the sources can check. Layers, the seam, sizes,
//! and what the documentation of an async function must say.
#![allow(clippy::unwrap_used)] // a test fails by it

mod pages;
mod versions;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Which module may use which: arrows point down only. What stands in neither column of a row may not
/// be used. The testkit uses nothing but itself, with one exception; `lib.rs` re-exports all.
const ARROWS: &[(&str, &[&str])] = &[
    // Pure: no I/O, no clock, no tokio.
    ("contender_name", &[]),
    ("contender_filter", &["contender_name", "error"]), // the latter in the documentation
    ("admission", &["contender_filter", "contender_name"]),
    ("lock_path", &["error"]),
    ("session/state", &["error", "curator"]), // `Curator` in the documentation
    // Base.
    ("waiting", &[]),
    // All but the client in the documentation.
    (
        "error",
        &[
            "client",
            "contender_filter",
            "curator",
            "fenced",
            "mutex",
            "owner",
            "session",
            "shared_error",
        ],
    ),
    ("shared_error", &[]),
    ("clock", &[]),
    ("metrics", &["clock", "error"]),
    ("fencing", &["error", "fenced"]), // the latter in the documentation
    ("retry", &["curator", "mutex"]),  // in the documentation
    ("client", &["error", "lock_path", "curator"]),
    // Layers.
    ("session", &["client", "clock", "error", "lock_path", "metrics", "retry"]),
    (
        "contender",
        &[
            "admission",
            "client",
            "contender_name",
            "error",
            "fencing",
            "lock_path",
            "metrics",
            "retry",
            "session",
        ],
    ),
    ("curator", &["client", "contender", "error", "lock_path", "metrics", "retry", "session"]),
    // What recipes have in common.
    ("reading", &["client", "contender", "error", "lock_path", "metrics", "retry", "session"]),
    (
        "participants",
        &[
            "admission",
            "client",
            "contender_name",
            "error",
            "fencing",
            "lock_path",
            "reading",
            "retry",
            "session",
        ],
    ),
    ("shared_count", &["client", "curator", "error", "lock_path", "metrics", "session", "waiting"]),
    (
        "recipe",
        &[
            "admission",
            "client",
            "contender",
            "contender_name",
            "curator",
            "error",
            "lock_path",
            "metrics",
            "participants",
            "retry",
            "session",
        ],
    ),
    // The guard in the documentation.
    ("fenced", &["client", "contender", "error", "guard", "lock_path", "metrics", "session"]),
    (
        "revoke",
        &[
            "client",
            "contender",
            "contender_name",
            "curator",
            "error",
            "lock_path",
            "participants",
            "session",
        ],
    ),
    (
        "guard",
        &["contender", "curator", "error", "fenced", "lock_path", "revoke", "session", "surface"],
    ),
    // What its macros name.
    ("surface", &["client", "error", "fenced", "fencing", "guard", "recipe", "retry", "session"]),
    ("owner", &["admission", "contender", "guard", "curator", "lock_path", "mutex"]),
    (
        "acquire",
        &[
            "admission",
            "contender",
            "contender_name",
            "error",
            "guard",
            "metrics",
            "owner",
            "recipe",
            "session",
        ],
    ),
    (
        "leasing",
        &[
            "acquire",
            "admission",
            "client",
            "contender",
            "contender_filter",
            "contender_name",
            "error",
            "guard",
            "lock_path",
            "metrics",
            "participants",
            "reading",
            "recipe",
            "session",
        ],
    ),
    ("inter_process_lock", &["error", "fencing", "guard"]), // of the guard, what a release did
    ("multi_guard", &["error", "fencing", "guard", "inter_process_lock"]),
    // The test double of a lock uses the trait, and what that speaks of.
    ("testkit/local_lock", &["error", "fencing", "guard", "inter_process_lock"]),
    ("testkit", &[]),
    // Recipes: not each other.
    ("mutex", QUEUED),
    ("read_write_lock", QUEUED),
    ("semaphore", LEASED),
    ("semaphore_mutex", LEASED),
    (
        "leader",
        &[
            "admission",
            "client",
            "contender",
            "contender_filter",
            "contender_name",
            "curator",
            "error",
            "guard",
            "inter_process_lock", // a boxed future
            "lock_path",
            "metrics",
            "participants",
            "recipe",
            "retry",
            "revoke", // what a request to step down writes
            "session",
            "surface",
            "waiting",
        ],
    ),
    // But this one takes any lock, and makes mutexes where only paths are given.
    (
        "multi_lock",
        &["curator", "error", "inter_process_lock", "multi_guard", "mutex", "recipe", "session"],
    ),
    // Which of them are behind the trait.
    (
        "locks",
        &[
            "guard",
            "inter_process_lock",
            "mutex",
            "read_write_lock",
            "semaphore",
            "semaphore_mutex",
        ],
    ),
];

/// The same for the modules of the command line tool. Of the library it has the public part only, being a crate of
/// its own; `main.rs` names all.
const TOOL_ARROWS: &[(&str, &[&str])] = &[
    ("text", &[]),
    ("stderr", &[]),
    ("exit", &["stderr", "text"]),
    ("arguments", &["exit"]),
    ("signals", &["exit"]),
    ("output", &["exit", "signals", "stderr"]),
    ("settings", &["arguments", "exit"]),
    ("connection", &["exit", "settings"]),
    ("contenders", &["exit", "text"]),
    ("screen", &["stderr"]),
    ("supervision", &["arguments", "exit", "signals"]),
    ("queue", &["contenders"]),
    (
        "waiting",
        &["connection", "contenders", "exit", "queue", "screen", "stderr", "supervision", "text"],
    ),
    // Commands.
    ("run", RUNS),
    ("elect", RUNS),
    ("ls", LOOKS),
    ("observe", LOOKS),
    ("revoke", LOOKS),
    ("breaking", LOOKS),
    ("pages", &["arguments", "exit", "output"]),
];

const RUNS: &[&str] = &[
    "arguments",
    "connection",
    "contenders",
    "exit",
    "output",
    "settings",
    "signals",
    "supervision",
    "waiting",
];

const LOOKS: &[&str] =
    &["arguments", "connection", "contenders", "exit", "output", "settings", "signals", "text"];

/// For a recipe whose contenders queue.
const QUEUED: &[&str] = &[
    "acquire",
    "admission",
    "contender_filter",
    "contender_name",
    "curator",
    "error",
    "guard",
    "metrics",
    "owner",
    "participants",
    "recipe",
    "surface",
];

/// For one whose contenders are counted.
const LEASED: &[&str] = &[
    "contender",
    "curator",
    "error",
    "guard",
    "leasing",
    "metrics",
    "participants",
    "recipe",
    "shared_count", // the limit
    "surface",
];

const PURE: &[&str] = &[
    "contender_name",
    "contender_filter",
    "admission",
    "lock_path",
    "session/state",
    "contender/gap",
    "shared_count/count",
];
const IMPURE_WORDS: &[&str] =
    &["tokio", "std::time", "std::net", "std::fs", "std::thread", "async fn"];

const LONGEST_FILE: usize = 400;
const LONGEST_FUNCTION: usize = 60;

struct Source {
    /// Below `src`, without the ending.
    module: String,
    text: String,
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut sources = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let module = path.strip_prefix(&root).unwrap().with_extension("");
                let module = module.to_str().unwrap().to_owned();
                sources.push(Source { module, text: fs::read_to_string(&path).unwrap() });
            }
        }
    }
    assert!(sources.len() > 10, "the sources were not found");
    sources
}

/// The text without tests, comments and documentation: what is compiled into the library.
fn code(text: &str) -> String {
    let text = text.split("\n#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let is_code = |line: &&str| !line.trim_start().starts_with("//") && !line.trim().is_empty();
    text.lines().filter(is_code).collect::<Vec<_>>().join("\n")
}

/// The top modules of the crate that `code` names.
fn used(code: &str) -> Vec<String> {
    let mut used: Vec<String> = code
        .split("crate::")
        .skip(1)
        .map(|rest| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect())
        .filter(|word: &String| word.chars().next().is_some_and(char::is_lowercase))
        .collect();
    used.sort();
    used.dedup();
    used
}

fn faults_of_layers(module: &str, code: &str) -> Vec<String> {
    let (arrows, module) = match module.strip_prefix("bin/zklock/") {
        Some(module) => (TOOL_ARROWS, module),
        None => (ARROWS, module),
    };
    let top = module.split('/').next().unwrap_or(module);
    if matches!(top, "lib" | "docs" | "main") {
        return Vec::new();
    }
    let arrows: BTreeMap<_, _> = arrows.iter().copied().collect();
    let Some(allowed) = arrows.get(module).or_else(|| arrows.get(top)) else {
        return vec![format!("{module} has no row in the table of layers")];
    };
    used(code)
        .into_iter()
        .filter(|used| used != top && !allowed.contains(&used.as_str()))
        .map(|used| format!("{module} uses {used}, which is not below it"))
        .collect()
}

#[test]
fn arrows_point_down_only() {
    let faults: Vec<_> =
        sources().iter().flat_map(|s| faults_of_layers(&s.module, &code(&s.text))).collect();
    assert!(faults.is_empty(), "{faults:#?}");
    // The check itself can fail.
    assert_eq!(faults_of_layers("session/lease", "use crate::contender::Hold;").len(), 1);
    assert_eq!(faults_of_layers("admission", "use crate::session::Session;").len(), 1);
    assert_eq!(faults_of_layers("newcomer", "").len(), 1);
    assert_eq!(faults_of_layers("bin/zklock/text", "use crate::ls::ls;").len(), 1);
    assert_eq!(faults_of_layers("bin/zklock/newcomer", "").len(), 1);
    assert_eq!(faults_of_layers("testkit/server", "use crate::error::Loss;").len(), 1);
}

#[test]
fn pure_files_know_no_tokio_no_clock_and_no_io() {
    for source in sources().iter().filter(|source| PURE.contains(&source.module.as_str())) {
        let code = code(&source.text);
        for word in IMPURE_WORDS {
            assert!(!code.contains(word), "{} names {word}", source.module);
        }
    }
}

#[test]
fn only_the_seam_names_the_client_library() {
    for source in sources() {
        let exempt = source.module.split('/').next() == Some("client")
            || source.module.starts_with("testkit");
        // Re-exported, for everybody.
        let code = code(&source.text)
            .replace("pub use zookeeper_client;", "")
            .replace("use zookeeper_recipes::zookeeper_client::", "");
        assert!(exempt || !code.contains("zookeeper_client"), "{} names it", source.module);
    }
}

#[test]
fn files_and_functions_are_short() {
    for source in sources() {
        let code = code(&source.text);
        let lines = code.lines().count();
        assert!(lines <= LONGEST_FILE, "{} has {lines} lines of code", source.module);
        for (name, lines) in functions(&code) {
            assert!(lines <= LONGEST_FUNCTION, "{}: {name} has {lines} lines", source.module);
        }
    }
    let long = format!("fn long() {{\n{}}}\n", "    step();\n".repeat(70));
    assert_eq!(functions(&long), [("long".to_owned(), 72)]);
}

/// Names and lengths, told by the indentation that rustfmt gives.
fn functions(code: &str) -> Vec<(String, usize)> {
    let lines: Vec<_> = code.lines().collect();
    let mut functions = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let Some((before, after)) = line.split_once("fn ") else {
            continue;
        };
        let words = ["pub", "pub(crate)", "pub(super)", "async", "const"];
        if !before.split_whitespace().all(|word| words.contains(&word)) {
            continue;
        }
        let indent = before.len() - before.trim_start().len();
        let end = format!("{}}}", " ".repeat(indent));
        let length = lines[start..].iter().position(|line| *line == end).unwrap_or(0) + 1;
        let name = after.split(['(', '<']).next().unwrap_or_default();
        functions.push((name.to_owned(), length));
    }
    functions
}

#[test]
fn every_public_async_function_says_what_cancelling_it_does() {
    let mut checked = 0;
    for source in sources() {
        let lines: Vec<_> = source.text.lines().collect();
        for (number, line) in lines.iter().enumerate() {
            if !line.trim_start().starts_with("pub async fn ") {
                continue;
            }
            let is_documentation = |line: &&&str| {
                let line = line.trim_start();
                line.starts_with("///") || line.starts_with("#[")
            };
            let documentation: Vec<_> =
                lines[..number].iter().rev().take_while(is_documentation).collect();
            let has = |heading: &str| documentation.iter().any(|line| line.contains(heading));
            let place = format!("{}: {}", source.module, line.trim());
            assert!(has("# Cancel safety"), "{place} has no `# Cancel safety`");
            let signature: String = lines[number..].iter().take(9).copied().collect();
            let fallible = signature.split('{').next().is_some_and(|s| s.contains("Result<"));
            assert!(!fallible || has("# Errors"), "{place} has no `# Errors`");
            checked += 1;
        }
    }
    assert!(checked > 5, "only {checked} functions were found");
}

#[test]
fn every_test_folder_says_what_it_needs() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    for folder in fs::read_dir(tests).unwrap().map(|entry| entry.unwrap().path()) {
        let main = folder.join("main.rs");
        if let Ok(text) = fs::read_to_string(&main) {
            assert!(text.starts_with("//! Needs"), "{} does not say it first", main.display());
        }
    }
}

/// The examples that there are: a file, or a folder with a `main.rs`.
fn examples() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_example = |path: &PathBuf| {
        path.extension().is_some_and(|ending| ending == "rs") || path.join("main.rs").exists()
    };
    let name = |path: PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    paths.filter(is_example).map(name).collect()
}

/// Those that the script with all tests runs: by its function `example BACKEND NAME`, from the list for that, or by cargo.
fn run_by(script: &str) -> Vec<&str> {
    let lines = script.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let named = lines.filter_map(|line| match line.split_once("$cargo run ") {
        Some((_, cargo)) => cargo.split_once("--example ")?.1.split(' ').next(),
        None => line.split_once("example \"$")?.1.split(' ').nth(1),
    });
    let listed = script.split_once("examples=(").and_then(|(_, rest)| rest.split_once(')'));
    let mut run: Vec<_> = named.collect();
    run.extend(listed.map_or("", |(list, _)| list).split_whitespace());
    run
}

#[test]
fn each_example_is_described_and_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("examples/README.md")).unwrap();
    let script = fs::read_to_string(root.join("scripts/test.sh")).unwrap();
    let run = run_by(&script);
    let examples = examples();
    assert!(examples.len() > 15, "only {examples:?} were found");
    for name in &examples {
        let rows = page.matches(&format!("\n| [`{name}`]({name}")).count();
        assert_eq!(rows, 1, "rows in examples/README.md for {name}");
        assert!(run.contains(&name.as_str()), "scripts/test.sh does not run the example {name}");
    }
    let script =
        "examples=(\n  one two\n)\nCALM=1 example \"$one\" three 1\n# example \"$one\" four";
    assert_eq!(run_by(script), ["three", "one", "two"]);
    assert_eq!(run_by("timed soak $cargo run --quiet --example soak"), ["soak"]);
    assert!(run_by("$cargo test --example demo").is_empty(), "that runs its tests only");
}
