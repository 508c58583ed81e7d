//! [`LossPolicy`]: when a disconnection ends a hold.

/// Chooses when a hold counts as lost in a disconnection. The end of its session, or of its node, always ends it.
///
/// Let `T` be the session timeout. With each policy a lock is only *handed out* while the session lease lasts.
///
/// ```no_run
/// # use zookeeper_recipes::interop::LossPolicy;
/// # use zookeeper_recipes::{Curator, Error};
/// # fn example(curator: Curator) -> Result<(), Error> {
/// // As an application that stops its leader in Curator's `SUSPENDED`.
/// let mutex = curator.with_loss_policy(LossPolicy::Suspended).mutex("/locks/orders")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossPolicy {
    /// When the servers may have expired the session: `2T/3` after the last request that the leader is known to have
    /// answered. A shorter disconnection loses nothing. The hold is lost before another process can hold the lock.
    #[default]
    Lease,
    /// As [`Lease`](Self::Lease), and at once when the connection breaks, even if it is soon restored: Apache Curator's
    /// standard policy. No safer, and a rolling restart of the servers costs every hold.
    #[doc(alias = "StandardConnectionStateErrorPolicy")]
    Suspended,
    /// When the client knows that the session is over, `1.4 T` to `1.6 T` after it last heard of a server: Apache Curator's
    /// session policy. **Another process may hold the lock for up to `0.6 T` by then**, and a process that was stopped does not
    /// know at its first check. For work that must not be interrupted, and is harmless or fenced when done twice.
    #[doc(alias = "SessionConnectionStateErrorPolicy")]
    SessionExpired,
}
