//! `zklock ls --recursive`.

use serde_json::{Value, json};
use zookeeper_recipes::zookeeper_client::{Acl, Acls, AuthId, CreateMode, Permission};
use zookeeper_recipes_dev::eventually;
use zookeeper_testkit::{Cut, Direction, Message, Operation};

use crate::support::scene::Scene;
use crate::support::tool::Ended;

const GUID: &str = "_c_01234567-89ab-4def-8123-456789abcdef-";
const KAZOO: &str = "0123456789ab4def8123456789abcdef";
const RECURSIVE: [&str; 2] = ["ls", "-r"];

/// A tree of znodes below the scene's path, which is its root.
struct Tree {
    scene: Scene,
}

impl Tree {
    async fn new() -> Self {
        let scene = Scene::new().await;
        scene.create(&scene.path, CreateMode::Container).await;
        Self { scene }
    }

    /// A znode at `name` with the folders above it; its path.
    async fn add(&self, name: &str, mode: CreateMode, may: Permission) -> String {
        let path = format!("{}/{name}", self.scene.path);
        for (at, _) in path.match_indices('/').skip(2) {
            let folder = CreateMode::Container.with_acls(Acls::anyone_all());
            let _ = self.scene.admin.create(&path[..at], b"", &folder).await;
        }
        let acls = [Acl::new(may, AuthId::anyone())];
        let options = mode.with_acls(Acls::new(&acls));
        let (_, sequence) = self.scene.admin.create(&path, b"host-a", &options).await.unwrap();
        if sequence.into_i64() < 0 { path } else { format!("{path}{sequence}") }
    }

    /// A contender with this kind of name at `name`.
    async fn contender(&self, name: &str, kind: &str) -> String {
        let guid = if kind.starts_with("__lock") { KAZOO } else { GUID };
        let name = format!("{name}/{guid}{kind}");
        self.add(&name, CreateMode::EphemeralSequential, Permission::ALL).await
    }

    async fn lists(&self, options: &[&str]) -> Ended {
        self.scene.zklock(RECURSIVE).arg(&self.scene.path).args(options).ended().await
    }

    /// The objects of `--json`.
    async fn listed(&self, options: &[&str]) -> Vec<Value> {
        let ended = self.lists(&[&["--json"], options].concat()).await;
        ended.quietly(0);
        serde_json::from_slice(&ended.stdout).unwrap()
    }

    /// What `--json` says, in short: the path below the root, kind, holders, waiters.
    async fn told(&self, options: &[&str]) -> Vec<String> {
        let all = self.listed(options).await;
        let short = |one: &Value| {
            let path = one["path"].as_str().unwrap();
            let path = path.strip_prefix(&self.scene.path).unwrap();
            let what = one["kind"].as_str().or(one["error"].as_str()).unwrap();
            format!("{path} {what} {} {}", one["holders"], one["waiters"])
        };
        all.iter().map(short).collect()
    }

