//! `zklock ls` and `zklock break`, where the contenders at the path are of several kinds, hide, or change meanwhile.

use nix::sys::signal::Signal;
use serde_json::Value;
use zookeeper_recipes::zookeeper_client::{Acl, Acls, AuthId, CreateMode, Error, Permission};
use zookeeper_recipes_dev::within;
use zookeeper_testkit::Cut;

use crate::support::scene::Scene;
use crate::support::scripts::STAYS;
use crate::support::terminal::Terminal;
use crate::support::tool::ZKLOCK;

const GUID: &str = "_c_01234567-89ab-4def-8123-456789abcdef-";
const ANYTHING: Permission = Permission::ALL;
/// Who may queue may let nobody read its node.
const NOTHING: Permission = Permission::CREATE;

impl Scene {
    /// A contender of somebody else's; its node.
    async fn contender(&self, name: &str, data: &[u8], may: Permission) -> String {
        if self.stat(&self.path).await.is_none() {
            self.create(&self.path, CreateMode::Container).await;
        }
        let acls = [Acl::new(may, AuthId::anyone())];
        let options = CreateMode::PersistentSequential.with_acls(Acls::new(&acls));
        let path = format!("{}/{name}", self.path);
        let (_, sequence) = self.admin.create(&path, data, &options).await.unwrap();
        format!("{path}{sequence}")
    }
}

fn name_of(node: &str) -> &str {
    node.rsplit('/').next().unwrap()
}

/// By default neither sees the other, so both hold.
#[tokio::test(flavor = "multi_thread")]
async fn kazoo_and_curator_have_a_queue_each() {
    let scene = Scene::new().await;
    let ours = scene.contender(&format!("{GUID}lock-"), b"curatorish", ANYTHING).await;
    let guid = "0123456789ab4def8123456789abcdef";
    let theirs = scene.contender(&format!("{guid}__lock__"), b"kazooish", ANYTHING).await;
    let (all, ended) = scene.listed().await;
    let told: Vec<_> =
        all.iter().map(|one| (one["place"].as_u64(), one["state"].as_str())).collect();
    assert_eq!(told, [(Some(1), Some("holds")); 2], "{ended}");
    ended.one_line(0, &["kazoo", "only if they are set up to"]);
    // Neither is passed over.
    let ended = scene.zklock(["break", &scene.path, "--yes"]).ended().await;
    ended.one_line(64, &["held by 2", "--all"]);
    let ended = scene.zklock(["revoke", &scene.path]).ended().await;
    ended.quietly(0);
    for who in ["curatorish", "kazooish"] {
        assert!(ended.text().contains(who), "{ended}");
    }
    scene.admin.delete(&ours, None).await.unwrap();
    scene.admin.delete(&theirs, None).await.unwrap();
    // One kind alone is no news.
    let (all, ended) = scene.listed().await;
    assert_eq!((all.len(), ended.stderr.as_str()), (0, ""));
    scene.end().await;
}

/// What strangers write into their nodes does nothing to our terminal.
#[tokio::test(flavor = "multi_thread")]
async fn what_others_are_called_is_shown_and_not_obeyed() {
    let scene = Scene::new().await;
    let data = b"evil\x1b[2J\x1b]0;title\x07\r\n\xff\xfe";
    scene.contender(&format!("{GUID}lock-"), data, ANYTHING).await;
    for options in [&[][..], &["--json"]] {
        let ended = scene.zklock(["ls", &scene.path]).args(options).ended().await;
        ended.quietly(0);
        let text = ended.text();
        assert!(text.contains("evil"), "{ended}");
        assert!(!text.contains(['\u{1b}', '\u{7}', '\r']), "{ended}");
    }
    let busy = scene.run_with(["-n"], "true").ended().await;
    assert!(!busy.one_line(75, &["evil"]).contains(['\u{1b}', '\u{7}', '\r']), "{busy}");
    scene.taken().await;
    scene.end().await;
}

