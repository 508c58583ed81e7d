//! [`GuardControl`]: a guard without servers, for tests.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::hold::Guard;
use super::recipe::Recipe;
use crate::curator::Curator;
use crate::error::Loss;
use crate::metrics;
use crate::queue::rules::node_name::{Kind, protected_prefix};
use crate::queue::{End, HoldState, OwnedHold};
use crate::random;
use crate::session::Session;
use crate::session::observed::HeldLock;

/// The session timeout of a simulated guard: no lease ends by itself.
const A_CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Ends a guard that was made by [`Guard::simulated`].
pub struct GuardControl {
    hold: Arc<HoldState>,
}

impl Guard {
    /// Returns a guard of no lock, and its control: to test code that takes a guard or a [`Hold`](super::hold::Hold) without
    /// servers, on any clock. The guard is held until it is released, or lost by the control. A release is confirmed at once.
    /// Fenced writes fail, and no other process ever asks for the lock back.
    ///
    /// ```
    /// use zookeeper_recipes::{Guard, Loss};
    ///
    /// let (guard, control) = Guard::simulated("/locks/orders", 7);
    /// assert!(guard.is_held());
    /// assert_eq!(guard.fencing_token().value(), 7);
    /// control.lose(Loss::SessionExpired);
    /// assert_eq!(guard.loss(), Some(Loss::SessionExpired));
    /// ```
    ///
    /// # Panics
    ///
    /// If the path is not that of a znode.
    pub fn simulated(path: &str, fencing_token: i64) -> (Self, GuardControl) {
        let session = Session::without_client(A_CENTURY);
        let curator = Curator::simulated(&session);
        let recipe = Recipe::new(&curator, path, metrics::Recipe::MUTEX);
        let recipe = recipe.unwrap_or_else(|error| panic!("{error}"));
        let lock =
            HeldLock { path: &recipe.path, kind: Kind::Lock.tag(), counted: &recipe.counted };
        let prefix = protected_prefix(random::guid(), Kind::Lock);
        let node = recipe.path.child(&format!("{prefix}{:010}", 0));
        let term = curator.options().loss_policy.into();
        let hold = OwnedHold::without_queue(&lock, (node, fencing_token), &session, term);
        let hold = hold.unwrap_or_else(|| unreachable!("the lease has just begun"));
        let control = GuardControl { hold: hold.state().clone() };
        (Self::new(Arc::new(hold), &recipe), control)
    }
}

impl GuardControl {
    /// Loses the hold, unless it has ended: [`Hold::lost`](super::hold::Hold::lost) resolves with this cause.
    pub fn lose(&self, cause: Loss) {
        self.hold.finish(End::Lost(cause));
    }

    /// Returns true if the guard was released or dropped before it was lost.
    #[must_use]
    pub fn is_released(&self) -> bool {
        self.hold.end() == Some(End::Released)
    }
}

impl fmt::Debug for GuardControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardControl").field("path", &self.hold.path()).finish_non_exhaustive()
    }
}
