//! The znodes of one server, and what a transaction does to them. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::acl::{anyone, resolved};
use super::op::{Acls, Answer, Happened, Ids, Mode, Op, Refused, Reply};
use crate::client::{Permission, ServerError, Stat};

/// One entry of the servers' log.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) zxid: i64,
    pub(crate) time: u64,
    pub(crate) session: i64,
    pub(crate) ids: Ids,
    /// Refused requests are entries as well.
    pub(crate) op: Result<Op, ServerError>,
    /// The server, the connection and the request that wait for it.
    pub(crate) origin: Option<(usize, u64, i32)>,
    /// In which order the nodes of a session go.
    pub(crate) shuffle: u64,
}

#[derive(Clone, Debug)]
struct Znode {
    data: Vec<u8>,
    acls: Acls,
    stat: Stat,
    /// How many children were ever created.
    creates: i32,
    container: bool,
    children: BTreeSet<String>,
}

impl Znode {
    fn new(data: Vec<u8>, acls: Acls, zxid: i64, time: u64, owner: i64, container: bool) -> Self {
        let time = i64::try_from(time).unwrap_or(i64::MAX);
        let stat = Stat {
            czxid: zxid,
            mzxid: zxid,
            pzxid: zxid,
            ctime: time,
            mtime: time,
            version: 0,
            cversion: 0,
            aversion: 0,
            ephemeral_owner: owner,
            data_length: 0,
            num_children: 0,
        };
        Self { data, acls, stat, creates: 0, container, children: BTreeSet::new() }
    }

    fn stat(&self) -> Stat {
        let (children, length) = (self.children.len(), self.data.len());
        let num_children = i32::try_from(children).unwrap_or(i32::MAX);
        let data_length = i32::try_from(length).unwrap_or(i32::MAX);
        Stat { cversion: 2 * self.creates - num_children, num_children, data_length, ..self.stat }
    }

    fn allows(&self, permission: Permission, ids: &Ids) -> Result<(), ServerError> {
        if allow(&self.acls, permission, ids) { Ok(()) } else { Err(ServerError::NoAuth) }
    }
}

/// What one server has.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    nodes: BTreeMap<String, Znode>,
    /// The sessions there are, with their timeouts and nodes.
    pub(crate) sessions: BTreeMap<i64, (u64, BTreeSet<String>)>,
    pub(crate) zxid: i64,
    /// Newer servers (3.9) ask for READ before they tell whether a node is there.
    exists_asks: bool,
}

/// With the ACLs of the node.
pub(super) type Fired = Vec<(String, Happened, Acls)>;

impl Tree {
    pub(crate) fn new(exists_asks: bool) -> Self {
        let root = Znode::new(Vec::new(), anyone(), 0, 0, 0, false);
        let nodes = BTreeMap::from([("/".to_owned(), root)]);
        Self { nodes, sessions: BTreeMap::new(), zxid: 0, exists_asks }
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.nodes.keys().map(String::as_str)
    }

    /// A node's origin and data.
    pub(crate) fn node(&self, path: &str) -> Option<(Stat, &[u8])> {
        self.nodes.get(path).map(|node| (node.stat(), node.data.as_slice()))
    }

    /// Containers that had children and have none.
    pub(crate) fn left_empty(&self) -> Vec<String> {
        let is_left = |node: &Znode| node.container && node.creates > 0 && node.children.is_empty();
        self.nodes.iter().filter(|(_, node)| is_left(node)).map(|(path, _)| path.clone()).collect()
    }

    /// Does what the log says next, and tells what watches are to tell.
    pub(crate) fn apply(&mut self, entry: &Entry, fired: &mut Fired) -> Reply {
        self.zxid = entry.zxid;
        let refused = |error| Refused { step: None, error };
        match entry.op.as_ref().map_err(|error| refused(error.clone()))? {
            Op::Multi(steps) => {
                let mut undo = Some(Vec::new());
                let before = fired.len();
                for (step, op) in steps.iter().enumerate() {
                    if let Err(error) = self.write(entry, op, fired, &mut undo) {
                        fired.truncate(before);
                        for (path, node) in undo.into_iter().flatten().rev() {
                            self.put(&path, node);
                        }
                        return Err(Refused { step: Some(step), error });
                    }
                }
                Ok(Answer::Nothing)
            }
            op => self.write(entry, op, fired, &mut None).map_err(refused),
        }
    }

