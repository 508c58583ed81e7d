//! The jars of Apache Curator: those of `CURATOR_HOME`, or else those that Debian's `libcurator-recipes-java` installs.

use std::path::{Path, PathBuf};

const JARS: &str = "/usr/share/java";
/// The jars that must exist; their manifests name the others.
const NEEDED: [&str; 5] = [
    "curator-recipes.jar",
    "curator-framework.jar",
    "curator-client.jar",
    "zookeeper.jar",
    "zookeeper-jute.jar",
];
const SILENCE: &str = "slf4j-nop.jar";

/// Returns the folder that a variable of the environment names. An empty variable counts as unset.
pub fn home(variable: &str) -> Option<PathBuf> {
    let value = std::env::var_os(variable)?;
    (!value.is_empty()).then(|| PathBuf::from(value))
}

/// Returns the class path. An error names what is missing.
pub fn class_path() -> Result<String, String> {
    if let Some(home) = home("CURATOR_HOME") {
        let libraries = home.join("lib");
        let missing = || format!("{}, which CURATOR_HOME names", libraries.display());
        return libraries
            .is_dir()
            .then(|| format!("{}/*", libraries.display()))
            .ok_or_else(missing);
    }
    let mut jars: Vec<_> = NEEDED.iter().map(|name| format!("{JARS}/{name}")).collect();
    if let Some(missing) = jars.iter().find(|jar| !Path::new(jar).exists()) {
        return Err(missing.clone());
    }
    jars.push(format!("{JARS}/{SILENCE}"));
    Ok(jars.join(":"))
}
