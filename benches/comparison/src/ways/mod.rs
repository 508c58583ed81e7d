//! The ways to lock.

mod etcd;
pub(crate) mod mariadb;
pub(crate) mod redis;
mod zookeeper;

use crate::lock::Failure;
use crate::server::Kind;
use crate::worker::run;

/// In the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    ZooKeeper,
    SetNx,
    Redlock,
    Etcd,
    UniqueRow,
    ForUpdate,
}

impl Way {
    pub(crate) const ALL: [Self; 6] =
        [Self::ZooKeeper, Self::SetNx, Self::Redlock, Self::Etcd, Self::UniqueRow, Self::ForUpdate];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ZooKeeper => "zookeeper",
            Self::SetNx => "set-nx",
            Self::Redlock => "redlock",
            Self::Etcd => "etcd",
            Self::UniqueRow => "unique-row",
            Self::ForUpdate => "for-update",
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::ZooKeeper => "ZooKeeper, this crate",
            Self::SetNx => "Redis `SET NX PX`",
            Self::Redlock => "Redlock, 5 Redis",
            Self::Etcd => "etcd lock and lease",
            Self::UniqueRow => "MariaDB unique row",
            Self::ForUpdate => "MariaDB `FOR UPDATE`",
        }
    }

    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::ZooKeeper => Kind::ZooKeeper,
            Self::SetNx | Self::Redlock => Kind::Redis,
            Self::Etcd => Kind::Etcd,
            Self::UniqueRow | Self::ForUpdate => Kind::MariaDb,
        }
    }

    /// The page on Redlock: "In our examples we set N=5".
    pub(crate) fn servers(self) -> usize {
        if self == Self::Redlock { 5 } else { 1 }
    }

    /// The way of this name, or all ways on the server of this name.
    pub(crate) fn called(name: &str) -> Result<Vec<Self>, Failure> {
        let is_called = |way: &Self| {
            way.name() == name || format!("{:?}", way.kind()).eq_ignore_ascii_case(name)
        };
        let ways: Vec<_> = Self::ALL.into_iter().filter(is_called).collect();
        if ways.is_empty() {
            let names = Self::ALL.map(Self::name).join(", ");
            return Err(format!("no way is called {name}; there are {names}").into());
        }
        Ok(ways)
    }

    /// Is a worker process.
    pub(crate) async fn work(self, servers: &str, lock: &str) -> Result<(), Failure> {
        let servers: Vec<_> = servers.split(',').map(str::to_owned).collect();
        match self {
            Self::ZooKeeper => run::<zookeeper::Mutex>(&servers, lock).await,
            Self::SetNx | Self::Redlock => run::<redis::Redlock>(&servers, lock).await,
            Self::Etcd => run::<etcd::Etcd>(&servers, lock).await,
            Self::UniqueRow => run::<mariadb::UniqueRow>(&servers, lock).await,
            Self::ForUpdate => run::<mariadb::ForUpdate>(&servers, lock).await,
        }
    }
}
