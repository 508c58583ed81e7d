//! Finds Java and ZooKeeper on this machine.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::backend::variable;
use super::{Backend, TestkitError};

/// The folder of the libraries of Debian's packages.
const SYSTEM_JARS: &str = "/usr/share/java";
/// The manifest of the first names the others, except the logger and the libraries for TLS.
const REQUIRED_JARS: [&str; 2] = ["zookeeper.jar", "zookeeper-jute.jar"];
const OPTIONAL_JARS: [&str; 4] =
    ["slf4j-log4j12.jar", "log4j-1.2.jar", "netty-codec.jar", "netty-resolver.jar"];

/// The files that are needed to run a server.
#[derive(Debug, Clone)]
pub(super) struct Distribution {
    pub(super) java: PathBuf,
    class_path: Vec<PathBuf>,
}

impl Distribution {
    pub(super) fn find() -> Result<Self, TestkitError> {
        let found = find_java().and_then(|java| Ok(Self { java, class_path: find_jars()? }));
        found.map_err(|reason| TestkitError::Unavailable { backend: Backend::Process, reason })
    }

    /// Returns the distribution in the folder `home`, to be run by the same Java.
    pub(super) fn at(&self, home: &Path) -> Result<Self, TestkitError> {
        let class_path = jars_of(home).ok_or_else(|| TestkitError::InvalidOption {
            option: "home",
            value: home.display().to_string(),
            reason: "there is no folder `lib` in it",
        })?;
        Ok(Self { java: self.java.clone(), class_path })
    }

    /// Returns the class path, beginning with the folder `first`, which has the configuration of the log.
    pub(super) fn class_path(&self, first: &Path) -> OsString {
        let mut joined = first.as_os_str().to_owned();
        for part in &self.class_path {
            joined.push(":");
            joined.push(part);
        }
        joined
    }
}

fn find_java() -> Result<PathBuf, String> {
    if let Some(home) = variable("JAVA_HOME") {
        let java = Path::new(&home).join("bin/java");
        if java.is_file() {
            return absolute(&java);
        }
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut candidates = std::env::split_paths(&path).map(|folder| folder.join("java"));
    let found = candidates.find(|java| java.is_file());
    absolute(&found.ok_or("there is no `java` in JAVA_HOME or on PATH")?)
}

/// A server runs in the folder of its data.
fn absolute(path: &Path) -> Result<PathBuf, String> {
    std::path::absolute(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn jars_of(home: &Path) -> Option<Vec<PathBuf>> {
    let libraries = std::path::absolute(home).ok()?.join("lib");
    libraries.is_dir().then(|| vec![libraries.join("*")])
}

fn find_jars() -> Result<Vec<PathBuf>, String> {
    if let Some(home) = variable("ZOOKEEPER_HOME") {
        let missing = || format!("ZOOKEEPER_HOME is `{home}`, but there is no folder `lib` in it");
        return jars_of(Path::new(&home)).ok_or_else(missing);
    }
    let system = Path::new(SYSTEM_JARS);
    if let Some(missing) = REQUIRED_JARS.into_iter().find(|jar| !system.join(jar).is_file()) {
        return Err(format!(
            "ZOOKEEPER_HOME is not set and there is no {SYSTEM_JARS}/{missing} (Debian: `zookeeper`)"
        ));
    }
    let optional = OPTIONAL_JARS.into_iter().filter(|jar| system.join(jar).is_file());
    Ok(REQUIRED_JARS.into_iter().chain(optional).map(|jar| system.join(jar)).collect())
}
