//! [`Leadership`]: one term of a leader.

use std::future::Future;

use tokio_util::sync::CancellationToken;

use super::candidate::Candidate;
use crate::guard::HoldView;
use crate::queue::Hold;
use crate::surface::hold_surface;

/// Says whether this process still leads in one term, and carries the term's cancellation and fencing tokens.
///
/// It is a view, cheap to clone, and can be kept anywhere. Dropping it does not end the term: the
/// [`LeaderLatch`](crate::LeaderLatch) or the [`LeaderSelector`](crate::LeaderSelector) does.
///
/// **It is no proof.** The leadership may be lost while this lives. Check [`is_held`](Self::is_held) before each step
/// that needs it, stop when the [`cancellation_token`](Self::cancellation_token) is cancelled, and pass the
/// [`fencing_token`](Self::fencing_token) to a resource that compares it. Use [`fenced`](Self::fenced) for writes to ZooKeeper.
///
/// The token is that of the leader's node. A latch that leads again on the node it had, because nobody else can have led
/// in between, has the same; the token of any other leader is larger.
#[derive(Clone)]
pub struct Leadership {
    view: HoldView,
    stop: CancellationToken,
}

hold_surface!(Leadership, "leadership");

impl Leadership {
    pub(super) fn new(hold: &Hold, candidate: &Candidate) -> Self {
        let (path, session) = (candidate.recipe.path.clone(), candidate.recipe.curator.session());
        let view = HoldView::new(hold.state(), path, session);
        Self { view, stop: hold.state().ended().child_token() }
    }

    fn view(&self) -> &HoldView {
        &self.view
    }

    /// A token that is cancelled when the work of a leader is to end: when the leadership is lost or given up, and when
    /// a selector is [asked to step down](crate::LeaderRun::interrupt_leadership), in which case it is held until the
    /// body has ended. Cancelling it has no effect on the leadership.
    pub fn cancellation_token(&self) -> CancellationToken {
        self.stop.child_token()
    }

    /// Cancelled, it asks for the end of the work.
    pub(super) fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// Whether both are of one term.
    pub(super) fn is(&self, other: &Self) -> bool {
        std::sync::Arc::ptr_eq(self.view.state(), other.view.state())
    }
}
