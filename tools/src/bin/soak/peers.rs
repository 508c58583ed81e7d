//! Contenders of other libraries, by name: the programs that they are.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tools::{Result, curator_class_path, distribution};
use zookeeper_recipes_dev::home;

/// What all Java processes share: several start while others work.
const JAVA: [&str; 4] = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"];
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/bin/soak");
/// The folder of kazoo's locks on Curator's nodes.
pub(crate) const MODULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/interop");

/// A contender of another library.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Peer {
    /// `curator-5.9.0`, or `kazoo` for the installed one.
    pub(crate) name: String,
    /// The command. The arguments of `SoakPeer.java` follow it.
    pub(crate) program: Vec<String>,
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Peer {
    /// Returns the peer of this name. Its library is fetched if the name has a version, and must be installed if it has none.
    pub(crate) fn find(name: &str) -> Result<Self> {
        let library = name.split('-').next().unwrap_or(name);
        let has_version = library != name;
        let program = match library {
            "curator" if has_version => java(&format!("{}/lib/*", distribution(name)?.display())),
            "curator" => {
                let class_path = curator_class_path();
                java(&class_path.map_err(|missing| not_installed(name, &missing))?)
            }
            "kazoo" => {
                let python = if has_version { distribution(name)? } else { installed_kazoo() };
                let python = python.join("bin/python").display().to_string();
                if !Path::new(&python).exists() {
                    return Err(not_installed(name, &python).into());
                }
                self::python(&python)
            }
            _ => {
                return Err(format!(
                    "PEERS={name}: use `curator` or `kazoo`, or one with its version as `curator-5.9.0`"
                )
                .into());
            }
        };
        // The peer ends with this process, also while it is stopped.
        let prefix = ["setpriv", "--pdeathsig", "KILL", "--"].map(str::to_owned);
        Ok(Self { name: name.to_owned(), program: [prefix.to_vec(), program].concat() })
    }
}

fn not_installed(name: &str, missing: &str) -> String {
    format!("PEERS={name}: there is no {missing}; run scripts/setup.sh {name}")
}

fn installed_kazoo() -> PathBuf {
    home("KAZOO_HOME").unwrap_or_else(|| target_folder().join("kazoo"))
}

fn java(class_path: &str) -> Vec<String> {
    let source = format!("{SOURCES}/SoakPeer.java");
    let arguments = ["--class-path", class_path, &source];
    ["java"].iter().chain(&JAVA).chain(&arguments).map(|word| (*word).to_owned()).collect()
}

/// Python writes no files beside the sources.
fn python(program: &str) -> Vec<String> {
    let source = format!("{SOURCES}/soak_peer.py");
    [program, "-B", &source].map(str::to_owned).to_vec()
}

/// The folder of what is built, which also has the installed kazoo.
pub(crate) fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from)
}