    fn put(&mut self, path: &str, node: Option<Znode>) -> Option<Znode> {
        let owner = node.as_ref().map_or(0, |node| node.stat.ephemeral_owner);
        let old = match node {
            Some(node) => self.nodes.insert(path.to_owned(), node),
            None => self.nodes.remove(path),
        };
        let old_owner = old.as_ref().map_or(0, |node| node.stat.ephemeral_owner);
        if old_owner != owner {
            if let Some((_, nodes)) = self.sessions.get_mut(&old_owner) {
                nodes.remove(path);
            }
            if let Some((_, nodes)) = self.sessions.get_mut(&owner) {
                nodes.insert(path.to_owned());
            }
        }
        old
    }

    fn change(&mut self, path: &str, undo: &mut Undo) -> Result<&mut Znode, ServerError> {
        let node = self.nodes.get_mut(path).ok_or(ServerError::NoNode)?;
        if let Some(undo) = undo {
            undo.push((path.to_owned(), Some(node.clone())));
        }
        Ok(node)
    }

    fn write(
        &mut self,
        entry: &Entry,
        op: &Op,
        fired: &mut Fired,
        undo: &mut Undo,
    ) -> Result<Answer, ServerError> {
        let ids = &entry.ids;
        match op {
            Op::Create { path, data, acls, mode } => {
                return self.create(entry, (path, data, acls, *mode), fired, undo);
            }
            Op::Delete { path, version } => {
                if path == "/" {
                    return Err(ServerError::BadArguments(&"the root cannot be deleted"));
                }
                let above = self.nodes.get(parent(path)).ok_or(ServerError::NoNode)?;
                above.allows(Permission::DELETE, ids)?;
                let node = self.nodes.get(path).ok_or(ServerError::NoNode)?;
                check(node, *version)?;
                if !node.children.is_empty() {
                    return Err(ServerError::NotEmpty);
                }
                self.remove(path, entry.zxid, fired, undo);
            }
            Op::Reap { path } => {
                if self.left_empty().contains(path) {
                    self.remove(path, entry.zxid, fired, undo);
                }
            }
            Op::SetData { .. } | Op::SetAcl { .. } => return self.replace(entry, op, fired, undo),
            Op::Check { path } => {
                let node = self.nodes.get(path).ok_or(ServerError::NoNode)?;
                node.allows(Permission::READ, ids)?;
            }
            Op::OpenSession { timeout } => {
                self.sessions.insert(entry.session, (*timeout, BTreeSet::new()));
            }
            Op::Close => {
                let (_, nodes) = self.sessions.remove(&entry.session).unwrap_or_default();
                let mut nodes: Vec<_> = nodes.into_iter().collect();
                fastrand::Rng::with_seed(entry.shuffle).shuffle(&mut nodes);
                for path in nodes {
                    self.remove(&path, entry.zxid, fired, undo);
                }
            }
            _ => return Err(ServerError::Unimplemented),
        }
        Ok(Answer::Nothing)
    }

    /// Replaces a node's data or ACLs.
    fn replace(
        &mut self,
        entry: &Entry,
        op: &Op,
        fired: &mut Fired,
        undo: &mut Undo,
    ) -> Result<Answer, ServerError> {
        let ids = &entry.ids;
        match op {
            Op::SetData { path, data, version } => {
                let node = self.nodes.get(path).ok_or(ServerError::NoNode)?;
                node.allows(Permission::WRITE, ids)?;
                check(node, *version)?;
                let node = self.change(path, undo)?;
                node.data.clone_from(data);
                node.stat.version += 1;
                node.stat.mzxid = entry.zxid;
                node.stat.mtime = i64::try_from(entry.time).unwrap_or(i64::MAX);
                let stat = node.stat();
                fired.push((path.clone(), Happened::Changed, node.acls.clone()));
                Ok(Answer::Stat(Some(stat)))
            }
            Op::SetAcl { path, acls } => {
                let node = self.nodes.get(path).ok_or(ServerError::NoNode)?;
                node.allows(Permission::ADMIN, ids)?;
                let acls = resolved(acls, ids)?;
                let node = self.change(path, undo)?;
                (node.acls, node.stat.aversion) = (acls, node.stat.aversion + 1);
                Ok(Answer::Stat(Some(node.stat())))
            }
            _ => Err(ServerError::Unimplemented),
        }
    }

