//! The znodes of one server, and what a transaction does to them. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::client::{Acl, AuthId, Permission, ServerError, Stat};

/// A request, as it travels to a server.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub(crate) enum Op {
    Create {
        path: String,
        data: Vec<u8>,
        acls: Acls,
        mode: Mode,
    },
    Delete {
        path: String,
        version: Option<i32>,
    },
    SetData {
        path: String,
        data: Vec<u8>,
        version: Option<i32>,
    },
    SetAcl {
        path: String,
        acls: Acls,
    },
    Check {
        path: String,
    },
    Multi(Vec<Op>),
    GetData {
        path: String,
        watch: bool,
    },
    Exists {
        path: String,
        watch: bool,
    },
    List {
        path: String,
        watch: bool,
    },
    GetAcl {
        path: String,
    },
    /// A read of several nodes' children.
    AreGone(Vec<String>),
    Sync,
    SetWatches {
        since: i64,
        data: Vec<String>,
        exist: Vec<String>,
        child: Vec<String>,
    },
    RemoveWatches {
        path: String,
        kind: Kind,
    },
    Auth {
        scheme: String,
        id: String,
    },
    Ping,
    Close,
    /// The server's own: a container that was left empty is deleted.
    Reap {
        path: String,
    },
    OpenSession {
        timeout: u64,
    },
}

/// What a watch is on. One on a node that is not there is on its existence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Data,
    Exist,
    Child,
}

/// How a node is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Mode {
    Persistent,
    PersistentSequential,
    Ephemeral,
    EphemeralSequential,
    Container,
}

/// What happened to a node, as a watch tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Happened {
    Created,
    Deleted,
    Changed,
    Children,
}

/// Permissions, scheme and id, one by one.
pub(crate) type Acls = Arc<Vec<(u8, String, String)>>;

/// Who a connection has shown itself to be.
pub(crate) type Ids = Arc<BTreeSet<(String, String)>>;

/// What a server answers.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Nothing,
    Created(String, Stat),
    Stat(Option<Stat>),
    Data(Vec<u8>, Stat),
    Children(Vec<String>, Stat),
    Gone(Vec<bool>),
    Acls(Acls, Stat),
}

/// Why a server refuses; in a transaction of several steps, at which.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    pub(crate) step: Option<usize>,
    pub(crate) error: ServerError,
}

pub(crate) type Reply = Result<Answer, Refused>;

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
                return Ok(Answer::Stat(Some(stat)));
            }
            Op::SetAcl { path, acls } => {
                let node = self.nodes.get(path).ok_or(ServerError::NoNode)?;
                node.allows(Permission::ADMIN, ids)?;
                let acls = resolved(acls, ids)?;
                let node = self.change(path, undo)?;
                (node.acls, node.stat.aversion) = (acls, node.stat.aversion + 1);
                return Ok(Answer::Stat(Some(node.stat())));
            }
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
        bits(permission) & permissions != 0
            && (scheme == "world" || ids.contains(&(scheme.clone(), id.clone())))
    })
}

fn check(node: &Znode, version: Option<i32>) -> Result<(), ServerError> {
    match version {
        Some(version) if version != node.stat.version => Err(ServerError::BadVersion),
        _ => Ok(()),
    }
}

/// With the creator's ids in place of `auth`.
fn resolved(acls: &Acls, ids: &Ids) -> Result<Acls, ServerError> {
    let mut resolved = Vec::new();
    for (permissions, scheme, id) in acls.iter() {
        match scheme.as_str() {
            "auth" => {
                let own = ids.iter().map(|(scheme, id)| (*permissions, scheme.clone(), id.clone()));
                let before = resolved.len();
                resolved.extend(own);
                if resolved.len() == before {
                    return Err(ServerError::InvalidAcl);
                }
            }
            "world" if id != "anyone" => return Err(ServerError::InvalidAcl),
            "digest" if id.split(':').count() != 2 => return Err(ServerError::InvalidAcl),
            "world" | "digest" | "ip" => resolved.push((*permissions, scheme.clone(), id.clone())),
            _ => return Err(ServerError::InvalidAcl),
        }
    }
    Ok(Arc::new(resolved))
}

impl Op {
    /// The client does not send it.
    pub(super) fn lacks_acls(&self) -> bool {
        match self {
            Op::Create { acls, .. } | Op::SetAcl { acls, .. } => acls.is_empty(),
            Op::Multi(steps) => steps.iter().any(Op::lacks_acls),
            _ => false,
        }
    }
}

fn bits(permission: Permission) -> u8 {
    let all = [
        Permission::READ,
        Permission::WRITE,
        Permission::CREATE,
        Permission::DELETE,
        Permission::ADMIN,
    ];
    (0..).zip(all).filter(|(_, one)| permission.has(*one)).map(|(bit, _)| 1 << bit).sum()
}

fn permission(bits: u8) -> Permission {
    let all = [
        Permission::READ,
        Permission::WRITE,
        Permission::CREATE,
        Permission::DELETE,
        Permission::ADMIN,
    ];
    let set = (0..).zip(all).filter(|(bit, _)| bits & (1 << bit) != 0);
    set.fold(Permission::NONE, |sum, (_, one)| sum | one)
}

fn anyone() -> Acls {
    Arc::new(vec![(bits(Permission::ALL), "world".to_owned(), "anyone".to_owned())])
}

pub(crate) fn plain(acls: &[Acl]) -> Acls {
    let plain = |acl: &Acl| (bits(acl.permission()), acl.scheme().to_owned(), acl.id().to_owned());
    Arc::new(acls.iter().map(plain).collect())
}

pub(crate) fn of_plain(acls: &Acls) -> Vec<Acl> {
    let acl = |(bits, scheme, id): &(u8, String, String)| {
        Acl::new(permission(*bits), AuthId::new(scheme, id))
    };
    acls.iter().map(acl).collect()
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
