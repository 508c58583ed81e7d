//! The seam: the only folder that names `zookeeper_client`. Behind it are real servers or, with the feature `simulation`,
//! simulated ones.
//!
//! The rest of the crate must know these properties of that client:
//!
//! * A request is sent when its future is *created*, even if that is never polled, and the requests of one session are answered
//!   in the order of their creation. So the functions here are not `async`: calling them sends.
//! * While disconnected the client queues requests without limit and sends them later.
//! * A broken link ends the requests in flight, with different errors. Only an answer of the server is definite, and [`Failure`]
//!   sorts errors by that.
//! * Only one-shot watches survive a reconnect.

#[allow(clippy::module_inception)] // the folder has the name of its main type
mod client;
mod connect_string;
mod dialer;
mod failure;
mod limits;
mod link;
mod reconnecting;
mod requests;
#[cfg(all(test, feature = "simulation"))]
#[path = "../../tests/seam_equivalence/mod.rs"]
mod seam_equivalence;
#[cfg(feature = "simulation")]
mod simulated;
mod types;
mod watch;

pub(crate) use zookeeper_client::{Acl, Acls, Client as ZooKeeperClient, Connector, CreateMode};
#[cfg(feature = "simulation")]
pub(crate) use zookeeper_client::{AuthId, Error as ServerError, Permission, Stat};

pub(crate) use self::client::{Client, PARENTS_AT_ONCE};
pub(crate) use self::dialer::{DialError, Dialer};
pub(crate) use self::failure::{ClientError, Failed, Failure, WriteFailure};
pub(crate) use self::limits::{check_contender, check_frame};
pub(crate) use self::link::{LinkState, LinkWatch};
#[cfg(feature = "simulation")]
pub(crate) use self::reconnecting::Reconnecting;
pub(crate) use self::types::{Change, Created, Listing, Node, Write, world_anyone_acl};
pub(crate) use self::watch::{ChildrenWatch, NodeEvent, NodeWatch, WatchPermit};
