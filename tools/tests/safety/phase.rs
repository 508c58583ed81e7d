//! How far a task of a client is.

use crate::service::{Name, Tree};

/// The client's own node, as far as it knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Own {
    pub(crate) guid: u8,
    pub(crate) sequence: u8,
    pub(crate) czxid: u8,
    /// An administrator deleted it. Its hold does not count any more: the crate does not promise to know
    /// before somebody acts.
    pub(crate) robbed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Watch {
    None,
    Armed,
    /// Fired: the node is gone.
    Deleted,
    /// Fired: the node's data is another.
    Changed,
    /// The link was cut: to be armed again after the reconnect.
    Cut,
}

impl Watch {
    pub(crate) fn fired(self) -> bool {
        matches!(self, Self::Deleted | Self::Changed)
    }
}

/// Another's node, and the watch on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Watched {
    pub(crate) name: Name,
    /// As of the arming: of another node of the same name, or of other data.
    pub(crate) czxid: u8,
    version: u8,
    pub(crate) watch: Watch,
}

impl Watched {
    /// The answer to the request; on a node that is not there, it fires at once.
    pub(crate) fn arm(view: &Tree, name: Name) -> Self {
        match view.get(name) {
            Some(node) => {
                Self { name, czxid: node.czxid, version: node.version, watch: Watch::Armed }
            }
            None => Self { name, czxid: 0, version: 0, watch: Watch::Deleted },
        }
    }

    /// The server looks, when something was written or the watch is armed again.
    pub(crate) fn look(&mut self, view: &Tree) {
        self.watch = match view.get(self.name) {
            None => Watch::Deleted,
            Some(node) if (node.czxid, node.version) == (self.czxid, self.version) => Watch::Armed,
            Some(_) => Watch::Changed,
        };
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Phase {
    Idle,
    /// Create and list are on their way.
    Creating {
        guid: u8,
    },
    /// The create took effect, `age` transactions ago; the answers are on their way.
    Created {
        own: Own,
        age: u8,
    },
    /// The create was answered `NoNode`.
    NoParent,
    /// The create's outcome is unknown; `flying`: it may still take effect.
    Doubt {
        guid: u8,
        flying: bool,
    },
    /// Found by its GUID; whose is it?
    Adopting {
        own: Own,
    },
    Listing {
        own: Own,
    },
    /// The listing was read, `age` transactions ago, and has yet to be acted upon.
    Listed {
        own: Own,
        age: u8,
    },
    /// First in the queue, but the lease has ended.
    Proving {
        own: Own,
    },
    Watching {
        own: Own,
        before: Name,
        first: bool,
        stand_by: Option<Name>,
    },
    Waiting {
        own: Own,
        before: Watched,
        /// It was the first of the last listing.
        first: bool,
        /// The link was not cut since the watches were armed.
        steady: bool,
        stand_by: Option<Watched>,
    },
    /// In the process, for a place of the same session.
    InProcess {
        own: Own,
        before: Name,
    },
    Holding {
        own: Own,
        lost: bool,
    },
}

impl Phase {
    pub(crate) fn own(&self) -> Option<Own> {
        let mut phase = *self;
        phase.own_mut().copied()
    }

    /// Its own node, where that stands in the chain of its session: the create was answered.
    pub(crate) fn place(&self) -> Option<Own> {
        match self {
            Self::Created { .. } | Self::Adopting { .. } => None,
            _ => self.own(),
        }
    }

    pub(crate) fn own_mut(&mut self) -> Option<&mut Own> {
        match self {
            Self::Created { own, .. }
            | Self::Adopting { own }
            | Self::Listing { own }
            | Self::Listed { own, .. }
            | Self::Proving { own }
            | Self::Watching { own, .. }
            | Self::Waiting { own, .. }
            | Self::InProcess { own, .. }
            | Self::Holding { own, .. } => Some(own),
            _ => None,
        }
    }

    pub(crate) fn guid(&self) -> Option<u8> {
        match *self {
            Self::Creating { guid } | Self::Doubt { guid, .. } => Some(guid),
            _ => self.own().map(|own| own.guid),
        }
    }

    /// Whether it waits with a node.
    pub(crate) fn waits(&self) -> bool {
        matches!(self, Self::Waiting { .. } | Self::InProcess { .. })
    }

    /// The names of others' nodes that it knows.
    pub(crate) fn others_mut(&mut self) -> impl Iterator<Item = &mut Name> {
        let (before, stand_by) = match self {
            Self::Watching { before, stand_by, .. } => (Some(before), stand_by.as_mut()),
            Self::Waiting { before, stand_by, .. } => {
                (Some(&mut before.name), stand_by.as_mut().map(|watched| &mut watched.name))
            }
            Self::InProcess { before, .. } => (Some(before), None),
            _ => (None, None),
        };
        before.into_iter().chain(stand_by)
    }

    pub(crate) fn watched_mut(&mut self) -> impl Iterator<Item = &mut Watched> {
        let (before, stand_by) = match self {
            Self::Waiting { before, stand_by, .. } => (Some(before), stand_by.as_mut()),
            _ => (None, None),
        };
        before.into_iter().chain(stand_by)
    }

    /// The transactions that it knows.
    pub(crate) fn zxids_mut(&mut self) -> impl Iterator<Item = &mut u8> {
        let (own, before, stand_by) = match self {
            Self::Waiting { own, before, stand_by, .. } => {
                (Some(own), Some(&mut before.czxid), stand_by.as_mut().map(|s| &mut s.czxid))
            }
            other => (other.own_mut(), None, None),
        };
        own.map(|own| &mut own.czxid).into_iter().chain(before).chain(stand_by)
    }
}

/// One contender after the other, as often as it has tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Task {
    pub(crate) tries: u8,
    pub(crate) phase: Phase,
    pub(crate) own_watch: Watch,
}

impl Task {
    pub(crate) const fn new(tries: u8) -> Self {
        Self { tries, phase: Phase::Idle, own_watch: Watch::None }
    }
}
