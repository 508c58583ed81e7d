//! Requests that write data which several processes share.

use std::future::Future;

use zookeeper_client as zk;

use super::{Acl, Acls, Client, Failure};

/// Which change of a node's data it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    /// The transaction that created the node.
    pub(crate) czxid: i64,
    /// The transaction that wrote the data, the create included.
    pub(crate) mzxid: i64,
    /// How often they were written since the create.
    pub(crate) version: i32,
}

impl Change {
    pub(super) fn of(stat: &zk::Stat) -> Self {
        Self { czxid: stat.czxid, mzxid: stat.mzxid, version: stat.version }
    }
}

impl Client {
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