    async fn end(self) {
        let mut paths = vec![self.scene.path.clone()];
        let mut all = Vec::new();
        while let Some(path) = paths.pop() {
            let children = self.scene.admin.list_children(&path).await.unwrap_or_default();
            paths.extend(children.into_iter().map(|child| format!("{path}/{child}")));
            all.push(path);
        }
        for path in all.iter().rev() {
            let _ = self.scene.admin.delete(path, None).await;
        }
        self.scene.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_recipe_below_a_path_is_a_line() {
    let tree = Tree::new().await;
    for (path, kinds) in [
        ("jobs/nightly", &["lock-", "lock-"][..]),
        // A lock may have locks below it.
        ("jobs/nightly/part", &["lock-"]),
        ("data", &["__READ__", "__READ__", "__WRIT__"]),
        ("election", &["latch-", "latch-", "latch-"]),
        ("python", &["__lock__", "__lock__"]),
        ("two", &["latch-", "lock-"]),
        ("limit/leases", &["lease-", "lease-"]),
        ("limit/locks", &["lock-"]),
        ("places/leases", &["lease-"]),
        ("places/locks", &[]),
        ("places/slots/0", &["lock-"]),
        // These names make no semaphore without a lease.
        ("app/locks/a", &["lock-"]),
        ("app/leases/b", &["lock-"]),
        // Words that look like a contender's name.
        ("release-0000000001/a", &["lock-"]),
        ("idle/locks", &[]),
        ("idle/leases", &[]),
    ] {
        tree.add(path, CreateMode::Container, Permission::ALL).await;
        for kind in kinds {
            tree.contender(path, kind).await;
        }
    }
    for member in ["alone", "members/a", "members/b", "members/n_0000000007"] {
        tree.add(member, CreateMode::Ephemeral, Permission::ALL).await;
    }
    tree.add("queue/item-", CreateMode::PersistentSequential, Permission::ALL).await;
    let all = [
        " group 1 0",
        "/app/leases/b mutex 1 0",
        "/app/locks/a mutex 1 0",
        "/data read-write 2 1",
        "/election leader 1 2",
        "/jobs/nightly mutex 1 1",
        "/jobs/nightly/part mutex 1 0",
        "/limit semaphore 2 1",
        "/members group 3 0",
        "/places slots 1 0",
        "/python kazoo-lock 1 1",
        "/release-0000000001/a mutex 1 0",
        "/two leader 1 0",
        "/two mutex 1 0",
    ];
    assert_eq!(tree.told(&[]).await, all);
    let waited_for: Vec<_> = all.into_iter().filter(|line| !line.ends_with('0')).collect();
    assert_eq!(tree.told(&["--waiting"]).await, waited_for);
    let tool = tree.scene.zklock([RECURSIVE[0], RECURSIVE[1], "/", "--json"]);
    let ended = tool.env("ZKLOCK_NAMESPACE", &tree.scene.path).ended().await;
    ended.quietly(0);
    let from_root: Vec<Value> = serde_json::from_slice(&ended.stdout).unwrap();
    let paths: Vec<_> = from_root.iter().map(|one| one["path"].as_str().unwrap()).collect();
    let expected = all.iter().map(|line| line.split(' ').next().unwrap());
    let expected: Vec<_> = expected.map(|path| if path.is_empty() { "/" } else { path }).collect();
    assert_eq!(paths, expected);
    tree.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn times_are_of_the_oldest_and_sort_the_lines() {
    let tree = Tree::new().await;
    let mut holds = Vec::new();
    let mut waits = Vec::new();
    for name in ["c", "a", "b"] {
        let holder = tree.contender(name, "lock-").await;
        holds.push((tree.scene.stat(&holder).await.unwrap().ctime, name));
    }
    for name in ["b", "c"] {
        let waiter = tree.contender(name, "lock-").await;
        waits.push((tree.scene.stat(&waiter).await.unwrap().ctime, name));
        tree.contender(name, "lock-").await;
    }
    // Two may come in one millisecond.
    holds.sort_unstable();
    waits.sort_unstable();
    waits.push((0, "a")); // nobody waits
    for (sort, expected) in [("age", holds), ("wait", waits)] {
        let all = tree.listed(&["--sort", sort]).await;
        let names: Vec<_> = all
            .iter()
            .map(|one| &one["path"].as_str().unwrap()[tree.scene.path.len() + 1..])
            .collect();
        let expected: Vec<_> = expected.iter().map(|(_, name)| *name).collect();
        assert_eq!(names, expected, "{sort}");
    }
    let all = tree.listed(&[]).await;
    let keys: Vec<_> = all[0].as_object().unwrap().keys().map(String::as_str).collect();
    for key in [
        "path",
        "kind",
        "holders",
        "waiters",
        "longest_wait_seconds",
        "oldest_hold_seconds",
        "error",
    ] {
        assert!(keys.contains(&key), "{keys:?}");
    }
    assert_eq!((&all[0]["longest_wait_seconds"], &all[0]["error"]), (&Value::Null, &Value::Null));
    assert!(all[1]["longest_wait_seconds"].is_u64() && all[1]["oldest_hold_seconds"].is_u64());
    let ended = tree.lists(&[]).await;
    ended.quietly(0);
    let text = ended.text();
    let rows: Vec<Vec<_>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["PATH", "KIND", "HOLDERS", "WAITERS", "WAIT", "AGE"]);
    assert_eq!(rows[1][..5], [&*format!("{}/a", tree.scene.path), "mutex", "1", "0", "-"]);
    assert_eq!(rows.len(), 4);
    tree.end().await;
}

/// A path without permission is a line, and the others are listed. The first one must be readable.
#[tokio::test(flavor = "multi_thread")]
async fn a_path_without_permission_is_a_line() {
    let tree = Tree::new().await;
    let hidden = tree.add("b/secret", CreateMode::Persistent, Permission::CREATE).await;
    tree.contender("b/open", "lock-").await;
    tree.contender("limit/leases", "lease-").await;
    tree.add("limit/locks", CreateMode::Persistent, Permission::CREATE).await;
    tree.contender("limit/below", "lock-").await;
    let all = [
        "/b/open mutex 1 0",
        "/b/secret no permission 0 0",
        "/limit no permission 0 0",
        "/limit/below mutex 1 0",
    ];
    assert_eq!(tree.told(&[]).await, all);
    // It is not known that nobody waits there.
    assert_eq!(tree.told(&["--waiting"]).await, all[1..3]);
    let ended = tree.lists(&[]).await;
    ended.quietly(0);
    let text = ended.text();
    let line = text.lines().find(|line| line.contains("/b/secret ")).unwrap();
    assert!(line.contains("  no permission  -  "), "{ended}");
    let ended = tree.scene.zklock(RECURSIVE).arg(&hidden).ended().await;
    ended.one_line(69, &["no permission", &hidden, "--auth-file"]);
    tree.end().await;
}

/// In place of an empty table.
#[tokio::test(flavor = "multi_thread")]
async fn a_folder_of_locks_is_told_as_one() {
    let tree = Tree::new().await;
    let path = tree.scene.path.clone();
    let ls = |options: &[&str]| tree.scene.zklock(["ls", &path]).args(options).ended();
    // A path without contenders has a table without rows.
    let unused = ls(&[]).await;
    unused.quietly(0);
    assert!(unused.text().starts_with("PLACE"), "{unused}");
    tree.lists(&[]).await.one_line(0, &["nobody holds or waits", &path]);
    tree.lists(&["--waiting"]).await.one_line(0, &["nobody waits", &path]);
    tree.contender("a", "lock-").await;
    tree.contender("b", "lock-").await;
    let ended = ls(&[]).await;
    ended.one_line(0, &[&path, "is a folder", &format!("zklock ls -r {path}")]);
    assert_eq!(ended.text(), "");
    let ended = ls(&["--json"]).await;
    ended.one_line(0, &[&path, "is a folder"]);
    assert_eq!(ended.text(), "[]\n");
    // The parts of a recipe are no locks.
    for name in ["c/runs", "c/done", "c/locks", "c/leases"] {
        tree.add(name, CreateMode::Container, Permission::ALL).await;
    }
    let ended = tree.scene.zklock(["ls", &format!("{path}/c")]).ended().await;
    ended.quietly(0);
    for options in [&["--watch"][..], &["--expect=1"]] {
        tree.lists(options).await.one_line(64, &["--recursive", "cannot be used with"]);
    }
    ls(&["--waiting"]).await.one_line(64, &["--recursive"]);
    tree.end().await;
}

/// Requests are in flight together, so 2,000 paths at a distance of 20 ms take no minutes; and not too many of them.
#[tokio::test(flavor = "multi_thread")]
async fn many_paths_are_looked_at_together() {
    const PATHS: usize = 2_000;
    let tree = Tree::new().await;
    let names: Vec<_> =
        (0..PATHS).map(|number| format!("{}/{number:04}", tree.scene.path)).collect();
    let acls = Acls::anyone_all();
    let folder = CreateMode::Container.with_acls(acls);
    let contender = CreateMode::EphemeralSequential.with_acls(acls);
    let admin = &tree.scene.admin;
    let folders = names.iter().map(|path| admin.create(path, b"", &folder));
    futures_util::future::try_join_all(folders).await.unwrap();
    let nodes: Vec<_> = names.iter().map(|path| format!("{path}/{GUID}lock-")).collect();
    let nodes = nodes.iter().map(|node| admin.create(node, b"host-a", &contender));
    futures_util::future::try_join_all(nodes).await.unwrap();
    let link = tree.scene.link().await;
    let delay = link.delay(Direction::ToClient, std::time::Duration::from_millis(20));
    // The root's own two.
    let held = link.hold(Message::reply(Operation::List).nth(3));
    let tool = tree.scene.zklock(RECURSIVE).arg(&tree.scene.path).arg("--json");
    let running = tool.env("ZKLOCK_SERVER", link.connect_string()).start();
    eventually("a batch of lists", async || link.replies(Operation::List) == 2 + 64).await;
    assert_eq!(link.requests(Operation::List), 2 + 64);
    held.heal();
    let ended = running.ended().await;
    ended.quietly(0);
    let all: Vec<Value> = serde_json::from_slice(&ended.stdout).unwrap();
    let paths: Vec<_> = all.iter().map(|one| one["path"].as_str().unwrap()).collect();
    assert_eq!(paths, names);
    assert!(all.iter().all(|one| one["holders"] == json!(1)));
    drop(delay);
    tree.end().await;
}

/// A path that is deleted between the list of its parent and its own is left out, and a cut connection costs nothing.
#[tokio::test(flavor = "multi_thread")]
async fn deletions_and_a_reconnection_on_the_way_are_survived() {
    let tree = Tree::new().await;
    for name in ["a", "b"] {
        tree.contender(name, "lock-").await;
    }
    let gone = tree.add("gone", CreateMode::Persistent, Permission::ALL).await;
    let link = tree.scene.link().await;
    let held = link.hold(Message::reply(Operation::List).nth(2));
    let tool = tree.scene.zklock(RECURSIVE).arg(&tree.scene.path).arg("--json");
    let running = tool.env("ZKLOCK_SERVER", link.connect_string()).start();
    held.struck().await;
    tree.scene.admin.delete(&gone, None).await.unwrap();
    // The next one is that of a child.
    let cut = link.cut_at(Message::request(Operation::List), Cut::Reset);
    held.heal();
    let ended = running.ended().await;
    ended.quietly(0);
    assert_eq!(cut.strikes(), 1);
    let all: Vec<Value> = serde_json::from_slice(&ended.stdout).unwrap();
    let paths: Vec<_> = all.iter().map(|one| one["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["a", "b"].map(|name| format!("{}/{name}", tree.scene.path)));
    tree.end().await;
}
