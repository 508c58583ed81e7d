//! Needs bash and Python with `venv`; no network. `scripts/distributions.sh` fills a cache, and says in one line why it
//! cannot.
#![allow(clippy::unwrap_used)] // a test fails by it

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use zookeeper_recipes_dev::skipped;

/// A folder of the test's own below `target`, which is empty.
fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("distributions").join(test);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts")
}

/// Runs the script with `folder` as the only place in which pip looks for archives.
fn distributions(folder: &Path, name: &str) -> Output {
    let mut script = Command::new(scripts().join("distributions.sh"));
    script.arg(name);
    script.env("ZOOKEEPER_RECIPES_CACHE", folder.join("cache"));
    script.env("PIP_NO_INDEX", "1").env("PIP_FIND_LINKS", folder);
    script.output().unwrap()
}

/// The last line of a run that fails. It prints no folder, and leaves nothing in the cache.
fn complaint(folder: &Path, name: &str) -> String {
    let output = distributions(folder, name);
    assert!(!output.status.success());
    assert!(output.stdout.is_empty(), "{output:?}");
    let left = fs::read_dir(folder.join("cache")).map_or(0, Iterator::count);
    assert_eq!(left, 0);
    let text = String::from_utf8(output.stderr).unwrap();
    text.lines().last().unwrap().to_owned()
}

/// Whether a command runs. A missing program skips the test, except in CI.
fn can_run(program: &str, arguments: &[&str]) -> bool {
    let output = Command::new(program).args(arguments).output();
    let runs = output.is_ok_and(|output| output.status.success());
    if !runs {
        skipped(&format!(
            "`{program} {}` does not run: scripts/setup.sh curator kazoo",
            arguments.join(" ")
        ));
    }
    runs
}

fn has_pip() -> bool {
    can_run("python3", &["-c", "import ensurepip, venv"])
}

#[test]
fn an_archive_with_another_hash_is_refused() {
    if has_pip() {
        let folder = folder("damaged");
        fs::write(folder.join("pyspark-4.3.0.tar.gz"), "half of it").unwrap();
        let line = complaint(&folder, "curator-5.9.0");
        let start = "distributions: the archive of pyspark==4.3.0 has another SHA-256 than ";
        assert!(line.starts_with(start) && line.contains("run the command again"), "{line}");
        fs::write(folder.join("kazoo-2.11.0-py2.py3-none-any.whl"), "half of it").unwrap();
        let line = complaint(&folder, "kazoo-2.11.0");
        assert!(line.starts_with("distributions: the archive of kazoo==2.11.0 has "), "{line}");
    }
}
