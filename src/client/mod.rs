//! The seam: the only place that names `zookeeper_client`. Behind it are real servers or, with the feature `simulation`,
//! simulated ones.
//!
//! What the rest of the crate must know of that client:
//!
//! * A request is sent when its future is *made*, also if it is never polled; requests of one session
//!   are answered in the order they were made. So the functions here are not `async`: calling them
//!   sends.
//! * While disconnected it queues requests without limit and sends them later.
//! * Whatever breaks the link ends the requests in flight, each in its own shape. Only an answer of
//!   the server is definite; [`Failure`] sorts errors by that.
//! * Only one-shot watches survive a reconnect.

mod connect_string;
mod data;
mod dialer;
mod failure;
mod frame;
mod link;
mod requests;
mod rooted;
#[cfg(all(test, feature = "simulation"))]
#[path = "../../tests/seam_equivalence/mod.rs"]
mod seam_equivalence;
#[cfg(feature = "simulation")]
mod simulated;
mod watch;

pub(crate) use zookeeper_client::{Acl, Acls, Client as ZooKeeperClient, Connector};
#[cfg(feature = "simulation")]
pub(crate) use zookeeper_client::{AuthId, CreateMode, Error as ServerError, Permission, Stat};

pub(crate) use self::data::{Change, Listing, Node, Write, open_to_anyone};
pub(crate) use self::dialer::{DialError, Dialer};
pub(crate) use self::failure::{ClientError, Failed, Failure, WriteFailure};
pub(crate) use self::frame::{check_contender, check_frame};
pub(crate) use self::link::{LinkState, LinkWatch};
pub(crate) use self::rooted::Client;
pub(crate) use self::watch::{ChildrenWatch, NodeEvent, NodeWatch};
