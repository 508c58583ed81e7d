//! The requests: each is sent when its future is made.

use std::future::Future;

use zookeeper_client::{self as zk, Acl, Acls};

use super::data::{Change, Listing, Mode, Node, Write};
use super::failure::{Failure, WriteFailure};
use super::rooted::{Client, To};
use super::watch::{ChildrenWatch, NodeWatch, Watcher};

/// A request to either kind of servers, sent here. Each arm gives a future of the same output.
macro_rules! send {
    ($client:expr, $real:ident => $to_real:expr, $simulated:ident => $to_simulated:expr) => {
        match &$client.to {
            To::Real($real) => {
                let sent = $to_real;
                #[cfg(feature = "simulation")]
                let sent = futures_util::future::Either::Left(sent);
                sent
            }
            #[cfg(feature = "simulation")]
            To::Simulated($simulated) => futures_util::future::Either::Right($to_simulated),
        }
    };
}

impl Client {
    /// Creates a contender's node; `prefix` is its whole path up to the sequence number. Gives that
    /// number and the `czxid`.
    pub(crate) fn create_contender<'a>(
        &'a self,
        prefix: &'a str,
        data: &[u8],
        acls: &[Acl],
    ) -> impl Future<Output = Result<(i64, i64), Failure>> + Send + use<'a> {
        send!(self, zk => {
            let options = zk::CreateMode::EphemeralSequential.with_acls(Acls::new(acls));
            let sent = zk.create(prefix, data, &options);
            async move {
                let (stat, sequence) = sent.await.map_err(Failure::of)?;
                Ok((sequence.into_i64(), stat.czxid))
            }
        }, sim => sim.create_contender(&self.at(prefix), data, acls))
    }

    /// Creates a node; its parent must be there.
    pub(super) fn create<'a>(
        &'a self,
        path: &'a str,
        data: &[u8],
        acls: &[Acl],
        mode: Mode,
    ) -> impl Future<Output = Result<Change, Failure>> + Send + use<'a> {
        send!(self, zk => {
            let mode = match mode {
                Mode::Persistent => zk::CreateMode::Persistent,
                Mode::Container => zk::CreateMode::Container,
            };
            let sent = zk.create(path, data, &mode.with_acls(Acls::new(acls)));
            async move {
                let (stat, _) = sent.await.map_err(Failure::of)?;
                Ok(Change::of(&stat))
            }
        }, sim => sim.create(&self.at(path), data, acls, mode))
    }

    /// Creates a persistent node. Its parent must be there.
    pub(crate) fn create_persistent<'a>(
        &'a self,
        path: &'a str,
        data: &[u8],
        acls: &[Acl],
    ) -> impl Future<Output = Result<Change, Failure>> + Send + use<'a> {
        self.create(path, data, acls, Mode::Persistent)
    }

    /// Replaces a node's data, if they are of this version; `None`: whatever they are of.
    pub(crate) fn set_data(
        &self,
        path: &str,
        data: &[u8],
        version: Option<i32>,
    ) -> impl Future<Output = Result<Change, Failure>> + Send + use<> {
        send!(self, zk => {
            let sent = zk.set_data(path, data, version);
            async move { Ok(Change::of(&sent.await.map_err(Failure::of)?)) }
        }, sim => sim.set_data(&self.at(path), data, version))
    }

    /// A node's children.
    pub(crate) fn list(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<Listing, Failure>> + Send + use<> {
        send!(self, zk => {
            let sent = zk.get_children(path);
            async move {
                let (children, stat) = sent.await.map_err(Failure::of)?;
                Ok(Listing::new(children, &stat))
            }
        }, sim => sim.list(&self.at(path)))
    }

    /// The same, with a watch on the set of children.
    pub(crate) fn list_and_watch<'a>(
        &'a self,
        path: &str,
    ) -> impl Future<Output = Result<(Listing, ChildrenWatch), Failure>> + Send + use<'a> {
        send!(self, zk => {
            let sent = zk.get_and_watch_children(path);
            async move {
                let (children, stat, watcher) = sent.await.map_err(Failure::of)?;
                Ok((Listing::new(children, &stat), ChildrenWatch::new(Watcher::of(watcher))))
            }
        }, sim => sim.list_and_watch(&self.at(path)))
    }

    /// A node's data and origin.
    pub(crate) fn read(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<Node, Failure>> + Send + use<> {
        send!(self, zk => {
            let sent = zk.get_data(path);
            async move {
                let (data, stat) = sent.await.map_err(Failure::of)?;
                Ok(Node::new(data, &stat))
            }
        }, sim => sim.read(&self.at(path)))
    }

    /// A node's origin, without its data, if it is there. Needs no permission on it, but newer servers (3.9.5) give the
    /// origin only to clients that may read the node.
    pub(crate) fn look(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<Option<Node>, Failure>> + Send + use<> {
        let looked = send!(self, zk => {
            let sent = zk.check_stat(path);
            async move {
                let stat = sent.await.map_err(Failure::of)?;
                Ok(stat.map(|stat| Node::new(Vec::new(), &stat)))
            }
        }, sim => sim.look(&self.at(path)));
        async move {
            match looked.await {
                // Of a node that is not there, such a server says so, whatever the permissions.
                Err(Failure::Refused(e)) if e.is_no_auth() => Ok(Some(Node::default())),
                looked => looked,
            }
        }
    }

    /// Whether a node is there. Needs no permission on it.
    pub(crate) fn exists(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<bool, Failure>> + Send + use<> {
        let node = self.look(path);
        async move { Ok(node.await?.is_some()) }
    }

    /// A node's origin, without its data, if it is there; with a watch for when that changes, which stays on one that is
    /// not. Needs no permission on it; newer servers (3.9.5) want READ.
    pub(crate) fn look_and_watch<'a>(
        &'a self,
        path: &str,
    ) -> impl Future<Output = Result<(Option<Node>, NodeWatch), Failure>> + Send + use<'a> {
        send!(self, zk => {
            let sent = zk.check_and_watch_stat(path);
            async move {
                let (stat, watcher) = sent.await.map_err(Failure::of)?;
                let node = stat.map(|stat| Node::new(Vec::new(), &stat));
                let czxid = node.as_ref().map_or(0, |node| node.change.czxid);
                Ok((node, NodeWatch::new(Watcher::of(watcher), czxid)))
            }
        }, sim => sim.look_and_watch(&self.at(path)))
    }

    /// Whether each of several nodes is known to be gone, in one request; servers before 3.6 refuse it, and
    /// others may cut the connection.
    pub(crate) fn are_gone<'a>(
        &'a self,
        nodes: impl IntoIterator<Item = &'a str>,
    ) -> impl Future<Output = Result<Vec<bool>, Failure>> + Send {
        send!(self, zk => {
            // Of children there are none, whereas data may be large.
            let mut reader = zk.new_multi_reader();
            let added = nodes.into_iter().try_for_each(|node| reader.add_get_children(node));
            let sent = added.map(|()| reader.commit());
            async move {
                let results = sent.map_err(Failure::of)?.await.map_err(Failure::of)?;
                let is_gone = |result: &zk::MultiReadResult| {
                    matches!(result, zk::MultiReadResult::Error { err: zk::Error::NoNode })
                };
                Ok(results.iter().map(is_gone).collect())
            }
        }, sim => sim.are_gone(nodes.into_iter().map(|node| self.at(node)).collect()))
    }

    /// Watches a node that is there; leaves no watch on one that is not.
    pub(crate) fn watch<'a>(
        &'a self,
        path: &str,
    ) -> impl Future<Output = Result<NodeWatch, Failure>> + Send + use<'a> {
        let sent = self.read_and_watch(path);
        async move { Ok(sent.await?.1) }
    }

    /// Reads a node that is there, and watches it.
    pub(crate) fn read_and_watch<'a>(
        &'a self,
        path: &str,
    ) -> impl Future<Output = Result<(Node, NodeWatch), Failure>> + Send + use<'a> {
        send!(self, zk => {
            let sent = zk.get_and_watch_data(path);
            async move {
                let (data, stat, watcher) = sent.await.map_err(Failure::of)?;
                let watch = NodeWatch::new(Watcher::of(watcher), stat.czxid);
                Ok((Node::new(data, &stat), watch))
            }
        }, sim => sim.read_and_watch(&self.at(path)))
    }

    /// Deletes a node, whatever its version.
    pub(crate) fn delete(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<(), Failure>> + Send + use<> {
        send!(self, zk => {
            let sent = zk.delete(path, None);
            async move { sent.await.map_err(Failure::of) }
        }, sim => sim.delete(&self.at(path)))
    }

    /// Writes to `path` if the node `other` is there, both in one transaction.
    pub(crate) fn write_while_there<'a>(
        &'a self,
        other: &str,
        path: &str,
        write: &Write<'_>,
    ) -> impl Future<Output = Result<(), WriteFailure>> + Send + use<'a> {
        send!(self, zk => {
            let send = || {
                let mut writer = zk.new_check_writer(other, None)?;
                match write {
                    Write::Create { data, acls, ephemeral } => {
                        let mode = match ephemeral {
                            true => zk::CreateMode::Ephemeral,
                            false => zk::CreateMode::Persistent,
                        };
                        writer.add_create(path, data, &mode.with_acls(Acls::new(acls)))?;
                    }
                    Write::Set { data } => writer.add_set_data(path, data, None)?,
                    Write::Delete => writer.add_delete(path, None)?,
                }
                Ok(writer.commit())
            };
            let sent = send().map_err(|error| WriteFailure::Write(Failure::of(error)));
            async move { sent?.await.map(drop).map_err(WriteFailure::of) }
        }, sim => sim.write_while_there(&self.at(other), &self.at(path), write))
    }

    /// Waits until this server has caught up with the leader.
    pub(crate) fn sync<'a>(&'a self) -> impl Future<Output = Result<(), Failure>> + Send + use<'a> {
        send!(self, zk => {
            let sent = zk.sync("/");
            async move { sent.await.map_err(Failure::of) }
        }, sim => sim.sync())
    }
}
