//! The requests: each is sent when its future is created.

use std::future::Future;

use zookeeper_client::{self as zk, Acl, Acls, CreateMode};

use super::client::{Backend, Client};
use super::failure::{Failure, WriteFailure};
use super::types::{Change, Created, Listing, Node, Write};
use super::watch::{ChildrenWatch, NodeWatch, Watcher};
#[cfg(feature = "simulation")]
use crate::simulation::{Answer, Op, Refused};

/// Sends a request to either kind of servers. Both arms are futures of the same output.
macro_rules! send {
    ($client:expr, $real:ident => $to_real:expr, $simulated:ident => $to_simulated:expr) => {
        match &$client.backend {
            Backend::Real($real) => {
                let sent = $to_real;
                #[cfg(feature = "simulation")]
                let sent = futures_util::future::Either::Left(sent);
                sent
            }
            #[cfg(feature = "simulation")]
            Backend::Simulated($simulated) => futures_util::future::Either::Right($to_simulated),
        }
    };
}

/// Awaits the answer of real servers to a request that was sent.
async fn answer<A, T>(
    sent: impl Future<Output = Result<A, zk::Error>>,
    of: impl FnOnce(A) -> T,
) -> Result<T, Failure> {
    sent.await.map(of).map_err(Failure::of)
}

