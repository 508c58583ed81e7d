//! What a command is supervised for: a lock, or a leader's term.

use std::time::Duration;

use zookeeper_recipes::{BoxFuture, Leadership, LockGuard, Loss};

/// What is held.
pub(crate) trait Watched: Sync {
    fn lease_left(&self) -> Duration;
    fn lease_renewed(&self) -> BoxFuture<'static, Result<(), Loss>>;
    fn lost(&self) -> BoxFuture<'static, Loss>;
    fn revocation_requested(&self) -> BoxFuture<'static, Result<(), Loss>>;
}

impl Watched for Box<dyn LockGuard> {
    fn lease_left(&self) -> Duration {
        (**self).lease_left()
    }

    fn lease_renewed(&self) -> BoxFuture<'static, Result<(), Loss>> {
        (**self).lease_renewed()
    }

    fn lost(&self) -> BoxFuture<'static, Loss> {
        (**self).lost()
    }

    fn revocation_requested(&self) -> BoxFuture<'static, Result<(), Loss>> {
        (**self).revocation_requested()
    }
}

impl Watched for Leadership {
    fn lease_left(&self) -> Duration {
        Self::lease_left(self)
    }

    fn lease_renewed(&self) -> BoxFuture<'static, Result<(), Loss>> {
        Box::pin(Self::lease_renewed(self))
    }

    fn lost(&self) -> BoxFuture<'static, Loss> {
        Box::pin(Self::lost(self))
    }

    fn revocation_requested(&self) -> BoxFuture<'static, Result<(), Loss>> {
        Box::pin(Self::revocation_requested(self))
    }
}
