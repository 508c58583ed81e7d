//! What most tests name.

pub(crate) use std::sync::Arc;
pub(crate) use std::time::Duration;

pub(crate) use futures_util::future::join_all;
pub(crate) use tokio::task::{JoinHandle, JoinSet};
pub(crate) use tokio::time::{Instant, timeout};
pub(crate) use zookeeper_recipes::interop::{
    ContenderFilter, LossPolicy, Owner, Revoker, SharedCount,
};
pub(crate) use zookeeper_recipes::leader::{LeaderLatch, LeaderObserver, LeaderRun};
pub(crate) use zookeeper_recipes::session::{ConnectionState, RetryPolicy};
pub(crate) use zookeeper_recipes::simulation::Version;
pub(crate) use zookeeper_recipes::zookeeper_client::{Acls, CreateMode, Permission};
pub(crate) use zookeeper_recipes::{
    Curator, CuratorBuilder, Error, ErrorKind, Guard, Guards, Hold, InterProcessMultiLock,
    InterProcessMutex, InterProcessSemaphoreV2, Lock, Loss, Participant, Released,
};
pub(crate) use zookeeper_recipes_dev::{
    BUSY, Cut, Direction, LONG, Link, Message, Operation, SHORT, Testbed, Waiting, acquired,
    anyone, children, cut_off, does_not_apply, eventually, fails, held, is_real, lateness, lost_by,
    round_trip, struck_once, until, within,
};
pub(crate) use zookeeper_testkit::TestServer;

/// Why a test does not run against real servers.
pub(crate) const REAL_PAUSES: &str = "long pauses need virtual time";
