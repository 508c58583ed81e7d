//! An ensemble with a follower that can be made to lag, for all tests that run at the same time.

use std::sync::{Arc, Weak};

use tokio::runtime::Runtime;
use tokio::sync::Mutex;
use zookeeper_testkit::{Fault, TestEnsemble};

static SHARED: Mutex<Weak<Lagging>> = Mutex::const_new(Weak::new());

pub(crate) struct Lagging {
    ensemble: Option<TestEnsemble>,
    /// Its proxies outlive the test that started it.
    runtime: Option<Runtime>,
    leader: usize,
    follower: usize,
}

impl Lagging {
    /// The last one to use it ends it.
    pub(crate) async fn shared() -> Arc<Self> {
        let mut shared = SHARED.lock().await;
        if let Some(lagging) = shared.upgrade() {
            return lagging;
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let ensemble = runtime.spawn(TestEnsemble::start(3)).await.unwrap().expect("an ensemble");
        let leader = ensemble.leader().await.unwrap();
        let follower = (leader + 1) % 3;
        let lagging = Self { ensemble: Some(ensemble), runtime: Some(runtime), leader, follower };
        let lagging = Arc::new(lagging);
        *shared = Arc::downgrade(&lagging);
        lagging
    }

    fn ensemble(&self) -> &TestEnsemble {
        self.ensemble.as_ref().unwrap()
    }

    pub(crate) fn leader(&self) -> &str {
        self.ensemble().member(self.leader).connect_string()
    }

    pub(crate) fn follower(&self) -> &str {
        self.ensemble().member(self.follower).connect_string()
    }

    /// The follower and the leader do not hear each other.
    pub(crate) fn lag(&self) -> Fault {
        self.ensemble().part(self.follower, self.leader)
    }
}

impl Drop for Lagging {
    fn drop(&mut self) {
        drop(self.ensemble.take());
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