/// Who waited when it was asked about may hold when the answer comes.
#[tokio::test(flavor = "multi_thread")]
async fn break_asks_and_deletes_nothing_where_a_waiter_holds_meanwhile() {
    let (scene, mut life, _) = Scene::staged().await;
    let holder = scene.holder("host-a").await;
    let waiting = scene.run(STAYS).env("ZKLOCK_ID", "host-b").start();
    scene.children_are(2).await;
    let (all, _) = scene.listed().await;
    let node = all[1]["node"].as_str().unwrap().to_owned();
    let program = [ZKLOCK, "break", &scene.path, "--node", &node];
    let mut terminal = Terminal::start(&scene, &program, &[]);
    terminal.shows("host-b waits for").await;
    terminal.shows("[y/N]").await;
    holder.release().await;
    life.says("up").await;
    terminal.types("y\n");
    let text = terminal.ends(1).await;
    assert!(text.contains("that has changed meanwhile, so nothing was deleted"), "{text:?}");
    assert_eq!(scene.node().await, format!("{}/{node}", scene.path));
    // Nothing but a yes deletes it. Who says that is told what it means.
    let answers = async |keys: &str, code: i32| {
        let mut terminal = Terminal::start(&scene, &program, &[]);
        terminal.shows("[y/N]").await;
        terminal.types(keys);
        terminal.ends(code).await
    };
    for keys in ["\n", "\u{4}"] {
        answers(keys, 1).await;
        assert_eq!(scene.children().await.len(), 1, "{keys:?}");
    }
    let text = answers("y\n", 0).await;
    assert!(text.contains("does not stop the holder") && !text.contains("a waiter"), "{text:?}");
    waiting.ended().await.one_line(76, &["lost "]);
    scene.end().await;
}

/// A node that nobody may read keeps no others from being seen, and can itself be broken.
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_may_not_be_read_is_seen_and_broken() {
    let scene = Scene::new().await;
    let hidden = scene.contender(&format!("{GUID}lock-"), b"secretive", NOTHING).await;
    let other = scene.contender(&format!("{GUID}lock-"), b"host-b", ANYTHING).await;
    let (all, ended) = scene.listed().await;
    let told: Vec<_> = all
        .iter()
        .map(|one| {
            ["identity", "state", "session"].map(|key| one[key].as_str().unwrap_or_default())
        })
        .collect();
    assert_eq!(told[0], ["", "holds", "0x0"], "{ended}");
    assert_eq!(told[1][..2], ["host-b", "waits"], "{ended}");
    // Servers from 3.8.4 and 3.9.2 on hide the token as well.
    match scene.admin.check_stat(&hidden).await {
        Err(Error::NoAuth) => assert!(all[0]["token"].is_null(), "{ended}"),
        stat => assert_eq!(all[0]["token"], stat.unwrap().unwrap().czxid),
    }
    let ended = scene.zklock(["revoke", &scene.path]).ended().await;
    ended.one_line(69, &["no permission", name_of(&hidden)]);
    let ended = scene.zklock(["break", &scene.path, "--yes"]).ended().await.with(0);
    assert!(ended.text().contains(name_of(&hidden)), "{ended}");
    let (all, ended) = scene.listed().await;
    assert_eq!((all.len(), all[0]["state"].as_str()), (1, Some("holds")), "{ended}");
    scene.admin.delete(&other, None).await.unwrap();
    scene.end().await;
}

/// One that cannot be asked, or deleted, does not keep the others from it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-all"]
async fn one_refusal_does_not_end_it_for_the_others() {
    let scene = Scene::new().await;
    let name = format!("{GUID}__READ__");
    let first = scene.contender(&name, b"refuses", NOTHING).await;
    let second = scene.contender(&name, b"obeys", ANYTHING).await;
    let ended = scene.zklock(["revoke", &scene.path]).ended().await;
    ended.one_line(69, &["no permission", name_of(&first)]);
    assert!(ended.text().contains("obeys"), "{ended}");
    assert_eq!(scene.admin.get_data(&second).await.unwrap().0, b"__REVOKE__");
    // What has children is not deleted.
    let third = scene.contender(&name, b"parent", ANYTHING).await;
    let child = format!("{third}/child");
    scene.create(&child, CreateMode::Persistent).await;
    let fourth = scene.contender(&name, b"alone", ANYTHING).await;
    let ended = scene.zklock(["break", &scene.path, "--all", "--yes"]).ended().await.with(69);
    let parts = ["does not stop the holder", "cannot delete", name_of(&third), "children"];
    assert!(parts.iter().all(|part| ended.stderr.contains(part)), "{ended}");
    assert_eq!(ended.text().lines().count(), 3, "{ended}");
    assert!(ended.text().contains(name_of(&fourth)), "{ended}");
    assert_eq!(scene.children().await, [name_of(&third)]);
    scene.admin.delete(&child, None).await.unwrap();
    scene.admin.delete(&third, None).await.unwrap();
    scene.end().await;
}

