//! What the servers keep: the lock path, its children, and the sessions that own them.

use std::cell::RefCell;
use std::collections::BTreeMap;

use uuid::Uuid;

use crate::contender_name::{Kind, protected_prefix};

thread_local! {
    /// Written once each: a run asks for them some millions of times.
    static TEXTS: RefCell<BTreeMap<Name, String>> = const { RefCell::new(BTreeMap::new()) };
}

/// A contender's name. The GUID is `(client, guid)`: nobody draws another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Name {
    pub(crate) sequence: u8,
    pub(crate) client: u8,
    pub(crate) guid: u8,
}

impl Name {
    /// As the server shows it.
    pub(crate) fn text(self) -> String {
        TEXTS.with_borrow_mut(|texts| texts.entry(self).or_insert_with(|| self.write()).clone())
    }

    fn write(self) -> String {
        let guid = Uuid::from_u128(u128::from(self.client) << 8 | u128::from(self.guid));
        format!("{}{:010}", protected_prefix(guid, Kind::Lock), self.sequence)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Node {
    pub(crate) name: Name,
    /// With the client: the session that owns it.
    pub(crate) epoch: u8,
    pub(crate) czxid: u8,
    /// How often its data was changed.
    pub(crate) version: u8,
}

/// The lock path as of one transaction.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Tree {
    /// The next sequence number; `None` while there is no parent.
    pub(crate) counter: Option<u8>,
    /// How often the parent was reaped.
    pub(crate) reaped: u8,
    /// In the order of their creation.
    pub(crate) nodes: Vec<Node>,
}

impl Tree {
    pub(crate) fn get(&self, name: Name) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name == name)
    }

    pub(crate) fn remove(&mut self, name: Name) {
        self.nodes.retain(|node| node.name != name);
    }

    pub(crate) fn close_session(&mut self, client: u8, epoch: u8) {
        self.nodes.retain(|node| (node.name.client, node.epoch) != (client, epoch));
    }

    pub(crate) fn owns(&self, client: u8, epoch: u8) -> bool {
        self.nodes.iter().any(|node| (node.name.client, node.epoch) == (client, epoch))
    }
}
