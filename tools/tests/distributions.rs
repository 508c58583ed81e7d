//! Needs bash, Python with `venv` and a JDK; no network. `scripts/distributions.sh` fills a cache, and says in one line why it
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
fn a_name_in_the_cache_needs_no_archive() {
    let folder = folder("cached");
    let cached = folder.join("cache/zookeeper-3.9.5");
    fs::create_dir_all(&cached).unwrap();
    let output = distributions(&folder, "zookeeper-3.9.5");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{}\n", cached.display()));
    assert!(output.stderr.is_empty());
}

#[test]
fn an_unknown_name_is_answered_with_the_known_ones() {
    let line = complaint(&folder("unknown"), "zookeeper-3.9.4");
    assert!(line.starts_with("distributions: there is no `zookeeper-3.9.4`; "), "{line}");
    assert!(line.contains("zookeeper-3.9.5") && line.contains("curator-2.7.1"), "{line}");
}

#[test]
fn without_a_network_it_says_what_is_missing_and_what_to_do() {
    if has_pip() {
        let folder = folder("no-network");
        let line = complaint(&folder, "zookeeper-3.9.5");
        assert!(line.starts_with("distributions: cannot download pyspark==4.3.0 ("), "{line}");
        let advice = format!("copy {} from", folder.join("cache/zookeeper-3.9.5").display());
        assert!(line.contains("connect this machine to PyPI") && line.contains(&advice), "{line}");
    }
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

/// A program in one of Flink's packages, which names its class in code and as text among constants of each size.
const SHADED: &str = r#"
package org.apache.flink.shaded.zookeeper3.org.apache.zookeeper;

public class Probe {
    interface Named { String name(); }

    public static void main(String[] arguments) throws Exception {
        long time = 123456789012345L;
        double ratio = 0.123456789;
        int number = 1234567;
        float part = 0.125f;
        Named named = Probe.class::getName;
        String text = "org.apache.flink.shaded.zookeeper3.org.apache.zookeeper.Probe \u0000\u00e9\ud83d\ude00";
        Class<?> found = Class.forName(text.substring(0, text.indexOf(' ')));
        System.out.println(named.name() + " " + found.equals(Probe.class) + " " + time + " " + ratio + " " + number + " " + part);
        for (char c : text.substring(text.indexOf(' ') + 1).toCharArray()) {
            System.out.print((int) c + " ");
        }
    }
}
"#;

#[test]
fn classes_get_their_original_names_back() {
    if !can_run("javac", &["-version"]) || !can_run("python3", &["--version"]) {
        return;
    }
    let folder = folder("unshade");
    let run = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).current_dir(&folder).output().unwrap();
        assert!(output.status.success(), "{program}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    fs::write(folder.join("Probe.java"), SHADED).unwrap();
    run("javac", &["-d", "classes", "Probe.java"]);
    fs::write(folder.join("classes/org/other.txt"), "of another project").unwrap();
    run("jar", &["cf", "shaded.jar", "-C", "classes", "."]);
    let unshade = scripts().join("distributions/unshade.py").display().to_string();
    run("python3", &[&unshade, "shaded.jar", "all.jar"]);
    run("python3", &[&unshade, "shaded.jar", "some.jar", "org/apache/zookeeper/"]);
    for jar in ["all.jar", "some.jar"] {
        let printed = run("java", &["-cp", jar, "org.apache.zookeeper.Probe"]);
        let constants = "true 123456789012345 0.123456789 1234567 0.125";
        let text = "0 233 55357 56832 ";
        assert_eq!(printed, format!("org.apache.zookeeper.Probe {constants}\n{text}"));
        assert!(!run("jar", &["tf", jar]).contains("other"));
    }
    let mut nothing = Command::new("python3");
    nothing.args([&unshade, "shaded.jar", "none.jar", "org/apache/jute/"]).current_dir(&folder);
    assert!(!nothing.output().unwrap().status.success());
}
