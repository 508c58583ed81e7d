//! The jars of Apache Curator, as Debian's `libcurator-recipes-java` installs them.

use std::path::Path;

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

/// Returns the class path. An error names a missing jar.
pub fn class_path() -> Result<String, String> {
    let mut jars: Vec<_> = NEEDED.iter().map(|name| format!("{JARS}/{name}")).collect();
    if let Some(missing) = jars.iter().find(|jar| !Path::new(jar).exists()) {
        return Err(missing.clone());
    }
    jars.push(format!("{JARS}/{SILENCE}"));
    Ok(jars.join(":"))
}
