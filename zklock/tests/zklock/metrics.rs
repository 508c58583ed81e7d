//! `--metrics-file`: what a strict parser of the format reads at each moment.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use tokio_util::sync::CancellationToken;
use zookeeper_recipes_dev::eventually;

use crate::support::scene::{Scene, skipped};
use crate::support::scripts::{GOES_ON, STAYS};

const NAMES: [&str; 7] = [
    "zklock_last_run_timestamp_seconds",
    "zklock_last_success_timestamp_seconds",
    "zklock_last_exit_code",
    "zklock_last_wait_seconds",
    "zklock_held",
    "zklock_last_hold_seconds",
    "zklock_losses_total",
];

/// Reads the text format without any leniency: each metric has a HELP, a TYPE and one sample, in this order; each sample
/// has one label; nothing else is in the file. Returns the values by name, and the label's value.
fn parse(text: &str) -> Result<(BTreeMap<String, f64>, String), String> {
    let mut values = BTreeMap::new();
    let mut path = None;
    let body = text.strip_suffix('\n').ok_or("no line feed at the end")?;
    let lines: Vec<&str> = body.split('\n').collect();
    for metric in lines.chunks(3) {
        let [help, kind, sample] = metric else {
            return Err(format!("not three lines: {metric:?}"));
        };
        let help = help.strip_prefix("# HELP ").ok_or(*help)?;
        let (name, help) = help.split_once(' ').ok_or(help)?;
        let is_name = |name: &str| name.bytes().all(|one| one.is_ascii_lowercase() || one == b'_');
        if !is_name(name) || help.is_empty() || help.contains('\\') {
            return Err(format!("{name}: {help}"));
        }
        let expected = if name.ends_with("_total") { "counter" } else { "gauge" };
        if *kind != format!("# TYPE {name} {expected}") {
            return Err((*kind).to_owned());
        }
        let rest = sample.strip_prefix(name).ok_or(*sample)?;
        let mut rest = rest.strip_prefix("{path=\"").ok_or(rest)?.chars();
        let mut label = String::new();
        loop {
            match rest.next().ok_or("the label has no end")? {
                '"' => break,
                '\\' => label.push(match rest.next() {
                    Some('n') => '\n',
                    Some(one @ ('\\' | '"')) => one,
                    other => return Err(format!("escaped: {other:?}")),
                }),
                one => label.push(one),
            }
        }
        let value = rest.as_str().strip_prefix("} ").ok_or(rest.as_str())?;
        let is_plain = value.bytes().all(|one| one.is_ascii_digit() || one == b'.');
        let value: f64 = value.parse().map_err(|_| value)?;
        if !is_plain || values.insert(name.to_owned(), value).is_some() {
            return Err(format!("{name}: {value}"));
        }
        if *path.get_or_insert_with(|| label.clone()) != label {
            return Err(label);
        }
    }
    Ok((values, path.ok_or("nothing is there")?))
}

#[test]
fn the_parser_is_strict() {
    let good = "# HELP a_total Help.\n# TYPE a_total counter\na_total{path=\"/a\\\"\\\\\\n\"} 1\n";
    assert_eq!(parse(good).unwrap().1, "/a\"\\\n");
    let broken = [
        (" counter", " gauge"),
        ("# HELP a_total Help.\n", ""),
        ("\\n", "\\t"),
        ("\\\\", "\\q"),
        ("} 1", "} x"),
        ("} 1", "}  1"),
        ("} 1\n", "} 1"),
        ("} 1\n", "} 1\n\n"),
        ("path", "Path"),
    ];
    for (from, to) in broken {
        assert!(parse(&good.replace(from, to)).is_err(), "{from} to {to}");
    }
}

struct File(PathBuf);

impl File {
    /// In a folder of its own, where nothing else may be left.
    fn new(scene: &Scene) -> Self {
        let folder = scene.folder.join("metrics");
        fs::create_dir_all(&folder).unwrap();
        Self(folder.join("job.prom"))
    }

    fn values(&self) -> BTreeMap<String, f64> {
        let text = fs::read_to_string(&self.0).unwrap();
        parse(&text).unwrap_or_else(|wrong| panic!("{wrong}: {text}")).0
    }

    /// The values in the order of `NAMES`, `None` where it is not there.
    fn all(&self) -> [Option<f64>; 7] {
        let values = self.values();
        assert!(values.keys().all(|name| NAMES.contains(&name.as_str())), "{values:?}");
        NAMES.map(|name| values.get(name).copied())
    }

