//! The peers: Apache Curator, kazoo, and this crate.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use zookeeper_recipes_dev::{class_path, home, skipped};

use crate::support::peer_process::Peer;

pub(crate) const CURATOR: &str = "Curator";
pub(crate) const KAZOO: &str = "kazoo";
pub(crate) const OURS: &str = "ours";

/// Cut down, as several start while others measure nothing: what they do takes no heap.
const JAVA: [&str; 4] = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"];
const SOURCES: [&str; 3] = ["CuratorPeer.java", "CuratorLock.java", "Answers.java"];

/// The one that all tests share, with a session for each of them. Nothing where it is missing, which it says.
pub(crate) fn shared(name: &'static str) -> Option<Arc<Peer>> {
    static SHARED: Mutex<BTreeMap<&str, Option<Arc<Peer>>>> = Mutex::new(BTreeMap::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.entry(name).or_insert_with(|| own(name)).clone()
}

/// The oldest version that the tests run with. It lacks recipes of the later ones.
pub(crate) fn is_curator_2_7_1() -> bool {
    home("CURATOR_HOME").is_some_and(|home| home.ends_with("curator-2.7.1"))
}

/// A process of its own, for a test that stops or kills it.
pub(crate) fn own(name: &'static str) -> Option<Arc<Peer>> {
    let program = match name {
        OURS => Some(this_executable("support::our_process::worker")),
        CURATOR => java("CuratorPeer", &SOURCES.map(source)),
        _ => present(kazoo_program()),
    };
    program.map(|program| start(name, &program))
}

/// The command that runs one test that is ignored, and nothing else.
pub(crate) fn this_executable(test: &str) -> Vec<String> {
    let executable = std::env::current_exe().unwrap().display().to_string();
    [&executable, "--exact", test, "--ignored", "--nocapture"].map(str::to_owned).to_vec()
}

pub(crate) fn start(name: &'static str, program: &[String]) -> Arc<Peer> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    Peer::start(name, program, &folder().join(format!("{name}-{number}.log")))
}

fn present(program: Result<Vec<String>, String>) -> Option<Vec<String>> {
    program.map_err(|missing| skipped(&missing)).ok()
}

/// Java with Curator, as it runs the class `main` of these sources.
fn java_program(main: &str, sources: &[PathBuf]) -> Result<Vec<String>, String> {
    let jars = class_path().map_err(|jar| missing_curator(format!("there is no {jar}")))?;
    let classes = compiled(&jars, sources).map_err(missing_curator)?;
    let mut program = vec![tool("java")];
    program.extend(JAVA.map(str::to_owned));
    program.extend(["--class-path".into(), format!("{}:{jars}", classes.display())]);
    program.push(main.into());
    Ok(program)
}

fn missing_curator(what: String) -> String {
    format!("no Curator, {what}: scripts/setup.sh curator")
}

/// A program of one's own with Curator, and the command that runs it. Nothing where Curator is missing, which it says.
pub(crate) fn java(main: &str, sources: &[PathBuf]) -> Option<Vec<String>> {
    present(java_program(main, sources))
}

fn kazoo_program() -> Result<Vec<String>, String> {
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let installed = || scratch.parent().unwrap_or(scratch).join("kazoo");
    let python = home("KAZOO_HOME").unwrap_or_else(installed).join("bin/python");
    if !python.exists() {
        return Err(format!("no kazoo, no {}: scripts/setup.sh kazoo", python.display()));
    }
    // Nothing is written beside the sources.
    Ok(vec![
        python.display().to_string(),
        "-B".into(),
        source("kazoo_peer.py").display().to_string(),
    ])
}

/// Compiled once for what the sources and the class path are. Another test may want the same, so only one at a time makes it.
fn compiled(jars: &str, sources: &[PathBuf]) -> Result<PathBuf, String> {
    static COMPILING: Mutex<()> = Mutex::new(());
    let _alone = COMPILING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut hasher = DefaultHasher::new();
    jars.hash(&mut hasher);
    for source in sources {
        std::fs::read(source).unwrap().hash(&mut hasher);
    }
    let classes = folder().join(format!("classes-{:016x}", hasher.finish()));
    if classes.exists() {
        return Ok(classes);
    }
    // In one step into its place: another process may do the same.
    let making = classes.with_extension(std::process::id().to_string());
    let mut javac = Command::new(tool("javac"));
    javac.args(["-d", &making.display().to_string(), "-cp", jars]).args(sources);
    let output = javac.output().map_err(|error| format!("there is no javac ({error})"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "javac: {errors}");
    if std::fs::rename(&making, &classes).is_err() {
        let _ = std::fs::remove_dir_all(making);
    }
    Ok(classes)
}

fn tool(name: &str) -> String {
    let tool = home("JAVA_HOME").map(|home| home.join("bin").join(name));
    let tool = tool.filter(|tool| tool.exists());
    tool.map_or_else(|| name.to_owned(), |tool| tool.display().to_string())
}

pub(crate) fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop").join(name)
}

pub(crate) fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("interop");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}
