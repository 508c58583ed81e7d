//! The znodes of one server, and what a transaction does to them. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::op::{Acls, Answer, Happened, Ids, Op, Refused, Reply, allow, resolved};
use super::version::Version;
use crate::client::{Acl, AuthId, CreateMode, Permission, ServerError, Stat};

/// One entry of the servers' log.
pub(super) struct LogEntry {
    pub(super) zxid: i64,
    pub(super) time: i64,
    pub(super) session: i64,
    pub(super) ids: Ids,
    /// The request, also if it was refused.
    pub(super) op: Result<Op, ServerError>,
    /// The request that waits for the entry.
    pub(super) origin: Option<Origin>,
    /// Seed of the order in which the nodes of a closed session are deleted.
    pub(super) shuffle: u64,
}

/// A request of a client that waits at a server.
#[derive(Clone, Copy)]
pub(super) struct Origin {
    pub(super) server: usize,
    pub(super) connection: u64,
    pub(super) xid: i32,
}

#[derive(Clone)]
struct Znode {
    data: Vec<u8>,
    acls: Acls,
    stat: Stat,
    /// Number of children that were ever created.
    creates: i32,
    is_container: bool,
    children: BTreeSet<String>,
}

impl Znode {
    fn new(data: Vec<u8>, acls: Acls, zxid: i64, time: i64) -> Self {
        let stat = Stat {
            czxid: zxid,
            mzxid: zxid,
            pzxid: zxid,
            ctime: time,
            mtime: time,
            version: 0,
            cversion: 0,
            aversion: 0,
            ephemeral_owner: 0,
            data_length: 0,
            num_children: 0,
        };
        Self { data, acls, stat, creates: 0, is_container: false, children: BTreeSet::new() }
    }

    fn stat(&self) -> Stat {
        let num_children = i32::try_from(self.children.len()).unwrap_or(i32::MAX);
        let data_length = i32::try_from(self.data.len()).unwrap_or(i32::MAX);
        let cversion = self.creates.wrapping_mul(2).wrapping_sub(num_children);
        Stat { cversion, num_children, data_length, ..self.stat }
    }

    fn check(&self, version: Option<i32>) -> Result<(), ServerError> {
        match version {
            Some(version) if version != self.stat.version => Err(ServerError::BadVersion),
            _ => Ok(()),
        }
    }
}

/// The znodes and sessions of one server.
#[derive(Default)]
pub(super) struct Tree {
    nodes: BTreeMap<String, Znode>,
    /// The open sessions, with their timeouts.
    sessions: BTreeMap<i64, u64>,
    /// The zxid of the last transaction.
    zxid: i64,
    version: Version,
    /// The events of the present transaction.
    fired: Vec<Fired>,
}

/// An event that watches report.
pub(super) struct Fired {
    pub(super) path: String,
    pub(super) happened: Happened,
    /// The ACLs of the node.
    pub(super) acls: Acls,
}

impl Tree {
    pub(super) fn new(version: Version) -> Self {
        let anyone = Acls::from([Acl::new(Permission::ALL, AuthId::anyone())]);
        let nodes = BTreeMap::from([("/".to_owned(), Znode::new(Vec::new(), anyone, 0, 0))]);
        Self { nodes, version, ..Self::default() }
    }

    pub(super) fn sessions(&self) -> &BTreeMap<i64, u64> {
        &self.sessions
    }

    pub(super) fn zxid(&self) -> i64 {
        self.zxid
    }

    pub(super) fn paths(&self) -> Vec<String> {
        self.nodes.keys().cloned().collect()
    }

    pub(super) fn children(&self, path: &str) -> Vec<String> {
        self.nodes.get(path).map_or(Vec::new(), |node| node.children.iter().cloned().collect())
    }

    /// Sets how many children of a node were ever created.
    pub(super) fn set_creates(&mut self, path: &str, creates: i32) {
        if let Some(node) = self.nodes.get_mut(path) {
            node.creates = creates;
        }
    }