    fn is_alone(&self) {
        let folder = fs::read_dir(self.0.parent().unwrap()).unwrap();
        let names: Vec<_> = folder.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["job.prom"], "a temporary file is left");
    }

    fn option(&self) -> String {
        format!("--metrics-file={}", self.0.display())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn start_acquisition_loss_and_end_are_in_the_file() {
    let (scene, mut life, gate) = Scene::staged().await;
    let file = File::new(&scene);
    let option = file.option();
    // It waits.
    let holder = scene.holder("host-a").await;
    let waiting = scene.run_with([&option], GOES_ON).start();
    scene.children_are(2).await;
    let [run, success, code, wait, held, hold, losses] = file.all();
    assert!(run.is_some_and(|run| run > 1_700_000_000.0));
    assert_eq!((success, code, wait, hold), (None, None, None, None));
    assert_eq!((held, losses), (Some(0.0), Some(0.0)));
    // It holds.
    holder.release().await;
    life.says("up").await;
    eventually("the acquisition is written", async || file.all()[4] == Some(1.0)).await;
    let [_, _, code, wait, ..] = file.all();
    assert!(code.is_none() && wait.is_some_and(|wait| wait > 0.0));
    // It ends.
    gate.open().await;
    waiting.ended().await.quietly(6);
    let [_, success, code, _, held, hold, losses] = file.all();
    assert_eq!((success, code, held, losses), (None, Some(6.0), Some(0.0), Some(0.0)));
    assert!(hold.is_some_and(|hold| hold > 0.0));
    // A second one loses it.
    let mut life = scene.lifeline();
    let running =
        life.up(scene.run_with([&option, "--on-lost=warn"], STAYS).env("LIFE", &life.path)).await;
    eventually("the acquisition is written", async || file.all()[4] == Some(1.0)).await;
    assert_eq!(file.all()[2], Some(6.0), "that of the run before");
    scene.taken().await;
    eventually("the loss is written", async || file.all()[6] == Some(1.0)).await;
    assert_eq!(file.all()[4], Some(0.0));
    running.ended_by(Signal::SIGTERM).await.one_line(76, &["goes on"]);
    assert_eq!((file.all()[2], file.all()[6]), (Some(76.0), Some(1.0)), "counted once");
    // And the next one succeeds.
    scene.run_with([&option], "true").ended().await.quietly(0);
    let [run, success, code, _, held, _, losses] = file.all();
    assert!(success >= run && success.is_some());
    assert_eq!((code, held, losses), (Some(0.0), Some(0.0), Some(1.0)));
    file.is_alone();
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loss_that_ends_the_command_counts_once() {
    let (scene, mut life, _) = Scene::staged().await;
    let file = File::new(&scene);
    let running = life.up(scene.run_with([file.option()], STAYS)).await;
    eventually("the acquisition is written", async || file.all()[4] == Some(1.0)).await;
    let waited = file.all()[3];
    scene.taken().await;
    running.ended().await.one_line(76, &["lost "]);
    assert_eq!((file.all()[2], file.all()[6]), (Some(76.0), Some(1.0)));
    assert_eq!(file.all()[3], waited, "it waits no more");
    scene.end().await;
}

/// Busy, and wrong in a way that is found out after the command line.
#[tokio::test(flavor = "multi_thread")]
async fn runs_without_the_lock_have_an_exit_code_and_no_hold() {
    let scene = Scene::new().await;
    let holder = scene.holder("host-a").await;
    let file = File::new(&scene);
    scene.run_with([&*file.option(), "-n", "-q"], "true").ended().await.quietly(75);
    let [_, success, code, wait, held, hold, _] = file.all();
    assert_eq!((success, code, held, hold), (None, Some(75.0), Some(0.0), None));
    assert!(wait.is_some());
    let wrong = scene.run_with([&*file.option(), "--config", "not-there"], "true");
    wrong.ended().await.one_line(64, &["not-there"]);
    assert_eq!(file.all()[2], Some(64.0));
    holder.release().await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_paths_are_escaped() {
    let scene = Scene::new().await;
    let file = File::new(&scene);
    let paths = [r#"a"b\c"#, r#"d\n"#].map(|name| format!("{}/{name}", scene.path));
    let tool = scene.zklock(["run", &paths[0], &paths[1], &file.option(), "--", "true"]);
    tool.ended().await.quietly(0);
    let text = fs::read_to_string(&file.0).unwrap();
    assert_eq!(parse(&text).unwrap().1, paths.join(", "), "{text}");
    scene.zklock(["run", "a\nb", &file.option(), "--", "true"]).ended().await.one_line(64, &[]);
    let text = fs::read_to_string(&file.0).unwrap();
    assert_eq!(parse(&text).unwrap().1, "a\nb", "{text}");
    scene.end().await;
}

/// One warning, and the command's own exit code.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_cannot_be_written_later_does_not_touch_the_command() {
    let (scene, mut life, gate) = Scene::staged().await;
    let file = File::new(&scene);
    let running = life.up(scene.run_with([file.option()], GOES_ON)).await;
    eventually("the acquisition is written", async || file.all()[4] == Some(1.0)).await;
    fs::remove_dir_all(file.0.parent().unwrap()).unwrap();
    scene.taken().await;
    let ended = running.ended().await.with(76);
    let warnings = ended.stderr.lines().filter(|line| line.contains("--metrics-file"));
    assert_eq!(warnings.count(), 1, "{ended}");
    assert_eq!(ended.stderr.lines().count(), 2, "{ended}");
    drop(gate);
    scene.end().await;
}

/// A reader never sees a part of the file, or no file.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_always_finds_a_whole_file() {
    const RUNS: usize = 10;
    let scene = Scene::new().await;
    let file = File::new(&scene);
    scene.run_with([file.option()], "true").ended().await.quietly(0);
    let path = file.0.clone();
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let reading = std::thread::spawn(move || {
        let mut texts = BTreeSet::new();
        while !stopped.is_cancelled() {
            let text = fs::read_to_string(&path).unwrap();
            parse(&text).unwrap_or_else(|wrong| panic!("{wrong}: {text}"));
            texts.insert(text);
        }
        texts.len()
    });
    for _ in 0..RUNS {
        scene.run_with([file.option()], "true").ended().await.quietly(0);
    }
    stop.cancel();
    let versions = reading.join().unwrap();
    assert!(versions > RUNS, "only {versions} versions were read");
    file.is_alone();
    scene.end().await;
}

/// As on a network disk whose server does not answer: a read of the pipe has no end.
#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_hangs_keeps_neither_signals_nor_the_end() {
    let (scene, mut life, gate) = Scene::staged().await;
    let file = File::new(&scene);
    let tool = scene.run_with([&*file.option(), "--on-lost=warn"], GOES_ON);
    let mut running = life.up(tool).await;
    eventually("the acquisition is written", async || file.all()[4] == Some(1.0)).await;
    fs::remove_file(&file.0).unwrap();
    mkfifo(&file.0, Mode::S_IRWXU).unwrap();
    scene.taken().await;
    running.stderr.says("goes on").await;
    running.signal(Signal::SIGTERM);
    life.says("TERM").await;
    gate.open().await;
    let ended = running.ended().await.with(76);
    let warnings = ended.stderr.lines().filter(|line| line.contains("--metrics-file"));
    assert_eq!(warnings.count(), 1, "{ended}");
    scene.end().await;
}

/// A disk that is full is not wrong usage: the job has to run.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_costs_a_warning() {
    let scene = Scene::new().await;
    let folder = scene.folder.join("full");
    fs::create_dir(&folder).unwrap();
    let script = r#"mount -t tmpfs -o size=4k,nr_inodes=2 none full && : >full/taken
        "$ZKLOCK" run "$LOCK" --metrics-file full/job.prom -- sh -c 'exit 3'"#;
    if !may_mount(&folder) {
        return skipped("this user cannot mount in a namespace");
    }
    let tool = scene.tool("unshare").args(["--mount", "sh", "-c", script]);
    let ended = tool.ended().await;
    ended.one_line(3, &["--metrics-file", "No space left"]);
    scene.end().await;
}

fn may_mount(folder: &Path) -> bool {
    let mut mount = Command::new("unshare");
    mount.args(["--mount", "mount", "-t", "tmpfs", "none"]).arg(folder);
    mount.output().is_ok_and(|output| output.status.success())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_has_them_as_well() {
    let scene = Scene::new().await;
    let file = File::new(&scene);
    let tool = scene.zklock(["elect", &scene.path, &file.option(), "--", "sh", "-c", "exit 4"]);
    tool.ended().await.quietly(4);
    let [_, _, code, wait, held, hold, losses] = file.all();
    assert_eq!((code, held, losses), (Some(4.0), Some(0.0), Some(0.0)));
    assert!(wait.is_some() && hold.is_some());
    // Without a command, a term that is lost is followed by another one.
    let mut leader = scene.zklock(["elect", &scene.path, &file.option()]).start();
    leader.stdout.says("leader").await;
    scene.taken().await;
    eventually("the loss is written", async || file.all()[6] == Some(1.0)).await;
    leader.ended_by(Signal::SIGTERM).await.with(0);
    assert_eq!(file.all()[6], Some(1.0));
    scene.end().await;
}
