//! [`GroupMember`]: joins a group, and [`Membership`], which keeps its znode.

use std::fmt;
use std::time::Duration;

use crate::curator::Curator;
use crate::error::{Error, Loss, Released};
use crate::lock_path::{LockPath, escape_segment};
use crate::metrics;
use crate::recipes::persistent_node::{PersistentNode, PersistentNodeState};
use crate::recipes::shared::hold::Hold;
use crate::recipes::shared::recipe::Recipe;

/// A member of a group, under an id that no other live process has: the counterpart of Apache Curator's `GroupMember`, on the same
/// znodes.
///
/// The group at a path has a child for each member. [`Curator::observe_group`] follows them.
///
/// ```no_run
/// # use zookeeper_recipes::{Curator, Error};
/// # async fn work() {}
/// # async fn example(curator: Curator) -> Result<(), Error> {
/// let member = curator.group_member("/groups/billing", "10.0.0.7:8080")?;
/// let membership = member.join().await?;
/// loop {
///     let hold = membership.joined().await?;
///     tokio::select! {
///         loss = hold.lost() => eprintln!("the others may take over: {loss:?}"),
///         () = work() => break,
///     }
/// }
/// membership.leave().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "it is no member until `join`"]
pub struct GroupMember {
    recipe: Recipe,
    group: LockPath,
    id: String,
    data: Vec<u8>,
}

/// A member that has joined, until it [leaves](Self::leave), or the last handle is dropped.
///
/// The znode is kept as that of a [`PersistentNode`], session after session.
#[derive(Clone)]
#[must_use = "the member leaves with the last handle"]
pub struct Membership {
    node: PersistentNode,
    group: LockPath,
    id: String,
}

impl Curator {
    /// Returns a member `id` of the group at `path`, under the namespace, with the options of this handle. Its data are its
    /// [identity](crate::CuratorBuilder::identity). Characters that a znode's name cannot contain are escaped as in a URL, so an id
    /// may be an address.
    ///
    /// # Errors
    ///
    /// As for [`mutex`](Self::mutex).
    pub fn group_member(
        &self,
        path: impl AsRef<str>,
        id: impl Into<String>,
    ) -> Result<GroupMember, Error> {
        let id = id.into();
        let group = LockPath::parse("group path", path.as_ref())?;
        let node = group.child(&escape_segment(&id));
        let recipe = Recipe::new(self, &node, metrics::Recipe::GROUP_MEMBER)?;
        let data = self.options().identity.to_vec();
        Ok(GroupMember { recipe, group, id, data })
    }
}

impl GroupMember {
    /// Returns a member with these data, which the other members see.
    pub fn with_data(self, data: impl Into<Vec<u8>>) -> Self {
        Self { data: data.into(), ..self }
    }

    /// Joins the group, and waits until the member's znode is there and ours. If another live process has the id, this call waits
    /// until that has left.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the group.
    ///
    /// # Errors
    ///
    /// As for [`PersistentNode::start`], but nothing tries again after an error: join again. And
    /// [`ErrorKind::InvalidInput`](crate::ErrorKind::InvalidInput) if a request with the data would take more than 1 MiB.
    #[doc(alias = "start")]
    pub async fn join(&self) -> Result<Membership, Error> {
        let node = PersistentNode::new(self.recipe.clone(), self.data.clone())?;
        let membership = Membership { node, group: self.group.clone(), id: self.id.clone() };
        membership.joined().await?;
        Ok(membership)
    }

    /// Returns the path of the group, under the namespace.
    pub fn path(&self) -> &str {
        self.group.as_str()
    }

    /// Returns the id, as it was given.
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl Membership {
    /// Waits until the member's znode is there and ours, and returns the [`Hold`] of this znode. It is lost before the servers can
    /// delete the znode, and the member joins again as soon as it can.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    ///
    /// # Errors
    ///
    /// As for [`PersistentNode::start`].
    pub async fn joined(&self) -> Result<Hold, Error> {
        self.node.start().await
    }

    /// Returns whose znode is under the member's id, as far as this process knows.
    pub fn state(&self) -> PersistentNodeState {
        self.node.state()
    }

    /// Resolves with the cause when the membership is lost: see [`PersistentNode::lost`].
    ///
    /// # Cancel safety
    ///
    /// The future can be dropped at any time, and the method called again.
    pub async fn lost(&self) -> Loss {
        self.node.lost().await
    }

    /// Returns how long the others see this member, even if no server answers from now on: see
    /// [`Hold::session_lease_left`]. Zero if the membership is lost.
    #[must_use]
    pub fn session_lease_left(&self) -> Duration {
        self.node.session_lease_left()
    }

    /// Replaces the data that the other members see: see [`PersistentNode::set_data`].
    ///
    /// # Cancel safety
    ///
    /// Once the future was polled, dropping it changes nothing: the data are written.
    ///
    /// # Errors
    ///
    /// As for [`PersistentNode::set_data`].
    #[doc(alias = "setThisData")]
    pub async fn set_data(&self, data: impl Into<Vec<u8>>) -> Result<(), Error> {
        self.node.set_data(data).await
    }

    /// Leaves the group, and waits until the servers confirm it: see [`PersistentNode::close`].
    ///
    /// # Cancel safety
    ///
    /// Once the future was polled, dropping it does not stop the leaving.
    ///
    /// # Errors
    ///
    /// As for [`PersistentNode::close`].
    #[doc(alias = "close")]
    pub async fn leave(&self) -> Result<Released, Error> {
        self.node.close().await
    }

    /// Returns the path of the group, under the namespace.
    pub fn path(&self) -> &str {
        self.group.as_str()
    }

    /// Returns the member's id, as it was given.
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl fmt::Debug for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Membership")
            .field("path", &self.path())
            .field("id", &self.id())
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}