impl Client {
    /// Creates a contender's node. `prefix` is its whole path up to the sequence number.
    pub(crate) fn create_contender<'a>(
        &'a self,
        prefix: &'a str,
        data: &[u8],
        acls: &[Acl],
    ) -> impl Future<Output = Result<Created, Failure>> + Send + use<'a> {
        let mode = CreateMode::EphemeralSequential;
        let created = |sequence, stat: &zk::Stat| Created {
            sequence,
            czxid: stat.czxid,
            owner: stat.ephemeral_owner,
        };
        send!(self, zk => {
            let sent = zk.create(prefix, data, &mode.with_acls(Acls::new(acls)));
            answer(sent, move |(stat, sequence)| created(sequence.into_i64(), &stat))
        }, sim => {
            let prefix = self.at(prefix);
            let length = prefix.len();
            sim.asked(Op::create(prefix, data, acls, mode), move |answer, _| match answer {
                Answer::Created(path, stat) => Some(created(path[length..].parse().ok()?, &stat)),
                _ => None,
            })
        })
    }

    /// Creates a node. Its parent must exist.
    pub(crate) fn create<'a>(
        &'a self,
        path: &'a str,
        data: &[u8],
        acls: &[Acl],
        mode: CreateMode,
    ) -> impl Future<Output = Result<Change, Failure>> + Send + use<'a> {
        send!(self, zk => {
            let sent = zk.create(path, data, &mode.with_acls(Acls::new(acls)));
            answer(sent, |(stat, _)| Change::of(&stat))
        }, sim => {
            let op = Op::create(self.at(path), data, acls, mode);
            sim.asked(op, |answer, _| answer.change())
        })
    }

    /// Replaces a node's data if they have this version; `None` replaces any version.
    pub(crate) fn set_data(
        &self,
        path: &str,
        data: &[u8],
        version: Option<i32>,
    ) -> impl Future<Output = Result<Change, Failure>> + Send + use<> {
        send!(self, zk => {
            answer(zk.set_data(path, data, version), |stat| Change::of(&stat))
        }, sim => {
            let op = Op::SetData { path: self.at(path), data: data.to_vec(), version };
            sim.asked(op, |answer, _| answer.change())
        })
    }

    /// Lists a node's children.
    pub(crate) fn list(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<Listing, Failure>> + Send + use<> {
        send!(self, zk => {
            answer(zk.get_children(path), |(children, stat)| Listing::new(children, &stat))
        }, sim => {
            let op = Op::List { path: self.at(path), watch: false };
            sim.asked(op, |answer, _| answer.listing())
        })
    }

    /// Lists a node's children, and watches the set of children.
    pub(crate) fn list_and_watch<'a>(
        &'a self,
        path: &str,
    ) -> impl Future<Output = Result<(Listing, ChildrenWatch), Failure>> + Send + use<'a> {
        send!(self, zk => {
            answer(zk.get_and_watch_children(path), |(children, stat, watcher)| {
                (Listing::new(children, &stat), ChildrenWatch::new(Watcher::of(watcher)))
            })
        }, sim => {
            let op = Op::List { path: self.at(path), watch: true };
            sim.asked(op, |answer, watcher| Some((answer.listing()?, ChildrenWatch::new(watcher?))))
        })
    }

    /// Reads a node's data and origin.
    pub(crate) fn read(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<Node, Failure>> + Send + use<> {
        send!(self, zk => {
            answer(zk.get_data(path), |(data, stat)| Node::new(data, &stat))
        }, sim => {
            let op = Op::GetData { path: self.at(path), watch: false };
            sim.asked(op, |answer, _| answer.node())
        })
    }

    /// Reads an existing node, and watches it.
    pub(crate) fn read_and_watch<'a>(
        &'a self,
        path: &str,
    ) -> impl Future<Output = Result<(Node, NodeWatch), Failure>> + Send + use<'a> {
        send!(self, zk => {
            answer(zk.get_and_watch_data(path), |(data, stat, watcher)| {
                let watch = NodeWatch::new(Watcher::of(watcher), stat.czxid);
                (Node::new(data, &stat), watch)
            })
        }, sim => {
            let op = Op::GetData { path: self.at(path), watch: true };
            sim.asked(op, |answer, watcher| {
                let node = answer.node()?;
                let watch = NodeWatch::new(watcher?, node.change.czxid);
                Some((node, watch))
            })
        })
    }

    /// Watches an existing node. Leaves no watch on a missing one.
    pub(crate) fn watch<'a>(
        &'a self,
        path: &str,
    ) -> impl Future<Output = Result<NodeWatch, Failure>> + Send + use<'a> {
        let sent = self.read_and_watch(path);
        async move { Ok(sent.await?.1) }
    }

    /// Reads a node's origin, without its data; `None` if the node does not exist. Needs no permission on the node, but newer
    /// servers (3.8.4, 3.9.2) give the origin only to clients that may read it.
    pub(crate) fn look(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<Option<Node>, Failure>> + Send + use<> {
        let looked = send!(self, zk => {
            answer(zk.check_stat(path), |stat| stat.as_ref().map(Node::without_data))
        }, sim => {
            let op = Op::Exists { path: self.at(path), watch: false };
            sim.asked(op, |answer, _| answer.origin())
        });
        async move {
            match looked.await {
                // If the node did not exist, such a server would say so, whatever the permissions.
                Err(Failure::Refused(e)) if e.is_no_auth() => Ok(Some(Node::default())),
                looked => looked,
            }
        }
    }

    /// Returns true if a node exists. Needs no permission on the node.
    pub(crate) fn exists(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<bool, Failure>> + Send + use<> {
        let node = self.look(path);
        async move { Ok(node.await?.is_some()) }
    }

    /// Reads a node's origin, without its data, and watches the node; `None` if it does not exist, and then the watch waits for
    /// its create. Needs no permission on the node, but newer servers (3.8.4, 3.9.2) require READ.
    pub(crate) fn look_and_watch<'a>(
        &'a self,
        path: &str,
    ) -> impl Future<Output = Result<(Option<Node>, NodeWatch), Failure>> + Send + use<'a> {
        let looked = send!(self, zk => {
            answer(zk.check_and_watch_stat(path), |(stat, watcher)| {
                (stat.as_ref().map(Node::without_data), Watcher::of(watcher))
            })
        }, sim => {
            let op = Op::Exists { path: self.at(path), watch: true };
            sim.asked(op, |answer, watcher| Some((answer.origin()?, watcher?)))
        });
        async move {
            let (node, watcher) = looked.await?;
            let czxid = node.as_ref().map_or(0, |node| node.change.czxid);
            Ok((node, NodeWatch::new(watcher, czxid)))
        }
    }

    /// Deletes a node, whatever its version.
    pub(crate) fn delete(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<(), Failure>> + Send + use<> {
        send!(self, zk => answer(zk.delete(path, None), |()| ()), sim => {
            sim.asked(Op::Delete { path: self.at(path), version: None }, |_, _| Some(()))
        })
    }

    /// Writes to `path` if the node `other` exists, in one transaction.
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
                    Write::Create { data, acls, mode } => {
                        let options = mode.with_acls(Acls::new(acls));
                        writer.add_create(path, data, &options)?;
                    }
                    Write::Set { data } => writer.add_set_data(path, data, None)?,
                    Write::Delete => writer.add_delete(path, None)?,
                }
                Ok(writer.commit())
            };
            let sent = send().map_err(|error| WriteFailure::Write(Failure::of(error)));
            async move { sent?.await.map(drop).map_err(WriteFailure::of) }
        }, sim => {
            let path = self.at(path);
            let write = match write {
                Write::Create { data, acls, mode } => Op::create(path, data, acls, *mode),
                Write::Set { data } => Op::SetData { path, data: data.to_vec(), version: None },
                Write::Delete => Op::Delete { path, version: None },
            };
            let sent = sim.ask(Op::Multi(vec![Op::Check { path: self.at(other) }, write]));
            async move {
                let Err(Refused { step, error }) = sent.await else { return Ok(()) };
                Err(WriteFailure::at(step, error))
            }
        })
    }

    /// Waits until this server has caught up with the leader.
    pub(crate) fn sync<'a>(&'a self) -> impl Future<Output = Result<(), Failure>> + Send + use<'a> {
        send!(self, zk => answer(zk.sync("/"), |()| ()), sim => sim.asked(Op::Sync, |_, _| Some(())))
    }
}
