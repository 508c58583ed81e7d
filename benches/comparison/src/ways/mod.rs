//! The ways to lock, behind one trait: what a worker does with each.

mod etcd;
mod for_update;
mod mariadb;
mod redis;
mod redlock;
mod set_nx;
mod unique_row;
mod version_column;
mod watchdog;
mod zookeeper;

use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::Failure;
use crate::event::{Look, Released};
use crate::server::Kind;
use crate::worker;

pub(crate) use self::mariadb::pool;
pub(crate) use self::redis::connect_lazily;

/// Which lock, and where.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Place {
    pub(crate) way: WayName,
    /// `HOST:PORT` of each server.
    pub(crate) servers: Vec<String>,
    /// Of the lock.
    pub(crate) name: String,
    /// Of the lock, or of the session that it belongs to.
    pub(crate) lease: Duration,
}

/// One process's end of a way to lock.
pub(crate) trait Way: Sized {
    type Hold: Hold;

    async fn connect(place: &Place) -> Result<Self, Failure>;

    /// Waits until it holds, as one waits in this way.
    async fn acquire(&self) -> Result<Self::Hold, Failure>;
}

pub(crate) trait Hold: Sized {
    /// A number that grows from hold to hold, by which a resource could tell an older holder from a newer.
    fn token(&self) -> Option<i64>;

    /// Whether it is still held, as far as this process knows without asking.
    fn look(&self) -> Look;

    /// Whether it is still held, as the server says.
    async fn ask(&mut self) -> Result<bool, Failure>;

    async fn release(self) -> Result<Released, Failure>;

    /// The same hold once more, where the way has that besides acquiring.
    fn reenter(&self) -> Option<Self> {
        None
    }
}

/// In the order of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
pub(crate) enum WayName {
    Zookeeper,
    SetNx,
    Watchdog,
    Redlock,
    Etcd,
    UniqueRow,
    ForUpdate,
    VersionColumn,
}

impl WayName {
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Zookeeper => "ZooKeeper, this crate",
            Self::SetNx => "Redis `SET NX PX`",
            Self::Watchdog => "Redis, watchdog",
            Self::Redlock => "Redlock, 5 Redis",
            Self::Etcd => "etcd lock and lease",
            Self::UniqueRow => "MariaDB unique row",
            Self::ForUpdate => "MariaDB `FOR UPDATE`",
            Self::VersionColumn => "MariaDB version column",
        }
    }

    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::Zookeeper => Kind::Zookeeper,
            Self::SetNx | Self::Watchdog | Self::Redlock => Kind::Redis,
            Self::Etcd => Kind::Etcd,
            Self::UniqueRow | Self::ForUpdate | Self::VersionColumn => Kind::Mariadb,
        }
    }

    /// Of the page on Redlock: "In our examples we set N=5".
    pub(crate) fn servers(self) -> usize {
        if self == Self::Redlock { 5 } else { 1 }
    }

    /// Nobody waits for anybody: who is late is refused when it writes.
    pub(crate) fn is_optimistic(self) -> bool {
        self == Self::VersionColumn
    }

    pub(crate) async fn work(self, place: Place) -> Result<(), Failure> {
        match self {
            Self::Zookeeper => worker::run::<zookeeper::ZooKeeper>(place).await,
            Self::SetNx => worker::run::<set_nx::SetNx>(place).await,
            Self::Watchdog => worker::run::<watchdog::Watchdog>(place).await,
            Self::Redlock => worker::run::<redlock::Redlock>(place).await,
            Self::Etcd => worker::run::<etcd::Etcd>(place).await,
            Self::UniqueRow => worker::run::<unique_row::UniqueRow>(place).await,
            Self::ForUpdate => worker::run::<for_update::ForUpdate>(place).await,
            Self::VersionColumn => worker::run::<version_column::VersionColumn>(place).await,
        }
    }
}