    fn create(
        &mut self,
        entry: &Entry,
        (path, data, acls, mode): (&String, &[u8], &Acls, Mode),
        fired: &mut Fired,
        undo: &mut Undo,
    ) -> Result<Answer, ServerError> {
        let ids = &entry.ids;
        let acls = resolved(acls, ids)?;
        let above_path = parent(path).to_owned();
        let above = self.nodes.get(&above_path).ok_or(ServerError::NoNode)?;
        above.allows(Permission::CREATE, ids)?;
        let ephemeral = matches!(mode, Mode::Ephemeral | Mode::EphemeralSequential);
        let path = match mode {
            Mode::PersistentSequential | Mode::EphemeralSequential => {
                format!("{path}{:010}", above.creates)
            }
            _ => path.clone(),
        };
        if self.nodes.contains_key(&path) {
            return Err(ServerError::NodeExists);
        }
        if above.stat.ephemeral_owner != 0 {
            return Err(ServerError::NoChildrenForEphemerals);
        }
        let above = self.change(&above_path, undo)?;
        above.creates += 1;
        above.stat.pzxid = entry.zxid;
        above.children.insert(name(&path).to_owned());
        let above_acls = above.acls.clone();
        let owner = if ephemeral { entry.session } else { 0 };
        let container = mode == Mode::Container;
        let node =
            Znode::new(data.to_vec(), acls.clone(), entry.zxid, entry.time, owner, container);
        let stat = node.stat();
        self.put(&path, Some(node));
        if let Some(undo) = undo {
            undo.push((path.clone(), None));
        }
        fired.push((path.clone(), Happened::Created, acls));
        fired.push((above_path, Happened::Children, above_acls));
        Ok(Answer::Created(path, stat))
    }

    fn remove(&mut self, path: &str, zxid: i64, fired: &mut Fired, undo: &mut Undo) {
        let Some(node) = self.put(path, None) else { return };
        fired.push((path.to_owned(), Happened::Deleted, node.acls.clone()));
        if let Some(undo) = undo {
            undo.push((path.to_owned(), Some(node)));
        }
        let above = parent(path);
        if let Ok(node) = self.change(above, undo) {
            node.stat.pzxid = zxid;
            node.children.remove(name(path));
            fired.push((above.to_owned(), Happened::Children, node.acls.clone()));
        }
    }

    /// Answers a read.
    pub(crate) fn read(&self, op: &Op, ids: &Ids) -> Reply {
        let node = |path: &str| self.nodes.get(path).ok_or(ServerError::NoNode);
        let readable = |path: &str| {
            let node = node(path)?;
            node.allows(Permission::READ, ids)?;
            Ok(node)
        };
        let answer = match op {
            Op::GetData { path, .. } => {
                readable(path).map(|node| Answer::Data(node.data.clone(), node.stat()))
            }
            Op::List { path, .. } => readable(path)
                .map(|node| Answer::Children(node.children.iter().cloned().collect(), node.stat())),
            Op::Exists { path, .. } => match node(path) {
                Ok(node) if self.exists_asks => {
                    node.allows(Permission::READ, ids).map(|()| Answer::Stat(Some(node.stat())))
                }
                Ok(node) => Ok(Answer::Stat(Some(node.stat()))),
                Err(_) => Ok(Answer::Stat(None)),
            },
            Op::GetAcl { path } => node(path).and_then(|node| {
                node.allows(Permission::READ | Permission::ADMIN, ids)?;
                Ok(Answer::Acls(node.acls.clone(), node.stat()))
            }),
            Op::AreGone(paths) => {
                Ok(Answer::Gone(paths.iter().map(|path| node(path).is_err()).collect()))
            }
            _ => Err(ServerError::Unimplemented),
        };
        answer.map_err(|error| Refused { step: None, error })
    }
}

/// What was there before, of a transaction of several steps.
type Undo = Option<Vec<(String, Option<Znode>)>>;

pub(super) fn allow(acls: &Acls, permission: Permission, ids: &Ids) -> bool {
    acls.iter().any(|(permissions, scheme, id)| {
        permission & *permissions != Permission::NONE
            && (scheme == "world" || ids.contains(&(scheme.clone(), id.clone())))
    })
}

fn check(node: &Znode, version: Option<i32>) -> Result<(), ServerError> {
    match version {
        Some(version) if version != node.stat.version => Err(ServerError::BadVersion),
        _ => Ok(()),
    }
}

pub(crate) fn parent(path: &str) -> &str {
    match path.rfind('/') {
        Some(0) | None => "/",
        Some(at) => &path[..at],
    }
}

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}
