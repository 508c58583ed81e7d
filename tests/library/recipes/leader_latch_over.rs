//! How a leader latch ends with what it stands on: its `Curator`, a client's own session, its runtime.

use zookeeper_recipes::{AcquireError, LeaderError, LeaderLatch, Loss, SessionError};

use super::latches::{ceased, ended, leadership, told};
use crate::harness::{Arena, within};

#[tokio::test(start_paused = true)]
async fn a_curator_that_closes_ends_its_latches() {
    let arena = Arena::new().await;
    let curators = arena.curators(2).await;
    let curator = &curators[0];
    let (latch, leads) = arena.leading(curator).await;
    let (waits, latent) = (arena.queued(curator).await, arena.latch(curator));
    let rival = arena.queued(&curators[1]).await;
    let (mut watch, mut of_waiter) = (told(&latch), told(&waits));
    within("the end", curator.close()).await.unwrap();
    assert!(!latch.has_leadership());
    assert_eq!(leads.loss(), Some(Loss::Closed));
    leadership(&rival).await;
    ceased(&mut watch).await;
    for mut watch in [watch, of_waiter.clone()] {
        ends_closed(ended(&mut watch).await);
    }
    is_over(&latch, ends_closed).await;
    is_over(&waits, ends_closed).await;
    ended(&mut of_waiter).await;
    // To start one now is in vain, and is told.
    match latent.start() {
        Ok(()) => is_over(&latent, ends_closed).await,
        Err(error) => ends_closed(error),
    }
    within("a close", latch.close()).await.unwrap();
}

fn ends_closed(error: LeaderError) {
    let LeaderError::Ended(AcquireError::Session { source, .. }) = &error else {
        panic!("{error:?}")
    };
    assert!(matches!(source, SessionError::Closed), "{error:?}");
}

async fn is_over(latch: &LeaderLatch, because: impl Fn(LeaderError)) {
    because(within("the end", latch.await_leadership()).await.unwrap_err());
    assert!(!latch.has_leadership() && latch.leadership().is_none());
}

mod real {
    use super::*;
    use zookeeper_recipes::Curator;

    /// On a client's own session, after which there is none.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_latch_ends_with_the_session_of_a_clients_own() {
        let arena = Arena::real().await;
        let client = arena.client().await;
        let curator = Curator::from_client(client.clone()).unwrap();
        let (latch, leads) = arena.leading(&curator).await;
        let owner = arena.stat(leads.node()).await.unwrap().ephemeral_owner;
        assert_eq!(owner, client.session_id().0);
        latch.close().await.unwrap();
        client.sync("/").await.expect("the session lives on");
        let (latch, leads) = arena.leading(&curator).await;
        let mut watch = told(&latch);
        arena.kill_session(&curator).await;
        ceased(&mut watch).await;
        assert_eq!(leads.loss(), Some(Loss::SessionExpired));
        let error = ended(&mut watch).await;
        let LeaderError::Ended(AcquireError::Session { source, .. }) = &error else {
            panic!("{error:?}")
        };
        assert!(matches!(source, SessionError::Expired), "{error:?}");
        arena.children_are(0).await;
    }
}
