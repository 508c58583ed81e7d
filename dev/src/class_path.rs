//! Where Apache Curator is, as Debian's `libcurator-recipes-java` installs it. The benches use it, too.

use std::path::Path;

const JARS: &str = "/usr/share/java";
/// What must be there; the manifests bring the rest.
const NEEDED: [&str; 5] = [
    "curator-recipes.jar",
    "curator-framework.jar",
    "curator-client.jar",
    "zookeeper.jar",
    "zookeeper-jute.jar",
];
const SILENCE: &str = "slf4j-nop.jar";

/// The class path; `Err` names a jar that is missing.
pub fn class_path() -> Result<String, String> {
    let mut jars: Vec<_> = NEEDED.iter().map(|name| format!("{JARS}/{name}")).collect();
    if let Some(missing) = jars.iter().find(|jar| !Path::new(jar).exists()) {
        return Err(missing.clone());
    }
    jars.push(format!("{JARS}/{SILENCE}"));
    Ok(jars.join(":"))
}
