//! The server, the lock path and the folder of a test, and the check that nothing is left there at the end.

use std::ffi::OsStr;
use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use nix::sys::signal::Signal;
use tokio::task::JoinHandle;
use zookeeper_recipes::zookeeper_client::{Client, EventType};
use zookeeper_recipes::{Curator, Guard, Released};
pub(crate) use zookeeper_recipes_dev::skipped;
use zookeeper_recipes_dev::{Admin, Servers, Testbed, children, eventually, within};
use zookeeper_testkit::{FaultProxy, TestServer};

use crate::support::lifeline::{Gate, Lifeline};
use crate::support::processes::{Process, send};
use crate::support::tool::{Tool, ZKLOCK};

/// What the processes of a test are known by.
const MARK: &str = "STARTED_BY";

pub(crate) struct Scene {
    testbed: Testbed,
    /// The testbed's.
    pub(crate) admin: Client,
    pub(crate) folder: PathBuf,
}

/// Somebody of this process who has the lock.
pub(crate) struct Holder {
    pub(crate) curator: Curator,
    pub(crate) guard: Guard,
}

impl Deref for Scene {
    type Target = Testbed;

    fn deref(&self) -> &Testbed {
        &self.testbed
    }
}

impl Scene {
    pub(crate) async fn new() -> Self {
        Self::at(Testbed::real().await)
    }

    /// With what the commands find as `$LIFE` and `$GATE`.
    pub(crate) async fn staged() -> (Self, Lifeline, Gate) {
        let scene = Self::new().await;
        let life = Lifeline::new(&scene.folder.join("life"));
        let gate = Gate::new(&scene.folder.join("gate"));
        (scene, life, gate)
    }

    /// On a server of its own; if that has TLS, we ourselves reach it without.
    pub(crate) async fn on(server: TestServer) -> Self {
        Self::at(Testbed::on(Servers::One(Arc::new(server))).await)
    }

    fn at(testbed: Testbed) -> Self {
        let name = testbed.path.trim_start_matches('/');
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("zklock").join(name);
        fs::create_dir_all(folder.join("home")).unwrap();
        let admin = testbed.admin.client().clone();
        Self { testbed, admin, folder }
    }

    fn unique(&self, what: &str) -> PathBuf {
        self.folder.join(format!("{what}-{:x}", fastrand::u64(..)))
    }

    /// `zklock` with these arguments, at the test's server.
    pub(crate) fn zklock(&self, all: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Tool {
        self.tool(ZKLOCK).args(all)
    }

    /// Another program, with the environment that `zklock` gets; `$ZKLOCK` names it, `$LOCK` the path.
    pub(crate) fn tool(&self, program: &str) -> Tool {
        Tool::new(program, &self.folder)
            .env(MARK, &self.path)
            .env("HOME", self.folder.join("home"))
            .env("XDG_CONFIG_HOME", self.folder.join("config"))
            .env("ZKLOCK", ZKLOCK)
            .env("LOCK", &self.path)
            .env("LIFE", self.folder.join("life"))
            .env("GATE", self.folder.join("gate"))
            .env("ZKLOCK_SERVER", self.server.connect_string())
    }

    /// `zklock run PATH -- sh -c SCRIPT`.
    pub(crate) fn run(&self, script: &str) -> Tool {
        self.run_with::<&str>([], script)
    }

    pub(crate) fn run_with<T: AsRef<OsStr>>(
        &self,
        options: impl IntoIterator<Item = T>,
        script: &str,
    ) -> Tool {
        let tool = self.zklock(["run", &self.path]).args(options);
        tool.args(["--", "sh", "-c", script])
    }

    /// For the variable `LIFE` of a command.
    pub(crate) fn lifeline(&self) -> Lifeline {
        Lifeline::new(&self.unique("life"))
    }

    /// For the variable `GATE` of a command.
    pub(crate) fn gate(&self) -> Gate {
        Gate::new(&self.unique("gate"))
    }

    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.folder.join(name);
        fs::write(&path, content).unwrap();
        path
    }

    /// A way to the server that can break.
    pub(crate) async fn link(&self) -> FaultProxy {
        FaultProxy::start(self.server.connect_string()).await.unwrap()
    }

    /// Somebody of this process holds the lock.
    pub(crate) async fn holder(&self, identity: &str) -> Holder {
        let curator = self.connect(self.builder().identity(identity)).await;
        let mutex = curator.mutex(&self.path).unwrap();
        let guard = within("the lock", mutex.acquire()).await.unwrap();
        Holder { curator, guard }
    }

    /// The only node under the lock path.
    pub(crate) async fn node(&self) -> String {
        let children = self.children().await;
        let [node] = children.as_slice() else { panic!("not one node: {children:?}") };
        format!("{}/{node}", self.path)
    }

    /// Deletes the only node, as an administrator does it.
    pub(crate) async fn taken(&self) {
        self.admin.delete(&self.node().await, None).await.unwrap();
    }

    /// When another client, which reaches the server by a way of its own, is notified of the node's deletion, and the processes
    /// that still have the lifeline open then. A stamp of the lifeline's end cannot be compared with a stamp of the deletion
    /// where the two are milliseconds apart: on a busy machine the thread that read the earlier event may run later.
    pub(crate) async fn alive_at_deletion(
        &self,
        node: &str,
        life: &Lifeline,
    ) -> JoinHandle<(Instant, Vec<Process>)> {
        let (stat, mut watcher) = self.admin.check_and_watch_stat(node).await.unwrap();
        assert!(stat.is_some(), "{node} is gone already");
        let (admin, node) = (self.admin.clone(), node.to_owned());
        let (mark, life) = (self.path.clone(), life.path.clone());
        tokio::spawn(async move {
            loop {
                if watcher.changed().await.event_type != EventType::NodeDeleted {
                    let (stat, again) = admin.check_and_watch_stat(&node).await.unwrap();
                    if stat.is_some() {
                        watcher = again;
                        continue;
                    }
                }
                let mut all = processes(&mark);
                all.retain(|process| process.has_open(&life));
                return (Instant::now(), all);
            }
        })
    }

    /// All that the test started and that is alive.
    pub(crate) fn processes(&self) -> Vec<Process> {
        processes(&self.path)
    }

    /// Nothing that the test started runs, and no node is left.
    pub(crate) async fn end(self) {
        eventually("no process is left", async || self.processes().is_empty()).await;
        let left = async || leaves(&self.testbed.admin, &self.path).await.is_empty();
        eventually("no node is left", left).await;
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for process in self.processes() {
            eprintln!("left behind: {process:?}");
            send(Signal::SIGKILL, process.id);
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Holder {
    pub(crate) async fn release(self) {
        self.guard.release().await.unwrap();
        assert_eq!(self.curator.close().await, Released::Confirmed);
    }
}

fn processes(mark: &str) -> Vec<Process> {
    Process::with(&format!("{MARK}={mark}"))
}

/// The nodes of contenders below, however deep.
async fn leaves(admin: &Admin, path: &str) -> Vec<String> {
    let mut leaves = Vec::new();
    let mut paths = vec![path.to_owned()];
    while let Some(path) = paths.pop() {
        for child in children(admin, &path).await {
            let path = format!("{path}/{child}");
            if child.starts_with("_c_") {
                leaves.push(path);
            } else {
                paths.push(path);
            }
        }
    }
    leaves
}
