//! Requests about data that several processes write.

use std::future::Future;

use zookeeper_client as zk;

use super::{Acl, Acls, Client, Failure, NodeWatch};

/// Which change of a node's data it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// The transaction that created the node.
    pub(crate) czxid: i64,
    /// The transaction that wrote the data, the create included.
    pub(crate) mzxid: i64,
    /// How often they were written since the create.
    pub(crate) version: i32,
}

impl Change {
    fn of(stat: &zk::Stat) -> Self {
        Self { czxid: stat.czxid, mzxid: stat.mzxid, version: stat.version }
    }
}

impl Client {
    /// A node's data.
    pub(crate) fn read_data(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<(Vec<u8>, Change), Failure>> + Send + use<> {
        let sent = self.rooted.get_data(path);
        async move {
            let (data, stat) = sent.await.map_err(Failure::of)?;
            Ok((data, Change::of(&stat)))
        }
    }

    /// The same, and watches it; leaves no watch on a node that is not there.
    pub(crate) fn watch_data<'a>(
        &'a self,
        path: &str,
    ) -> impl Future<Output = Result<(Vec<u8>, Change, NodeWatch), Failure>> + Send + use<'a> {
        let sent = self.rooted.get_and_watch_data(path);
        async move {
            let (data, stat, watcher) = sent.await.map_err(Failure::of)?;
            let watch = NodeWatch::new(watcher, stat.czxid);
            Ok((data, Change::of(&stat), watch))
        }
    }

    /// Replaces a node's data, if they are of this version; `None`: whatever they are of.
    pub(crate) fn set_data(
        &self,
        path: &str,
        data: &[u8],
        version: Option<i32>,
    ) -> impl Future<Output = Result<Change, Failure>> + Send + use<> {
        let sent = self.rooted.set_data(path, data, version);
        async move { Ok(Change::of(&sent.await.map_err(Failure::of)?)) }
    }

    /// Creates a persistent node. Its parent must be there.
    pub(crate) fn create_persistent<'a>(
        &'a self,
        path: &'a str,
        data: &[u8],
        acls: &[Acl],
    ) -> impl Future<Output = Result<Change, Failure>> + Send + use<'a> {
        let options = zk::CreateMode::Persistent.with_acls(Acls::new(acls));
        let sent = self.rooted.create(path, data, &options);
        async move {
            let (stat, _) = sent.await.map_err(Failure::of)?;
            Ok(Change::of(&stat))
        }
    }
}