/// Who does not read what is said keeps nobody from ending it.
#[tokio::test(flavor = "multi_thread")]
async fn who_watches_ends_when_told_also_while_nobody_reads() {
    let scene = Scene::new().await;
    // More than a pipe takes.
    let node = scene.contender(&format!("{GUID}latch-"), &vec![b'a'; 200_000], ANYTHING).await;
    let observing = ["observe", &scene.path, "--json"];
    let watching = ["ls", &scene.path, "--json", "--watch=100ms"];
    for (arguments, signal) in [
        (&observing[..], Signal::SIGTERM),
        (&watching, Signal::SIGTERM),
        (&watching, Signal::SIGINT),
    ] {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let mut tool = scene.zklock(arguments);
        tool.command().stdout(writer);
        let running = tool.start();
        // It has begun to write, and cannot end.
        let begun = tokio::task::spawn_blocking(move || {
            std::io::Read::read_exact(&mut reader, &mut [0]).map(|()| reader)
        });
        let reader = within("its output", begun).await.unwrap().unwrap();
        running.ended_by(signal).await.quietly(0);
        drop(reader);
    }
    scene.admin.delete(&node, None).await.unwrap();
    scene.end().await;
}

/// What passes is shown, and does not end it; nor does it end who has connected again by the time it is known.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-all"]
async fn who_watches_a_lock_goes_on_after_an_outage() {
    let scene = Scene::new().await;
    let link = scene.link().await;
    let node = scene.contender(&format!("{GUID}lock-"), b"host-a", ANYTHING).await;
    let tool = scene.zklock(["ls", &scene.path, "--watch=100ms", "--connection-timeout=5s"]);
    let tool = tool.env("ZKLOCK_SESSION_TIMEOUT", "10s");
    let mut watching = tool.env("ZKLOCK_SERVER", link.connect_string()).start();
    watching.stdout.says("host-a").await;
    let refused = link.refuse();
    link.cut(Cut::Reset);
    watching.stdout.says(&format!("gave up on {}", scene.path)).await;
    let other = scene.contender(&format!("{GUID}lock-"), b"host-b", ANYTHING).await;
    refused.heal();
    watching.stdout.says("host-b").await;
    watching.ended_by(Signal::SIGTERM).await.quietly(0);
    for node in [node, other] {
        scene.admin.delete(&node, None).await.unwrap();
    }
    scene.end().await;
}

/// The object of the leader is that of a listing.
#[tokio::test(flavor = "multi_thread")]
async fn an_identity_that_is_no_text_is_shown_as_far_as_it_is() {
    let scene = Scene::new().await;
    let node = scene.contender(&format!("{GUID}latch-"), b"a\xff", ANYTHING).await;
    let mut observing = scene.zklock(["observe", &scene.path, "--json"]).start();
    let line: Value = serde_json::from_str(&observing.stdout.lines(1).await[0]).unwrap();
    observing.ended_by(Signal::SIGTERM).await.quietly(0);
    let (mut all, _) = scene.listed().await;
    for one in [&line["leader"], &all[0]] {
        assert_eq!(one["identity"], "a\u{fffd}", "{one}");
    }
    // It is the same object, but for what an election has one of.
    let listed = all[0].as_object_mut().unwrap();
    listed.retain(|key, _| !["place", "state", "kind", "queued_seconds"].contains(&key.as_str()));
    let mut leader = line["leader"].clone();
    assert!(
        leader.as_object_mut().unwrap().remove("queued_seconds").is_some_and(|age| age.is_number())
    );
    assert_eq!(leader, all[0]);
    scene.admin.delete(&node, None).await.unwrap();
    scene.end().await;
}

/// What was asked for is not the name of who leads.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-all"]
async fn who_observes_a_leader_that_was_asked_to_go_does_not_take_that_for_its_name() {
    let scene = Scene::new().await;
    let mut leader = scene.zklock(["elect", &scene.path, "--id", "host-a"]).start();
    leader.stdout.says("leader").await;
    let mut before = scene.zklock(["observe", &scene.path, "--json"]).start();
    before.stdout.says("host-a").await;
    let ended = scene.zklock(["revoke", &scene.path]).ended().await;
    assert!(ended.text().contains("asked host-a"), "{ended}");
    let mut text = scene.zklock(["observe", &scene.path]).start();
    let mut json = scene.zklock(["observe", &scene.path, "--json"]).start();
    text.stdout.says("leads (asked to give it back, token ").await;
    let line: Value = serde_json::from_str(&json.stdout.lines(1).await[0]).unwrap();
    let told = ["identity", "revocation_requested"].map(|key| line["leader"][key].clone());
    assert_eq!(told, [Value::Null, Value::Bool(true)], "{line}");
    // Without a command it does not listen, and leads on.
    leader.ended_by(Signal::SIGTERM).await.quietly(0);
    for mut observing in [before, text, json] {
        observing.stdout.says("nobody").await;
        observing.signal(Signal::SIGTERM);
        let ended = observing.ended().await;
        ended.quietly(0);
        assert!(!ended.text().contains("__REVOKE__"), "{ended}");
    }
    scene.end().await;
}
