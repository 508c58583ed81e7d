//! When a hold counts as lost, by policy.

use zookeeper_recipes::interop::LossPolicy;
use zookeeper_recipes::session::ConnectionState;
use zookeeper_recipes::{Attempt, Curator, Loss};

use crate::harness::{Arena, Cut, lost_by, until, within};

/// A server that is gone for a moment, well within the lease.
#[tokio::test(start_paused = true)]
async fn a_short_disconnection_costs_a_hold_only_under_the_suspended_policy() {
    let arena = Arena::own().await;
    let strict = arena.patient_builder().loss_policy(LossPolicy::Suspended);
    let curator = arena.connect(strict).await;
    let on = |curator: &Curator, name: &str| curator.mutex_for(&arena.path, name).unwrap();
    let mutex = |name: &str| on(&curator, name);
    let suspended = mutex("suspended").acquire().await.unwrap();
    let lease = on(&curator.with_loss_policy(LossPolicy::Lease), "lease").acquire().await.unwrap();
    let session = on(&curator.with_loss_policy(LossPolicy::SessionExpired), "session");
    let session = session.acquire().await.unwrap();
    let token = suspended.cancellation_token();

    arena.server.stop().await.unwrap();
    assert_eq!(within("the loss", suspended.lost()).await, Loss::Suspended);
    assert!(token.is_cancelled() && !suspended.is_held());
    assert!(lease.is_held() && session.is_held());
    arena.server.start_again().await.unwrap();
    until(&curator, ConnectionState::Reconnected).await;
    assert!(!suspended.is_held(), "once and for good");
    lease.release().await.unwrap();
    session.release().await.unwrap();

    // The session is the same, so the lost hold's node still keeps others out, and goes with the guard.
    assert!(matches!(mutex("suspended").try_acquire().await.unwrap(), Attempt::Busy));
    assert_eq!(lost_by(suspended.release().await), Loss::Suspended);
    let again = within("the lock", mutex("suspended").acquire()).await.unwrap();
    assert!(again.is_held());
    again.release().await.unwrap();
}

mod real {
    use super::*;
    use zookeeper_recipes::zookeeper_client::SessionState;

    /// The client has a runtime of its own. That of the `Curator` stands still while the link goes and comes.
    #[test]
    fn a_disconnection_that_was_over_before_anybody_looked_is_one() {
        let outer = tokio::runtime::Runtime::new().unwrap();
        let inner = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (arena, proxy, client) = outer.block_on(async {
            let arena = Arena::real().await;
            let (proxy, client) = arena.linked_client().await;
            (arena, proxy, client)
        });
        let (curator, suspended, lease) = inner.block_on(async {
            let curator = Curator::builder().from_client(client.clone()).unwrap();
            let suspended = arena.mutex(&curator.with_loss_policy(LossPolicy::Suspended));
            let suspended = suspended.acquire().await.unwrap();
            let path = format!("{}-lease", arena.path);
            let lease = curator.mutex(&path).unwrap().acquire().await.unwrap();
            (curator, suspended, lease)
        });
        outer.block_on(within("the connection", async {
            let mut state = client.state_watcher();
            proxy.cut(Cut::Reset);
            while state.changed().await != SessionState::SyncConnected {}
        }));
        inner.block_on(async {
            assert_eq!(within("the loss", suspended.lost()).await, Loss::Suspended);
            assert!(lease.is_held());
            lease.release().await.unwrap();
            drop(suspended);
            within("the end", curator.close()).await;
        });
        outer.block_on(async {
            drop((proxy, client, arena));
        });
    }
}