    /// A node's stat and data.
    pub(super) fn node(&self, path: &str) -> Option<(Stat, &[u8])> {
        self.nodes.get(path).map(|node| (node.stat(), node.data.as_slice()))
    }

    fn select(&self, is_meant: impl Fn(&Znode) -> bool) -> Vec<String> {
        let meant = self.nodes.iter().filter(|(_, node)| is_meant(node));
        meant.map(|(path, _)| path.clone()).collect()
    }

    /// Containers that had children and have none now.
    pub(super) fn empty_containers(&self) -> Vec<String> {
        self.select(|node| node.is_container && node.creates > 0 && node.children.is_empty())
    }

    fn get(&self, path: &str) -> Result<&Znode, ServerError> {
        self.nodes.get(path).ok_or(ServerError::NoNode)
    }

    fn get_mut(&mut self, path: &str) -> Result<&mut Znode, ServerError> {
        self.nodes.get_mut(path).ok_or(ServerError::NoNode)
    }

    /// Returns the node if the identities have the permission on it.
    fn allowed(&self, path: &str, need: Permission, ids: &Ids) -> Result<&Znode, ServerError> {
        let node = self.get(path)?;
        if allow(&node.acls, need, ids) { Ok(node) } else { Err(ServerError::NoAuth) }
    }

    /// Applies a log entry. Returns the reply and the events for watches.
    pub(super) fn apply(&mut self, entry: &LogEntry) -> (Reply, Vec<Fired>) {
        self.zxid = entry.zxid;
        let reply = match &entry.op {
            Err(error) => Err(error.clone().into()),
            Ok(Op::Multi(steps)) => self.write_all(entry, steps),
            Ok(op) => self.write(entry, op).map_err(Refused::from),
        };
        (reply, std::mem::take(&mut self.fired))
    }

    /// Carries out all steps or none.
    fn write_all(&mut self, entry: &LogEntry, steps: &[Op]) -> Reply {
        let mut before = Vec::new();
        for (step, op) in steps.iter().enumerate() {
            for path in op.path().into_iter().flat_map(|path| [path, parent(path)]) {
                before.push((path.to_owned(), self.nodes.get(path).cloned()));
            }
            if let Err(error) = self.write(entry, op) {
                self.fired.clear();
                for (path, node) in before.into_iter().rev() {
                    match node {
                        Some(node) => self.nodes.insert(path, node),
                        None => self.nodes.remove(&path),
                    };
                }
                return Err(Refused { step: Some(step), error });
            }
        }
        Ok(Answer::Nothing)
    }

    fn write(&mut self, entry: &LogEntry, op: &Op) -> Result<Answer, ServerError> {
        let ids = &entry.ids;
        match op {
            Op::Create { path, data, acls, mode } => {
                return self.create(entry, path, data, acls, *mode);
            }
            Op::Delete { path, version } => {
                if path == "/" {
                    return Err(ServerError::BadArguments(&"the root cannot be deleted"));
                }
                self.allowed(parent(path), Permission::DELETE, ids)?;
                let node = self.get(path)?;
                node.check(*version)?;
                if !node.children.is_empty() {
                    return Err(ServerError::NotEmpty);
                }
                self.remove(path);
            }
            Op::Reap { path } => {
                if self.empty_containers().contains(path) {
                    self.remove(path);
                }
            }
            Op::SetData { path, data, version } => {
                self.allowed(path, Permission::WRITE, ids)?.check(*version)?;
                let node = self.get_mut(path)?;
                node.data.clone_from(data);
                node.stat.version += 1;
                node.stat.mzxid = entry.zxid;
                node.stat.mtime = entry.time;
                let stat = node.stat();
                let acls = node.acls.clone();
                self.fire(path, Happened::Changed, acls);
                return Ok(Answer::Stat(Some(stat)));
            }
            Op::SetAcl { path, acls } => {
                self.allowed(path, Permission::ADMIN, ids)?;
                let acls = resolved(acls, ids)?;
                let node = self.get_mut(path)?;
                node.acls = acls;
                node.stat.aversion += 1;
                return Ok(Answer::Stat(Some(node.stat())));
            }
            Op::Check { path } => _ = self.allowed(path, Permission::READ, ids)?,
            Op::OpenSession { timeout } => _ = self.sessions.insert(entry.session, *timeout),
            Op::Close => {
                self.sessions.remove(&entry.session);
                let mut nodes = self.select(|node| node.stat.ephemeral_owner == entry.session);
                fastrand::Rng::with_seed(entry.shuffle).shuffle(&mut nodes);
                nodes.iter().for_each(|path| self.remove(path));
            }
            _ => return Err(ServerError::Unimplemented),
        }
        Ok(Answer::Nothing)
    }

