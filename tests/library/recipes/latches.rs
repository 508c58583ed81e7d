//! What the tests of leader latches share: making them, and reading what their watches tell.

use std::pin::pin;

use futures_util::poll;
use zookeeper_recipes::{Curator, LeaderError, LeaderLatch, LeaderState, LeaderWatch, Leadership};

use crate::harness::{Arena, eventually, within};

impl Arena {
    /// At the test's path, not started.
    pub(crate) fn latch(&self, curator: &Curator) -> LeaderLatch {
        LeaderLatch::new(curator, &self.path).expect("a latch path")
    }

    /// Started, and its node is there.
    pub(crate) async fn queued(&self, curator: &Curator) -> LeaderLatch {
        let before = self.children().await.len();
        let latch = self.latch(curator);
        latch.start().unwrap();
        self.children_are(before + 1).await;
        latch
    }

    /// Started, and it leads.
    pub(crate) async fn leading(&self, curator: &Curator) -> (LeaderLatch, Leadership) {
        let latch = self.latch(curator);
        latch.start().unwrap();
        let leadership = leadership(&latch).await;
        (latch, leadership)
    }

    pub(crate) async fn remove(&self, node: &str) {
        self.admin.delete(node, None).await.unwrap();
    }
}

/// Waits until it leads.
pub(crate) async fn leadership(latch: &LeaderLatch) -> Leadership {
    within("leadership", latch.await_leadership()).await.unwrap()
}

/// A watch that was told whether it leads now.
pub(crate) fn told(latch: &LeaderLatch) -> LeaderWatch {
    let mut watch = latch.watch();
    watch.state();
    watch
}

/// The next that the watch tells is that it leads.
pub(crate) async fn gained(watch: &mut LeaderWatch) -> Leadership {
    match within("that it leads", watch.changed()).await.unwrap() {
        LeaderState::Leader(leadership) => leadership,
        other => panic!("{other:?}"),
    }
}

/// The next that the watch tells is that it does not lead.
pub(crate) async fn ceased(watch: &mut LeaderWatch) {
    let told = within("that it does not lead", watch.changed()).await.unwrap();
    assert!(!told.is_leader(), "{told:?}");
}

/// The next that the watch tells is that there is nothing to tell any more.
pub(crate) async fn ended(watch: &mut LeaderWatch) -> LeaderError {
    within("the end", watch.changed()).await.unwrap_err()
}

/// There is nothing to tell at this moment.
pub(crate) async fn is_quiet(watch: &mut LeaderWatch) {
    let mut changed = pin!(watch.changed());
    let told = poll!(changed.as_mut());
    assert!(told.is_pending(), "{told:?}");
}

/// Waits until one of them leads and the others do not, and says which it is.
pub(crate) async fn the_leader(latches: &[LeaderLatch]) -> usize {
    let leaders = || latches.iter().filter(|latch| latch.has_leadership()).count();
    eventually("one leads", async || leaders() == 1).await;
    latches.iter().position(LeaderLatch::has_leadership).expect("the leader goes on")
}
