//! `zklock elect` and `zklock observe`.

use std::fs::File;

use nix::sys::signal::Signal;
use serde_json::Value;
use zookeeper_testkit::Cut;

use crate::support::lifeline::Lifeline;
use crate::support::scene::Scene;
use crate::support::scripts::STUBBORN;
use crate::support::tool::{Running, Tool};

/// Says that it leads, until it is ended.
const LEADS: &str = r#"exec 9>"$LIFE"; trap 'echo TERM >&9; exit 7' TERM
    echo up $ZK_LOCK_TOKEN >&9; while :; do sleep 1000 & wait; done"#;

fn elect(scene: &Scene, options: &[&str], script: &str) -> Tool {
    let tool = scene.zklock(["elect", &scene.path]).args(options);
    tool.args(["--", "sh", "-c", script])
}

async fn leads(life: &mut Lifeline) -> i64 {
    let (line, _) = life.line().await;
    // For the command of the next term.
    life.renew();
    let token = line.strip_prefix("up ").and_then(|token| token.parse().ok());
    token.unwrap_or_else(|| panic!("{line}"))
}

async fn ends(running: Running, life: &mut Lifeline) {
    running.signal(Signal::SIGTERM);
    life.says("TERM").await;
    life.end().await;
    running.ended().await.quietly(7);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_kills_the_leader_has_the_next_one_lead() {
    let scene = Scene::new().await;
    let (mut one, mut other) = (scene.lifeline(), scene.lifeline());
    let tool = elect(&scene, &[], LEADS).env("LIFE", &one.path);
    let first = tool.env("ZKLOCK_SESSION_TIMEOUT", "6s").start();
    leads(&mut one).await;
    let second = elect(&scene, &[], LEADS).env("LIFE", &other.path).start();
    scene.children_are(2).await;
    first.signal(Signal::SIGKILL);
    let (_, dead) = one.end().await;
    let (line, leads) = other.line().await;
    assert!(line.starts_with("up ") && leads > dead, "{line}");
    ends(second, &mut other).await;
    first.ended().await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_loses_the_leadership_ends_the_command_and_stands_again() {
    let (scene, mut life, _) = Scene::staged().await;
    let mut running = elect(&scene, &[], LEADS).start();
    let mut last = 0;
    for round in 1..=3 {
        let token = leads(&mut life).await;
        assert!(token > last);
        last = token;
        if round == 3 {
            break;
        }
        scene.taken().await;
        life.says("TERM").await;
        life.end().await;
        let said = running.stderr.lines(round).await;
        assert!(said[round - 1].starts_with(&format!("zklock: lost {}: ", scene.path)), "{said:?}");
    }
    running.signal(Signal::SIGTERM);
    life.says("TERM").await;
    let ended = running.ended().await.with(7);
    assert_eq!(ended.stderr.lines().count(), 2, "{ended}");
    scene.end().await;
}

/// The command hears of it, and lives until the loss ends it.
#[tokio::test(flavor = "multi_thread")]
async fn who_is_told_to_end_does_not_stand_again_after_a_loss() {
    const STAYS_ON: &str = r#"exec 9>"$LIFE"; trap 'echo TERM >&9' TERM
        echo up >&9; while :; do sleep 1000 & wait; done"#;
    let scene = Scene::new().await;
    for is_told_first in [true, false] {
        let mut life = scene.lifeline();
        let running = life.up(elect(&scene, &["--kill-after=2s"], STAYS_ON)).await;
        if is_told_first {
            running.signal(Signal::SIGTERM);
            life.says("TERM").await;
        }
        scene.taken().await;
        life.says("TERM").await;
        if !is_told_first {
            running.signal(Signal::SIGTERM);
        }
        running.ended().await.one_line(76, &["lost ", &scene.path]);
        life.end().await;
    }
    scene.end().await;
}

/// The command ends before the lease does, so the leadership lasts a little longer, and no command is started in the rest of it.
#[tokio::test(flavor = "multi_thread")]
async fn an_outage_that_ends_the_command_is_one_loss() {
    let scene = Scene::new().await;
    let link = scene.link().await;
    let file = scene.folder.join("job.prom");
    let mut life = scene.lifeline();
    let tool = elect(&scene, &["--metrics-file", &file.display().to_string()], LEADS);
    let tool = tool.env("LIFE", &life.path).env("ZKLOCK_SERVER", link.connect_string());
    let running = tool.env("ZKLOCK_SESSION_TIMEOUT", "6s").start();
    leads(&mut life).await;
    let refused = link.refuse();
    assert_eq!(link.cut(Cut::Reset), 1);
    life.end().await;
    scene.children_are(0).await;
    refused.heal();
    leads(&mut life).await;
    running.signal(Signal::SIGTERM);
    life.says("TERM").await;
    running.ended().await.one_line(7, &["no answer from ", &scene.path]);
    let metrics = std::fs::read_to_string(file).unwrap();
    assert_eq!(
        metrics.matches(&format!("_losses_total{{path=\"{}\"}} 1\n", scene.path)).count(),
        1,
        "{metrics}"
    );
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-all"]
async fn with_once_a_lost_leadership_is_76() {
    let scene = Scene::new().await;
    for on_lost in ["term", "kill"] {
        let mut life = scene.lifeline();
        let options = ["--once", "--on-lost", on_lost, "--kill-after", "200ms"];
        let running = life.up(elect(&scene, &options, STUBBORN)).await;
        scene.taken().await;
        life.end().await;
        running.ended().await.one_line(76, &["lost ", &scene.path]);
        scene.children_are(0).await;
    }
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_command_once_and_another_recipe_end_it_as_with_one() {
    let scene = Scene::new().await;
    let mut one = scene.zklock(["elect", &scene.path, "--once"]).start();
    one.stdout.says("leader").await;
    scene.taken().await;
    one.ended().await.one_line(76, &["lost ", &scene.path]);
    let curator = scene.curator().await;
    let permit = curator.semaphore(&scene.path, 1).unwrap().acquire().await.unwrap();
    let beside = scene.zklock(["elect", &scene.path]).ended().await;
    assert!(beside.one_line(64, &[&scene.path]).contains("semaphore"), "{beside}");
    assert!(!beside.text().contains("leader"), "{beside}");
    permit.release().await.unwrap();
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_command_it_says_who_we_are() {
    let scene = Scene::new().await;
    let mut one = scene.zklock(["elect", &scene.path]).start();
    one.stdout.says("leader").await;
    scene.children_are(1).await;
    let mut other = scene.zklock(["elect", &scene.path, "--id", "host-b"]).start();
    other.stdout.says("follower\n").await;
    scene.children_are(2).await;
    one.signal(Signal::SIGTERM);
    let ended = one.ended().await;
    ended.quietly(0);
    assert!(ended.text().lines().last().unwrap().starts_with("leader"), "{ended}");
    other.stdout.says("leader").await;
    // Lost, and led again.
    scene.taken().await;
    let said = other.stdout.lines(4).await;
    let words: Vec<&str> = said.iter().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(words, ["follower", "leader", "follower", "leader"]);
    other.ended_by(Signal::SIGINT).await.quietly(0);
    assert_eq!(scene.children().await, Vec::<String>::new());
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_to_a_standby_says_what_it_waited_for() {
    let scene = Scene::new().await;
    let mut life = scene.lifeline();
    let tool = elect(&scene, &["--id", "host-a"], LEADS).env("LIFE", &life.path);
    let leader = tool.start();
    leads(&mut life).await;
    let standby = elect(&scene, &[], LEADS).start();
    scene.children_are(2).await;
    let said = format!("of waiting for {}", scene.path);
    let ended = standby.ended_by(Signal::SIGTERM).await;
    ended.one_line(143, &["ended by SIGTERM after ", &said]);
    ends(leader, &mut life).await;
    scene.end().await;
}

/// That `--id` is the identity is in `exit_codes`.
#[tokio::test(flavor = "multi_thread")]
async fn without_an_id_it_says_where_it_is_and_which_process() {
    let scene = Scene::new().await;
    let mut running = scene.zklock(["elect", &scene.path]).start();
    running.stdout.says("leader").await;
    let (data, _) = scene.admin.get_data(&scene.node().await).await.unwrap();
    let id = String::from_utf8(data).unwrap();
    assert!(id.ends_with(&format!(":{}", running.id)), "{id}");
    running.ended_by(Signal::SIGTERM).await.quietly(0);
    scene.end().await;
}

fn parsed(lines: &[String]) -> Vec<Value> {
    lines
        .iter()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}")))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_observes_is_told_of_each_change() {
    let scene = Scene::new().await;
    let mut text = scene.zklock(["observe", &scene.path]).start();
    let mut json = scene.zklock(["observe", &scene.path, "--json"]).start();
    text.stdout.says("nobody").await;
    let lines = parsed(&json.stdout.lines(1).await);
    assert!(lines[0]["leader"].is_null(), "{lines:?}");
    let mut life = scene.lifeline();
    let tool = elect(&scene, &[], LEADS).env("LIFE", &life.path).env("ZKLOCK_ID", "host-a");
    let running = tool.start();
    let token = leads(&mut life).await;
    text.stdout.says("host-a").await;
    let lines = parsed(&json.stdout.lines(2).await);
    assert_eq!(lines[1]["leader"]["identity"], "host-a", "{lines:?}");
    assert_eq!(lines[1]["leader"]["token"], token, "{lines:?}");
    ends(running, &mut life).await;
    let lines = parsed(&json.stdout.lines(3).await);
    assert!(lines[2]["leader"].is_null(), "{lines:?}");
    assert_eq!(text.stdout.lines(3).await.len(), 3);
    text.ended_by(Signal::SIGINT).await.quietly(0);
    json.ended_by(Signal::SIGTERM).await.quietly(0);
    scene.end().await;
}

/// It claims nothing of what it cannot see.
#[tokio::test(flavor = "multi_thread")]
async fn who_observes_without_a_connection_says_so() {
    let scene = Scene::new().await;
    let link = scene.link().await;
    let mut leader = scene.zklock(["elect", &scene.path, "--id", "host-a"]).start();
    leader.stdout.says("leader").await;
    let tool = scene.zklock(["observe", &scene.path, "--json"]);
    let mut observing = tool.env("ZKLOCK_SERVER", link.connect_string()).start();
    observing.stdout.says("host-a").await;
    let refused = link.refuse();
    link.cut(Cut::Reset);
    let lines = parsed(&observing.stdout.lines(2).await);
    assert!(lines[1]["leader"].is_null() && lines[1]["state"] != "nobody", "{lines:?}");
    refused.heal();
    let lines = parsed(&observing.stdout.lines(3).await);
    assert_eq!(lines[2]["leader"]["identity"], "host-a", "{lines:?}");
    for running in [observing, leader] {
        running.ended_by(Signal::SIGTERM).await.quietly(0);
    }
    scene.end().await;
}

/// A command that reports until it is ended: by a signal, by a reader that has ended (`| head -1`), also if there is nothing more
/// to write, and by a stdout that cannot be written.
#[tokio::test(flavor = "multi_thread")]
async fn who_only_tells_ends_with_0_unless_it_cannot_write() {
    let scene = Scene::new().await;
    for (command, word) in [
        ("observe", "nobody"),
        ("observe --json", "nobody"),
        ("elect", "leader"),
        ("ls --watch=100ms", "PLACE"),
    ] {
        let tool = || scene.zklock(command.split(' ')).arg(&scene.path);
        for signal in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM, Signal::SIGUSR1] {
            let mut running = tool().start();
            running.stdout.says(word).await;
            running.ended_by(signal).await.quietly(0);
            assert_eq!(scene.children().await, Vec::<String>::new());
        }
        let script =
            format!(r#""$ZKLOCK" {command} "$LOCK" | grep -m 1 {word}; echo "${{PIPESTATUS[*]}}""#);
        let ended = scene.tool("bash").args(["-c", &script]).ended().await;
        ended.quietly(0);
        assert_eq!(ended.text().lines().last(), Some("0 0"), "{ended}");
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut tool = tool();
        tool.command().stdout(full);
        tool.ended().await.one_line(70, &["cannot write to stdout"]);
        assert_eq!(scene.children().await, Vec::<String>::new());
    }
    scene.end().await;
}

/// Curator's selectors have the names of its mutex, and so has one of ours.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-all"]
async fn an_election_of_selectors_is_observed_too() {
    let scene = Scene::new().await;
    let mut observing = scene.zklock(["observe", &scene.path, "--json"]).start();
    observing.stdout.lines(1).await;
    let holder = scene.holder("host-a").await;
    let lines = parsed(&observing.stdout.lines(2).await);
    assert_eq!(lines[1]["leader"]["identity"], "host-a", "{lines:?}");
    holder.release().await;
    let lines = parsed(&observing.stdout.lines(3).await);
    assert!(lines[2]["leader"].is_null(), "{lines:?}");
    observing.ended_by(Signal::SIGTERM).await.quietly(0);
    assert_eq!(scene.children().await, Vec::<String>::new());
    scene.end().await;
}