    fn create(
        &mut self,
        entry: &LogEntry,
        path: &str,
        data: &[u8],
        acls: &Acls,
        mode: CreateMode,
    ) -> Result<Answer, ServerError> {
        let acls = resolved(acls, &entry.ids)?;
        let above = self.allowed(parent(path), Permission::CREATE, &entry.ids)?;
        let path = match mode {
            CreateMode::PersistentSequential | CreateMode::EphemeralSequential => {
                format!("{path}{:010}", above.creates)
            }
            _ => path.to_owned(),
        };
        if self.nodes.contains_key(&path) {
            return Err(ServerError::NodeExists);
        }
        if above.stat.ephemeral_owner != 0 {
            return Err(ServerError::NoChildrenForEphemerals);
        }
        let mut node = Znode::new(data.to_vec(), acls.clone(), entry.zxid, entry.time);
        node.is_container = mode == CreateMode::Container;
        if matches!(mode, CreateMode::Ephemeral | CreateMode::EphemeralSequential) {
            node.stat.ephemeral_owner = entry.session;
        }
        let stat = node.stat();
        self.nodes.insert(path.clone(), node);
        self.fire(&path, Happened::Created, acls);
        self.change_children(&path, |above, name| {
            above.creates = above.creates.wrapping_add(1);
            above.children.insert(name);
        });
        Ok(Answer::Created(path, stat))
    }

    fn remove(&mut self, path: &str) {
        if let Some(node) = self.nodes.remove(path) {
            self.fire(path, Happened::Deleted, node.acls);
            self.change_children(path, |above, name| _ = above.children.remove(&name));
        }
    }

    /// Changes the parent of a node, which is passed the node's name.
    fn change_children(&mut self, path: &str, change: impl FnOnce(&mut Znode, String)) {
        let above = parent(path);
        if let Some(node) = self.nodes.get_mut(above) {
            node.stat.pzxid = self.zxid;
            change(node, path.rsplit('/').next().unwrap_or_default().to_owned());
            let acls = node.acls.clone();
            self.fire(above, Happened::Children, acls);
        }
    }

    fn fire(&mut self, path: &str, happened: Happened, acls: Acls) {
        self.fired.push(Fired { path: path.to_owned(), happened, acls });
    }

    /// Answers a read.
    pub(super) fn read(&self, op: &Op, ids: &Ids) -> Result<Answer, ServerError> {
        Ok(match op {
            Op::GetData { path, .. } => {
                let node = self.allowed(path, Permission::READ, ids)?;
                Answer::Data(node.data.clone(), node.stat())
            }
            Op::List { path, .. } => {
                let stat = self.allowed(path, Permission::READ, ids)?.stat();
                Answer::Children(self.children(path), stat)
            }
            Op::Exists { path, .. } => {
                if self.version.exists_needs_read() && self.nodes.contains_key(path) {
                    self.allowed(path, Permission::READ, ids)?;
                }
                Answer::Stat(self.nodes.get(path).map(Znode::stat))
            }
            Op::GetAcl { path } => {
                let node = self.allowed(path, Permission::READ | Permission::ADMIN, ids)?;
                Answer::Acls(node.acls.clone(), node.stat())
            }
            _ => return Err(ServerError::Unimplemented),
        })
    }
}

fn parent(path: &str) -> &str {
    match path.rfind('/') {
        Some(0) | None => "/",
        Some(at) => &path[..at],
    }
}
