//! Needs no server: the house rules that a reader of the sources can check. Layers, the seam, and what the documentation
//! of an async function must say.
#![allow(clippy::unwrap_used)] // a test fails by it

mod aliases;
mod architecture;
mod imports;
mod monitoring;
mod pages;
mod versions;

use std::fs;
use std::path::{Path, PathBuf};

const PURE: &[&str] = &[
    "lock_path",
    "session/lease/anchor",
    "session/state",
    "queue/local_queue",
    "queue/rules",
    "recipes/shared_count/count",
];
const IMPURE_WORDS: &[&str] =
    &["tokio", "std::time", "BootInstant::now", "std::net", "std::fs", "std::thread", "async fn"];

/// The folders with sources of each package.
const FOLDERS: &[(Package, &[&str])] = &[
    (Package::Library, &["src"]),
    (Package::Testkit, &["testkit/src"]),
    (Package::Zklock, &["zklock/src"]),
    (Package::Tools, &["dev/src", "tools/src", "tools/benches", "benches/comparison/src"]),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Package {
    Library,
    Testkit,
    Zklock,
    Tools,
}

struct Source {
    package: Package,
    /// Below the repository, without the ending.
    path: String,
    /// The same below the folder.
    module: String,
    text: String,
}

/// Of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// All files below a folder with this ending; no build and no hidden folder.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let name = path.file_name().unwrap().to_string_lossy();
            if path.is_dir() && !name.starts_with('.') && name != "target" {
                folders.push(path);
            } else if path.extension().is_some_and(|own| own == ending) {
                files.push(path);
            }
        }
    }
    files
}

fn sources() -> Vec<Source> {
    let mut sources = Vec::new();
    for (package, folders) in FOLDERS {
        let before = sources.len();
        for folder in folders.iter().map(|folder| root().join(folder)) {
            sources.extend(files(&folder, "rs").into_iter().map(|path| {
                let below = |folder: &Path| {
                    let below = path.strip_prefix(folder).unwrap().with_extension("");
                    below.to_str().unwrap().to_owned()
                };
                let (module, text) = (below(&folder), fs::read_to_string(&path).unwrap());
                Source { package: *package, path: below(&root()), module, text }
            }));
        }
        assert!(sources.len() > before + 5, "the sources of {package:?} were not found");
    }
    sources
}

/// The text without tests, comments and documentation: what is compiled into the library.
fn code(text: &str) -> String {
    let text = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let is_code = |line: &&str| !line.trim_start().starts_with("//") && !line.trim().is_empty();
    text.lines().filter(is_code).collect::<Vec<_>>().join("\n")
}

#[test]
fn pure_files_know_no_tokio_no_clock_and_no_io() {
    let sources = sources();
    for pure in PURE {
        let is_pure = |source: &&Source| {
            source.package == Package::Library
                && (source.module == *pure || source.module.starts_with(&format!("{pure}/")))
                && !source.module.ends_with("/tests")
        };
        let files: Vec<_> = sources.iter().filter(is_pure).collect();
        assert!(!files.is_empty(), "there is no {pure}");
        for file in files {
            // A length of time is a number.
            let code = code(&file.text).replace("std::time::Duration", "");
            for word in IMPURE_WORDS {
                assert!(!code.contains(word), "{} names {word}", file.module);
            }
        }
    }
}

#[test]
fn only_the_seam_names_the_client_library() {
    for Source { package, module, text, .. } in sources() {
        let exempt = match package {
            Package::Library => module.split('/').next() == Some("client"),
            Package::Zklock => false,
            Package::Testkit | Package::Tools => true,
        };
        // Re-exported, for everybody.
        let code = code(&text)
            .replace("pub use zookeeper_client;", "")
            .replace("use zookeeper_recipes::zookeeper_client::", "");
        assert!(exempt || !code.contains("zookeeper_client"), "{module} names it");
    }
}

/// Else no simulation repeats it: a `select!` that draws its order, a task that starts elsewhere, a random number of
/// elsewhere.
#[test]
fn nothing_of_the_library_is_left_to_chance() {
    let places = ["session/tasks", "random"];
    for source in sources().iter().filter(|source| source.package == Package::Library) {
        let code = code(&source.text);
        if !places.contains(&&*source.module) && !source.module.starts_with("simulation") {
            for word in ["spawn_on(", "new_v4", "fastrand"] {
                assert!(!code.contains(word), "{}: {word}", source.module);
            }
            // A task starts on the connection or its spawner.
            let mut starts = code.lines().filter(|line| line.contains(".spawn("));
            let is_known = |line: &str| line.contains("connection") || line.contains("spawner");
            assert!(starts.all(is_known), "{}", source.module);
        }
        let after = code.split("select! {").skip(1).map(str::trim_start);
        assert!(after.clone().all(|arms| arms.starts_with("biased;")), "{}", source.module);
    }
}

#[test]
fn every_public_async_function_says_what_cancelling_it_does() {
    let mut checked = 0;
    for source in sources().iter().filter(|source| source.package != Package::Tools) {
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
