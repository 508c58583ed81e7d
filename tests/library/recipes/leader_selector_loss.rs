//! How a leader by `LeaderSelector` loses its place, and who is told.

use std::time::Duration;

use zookeeper_recipes::{
    ConnectionState, Curator, LeaderSelector, Loss, LossPolicy, RetryPolicy, TermError,
};

use super::leading::{Ended, Led, Report};
use crate::harness::{Arena, TICK, eventually, within};

/// How the place was lost, and what the body returned.
fn lost(report: Report) -> (Loss, Ended) {
    match report {
        Err(TermError::Lost { loss, value, .. }) => (loss, value),
        report => panic!("{report:?}"),
    }
}

async fn is(curator: &Curator, wanted: ConnectionState) {
    let mut state = curator.watch_state();
    let reached = state.wait_for(|state| *state == wanted);
    drop(within("a state of the connection", reached).await.unwrap());
}

/// Curator: TestLeaderSelector#testErrorPolicies, and #testServerDying, which asserts less. (There a listener has to
/// ask for it, else the leader goes on.)
#[tokio::test(start_paused = true)]
async fn each_policy_says_when_a_leader_has_to_stop() {
    let arena = Arena::own().await;
    let builder = arena.short_lived_builder();
    let curator = arena.connect(builder).await;
    let policies = [LossPolicy::Suspended, LossPolicy::Lease, LossPolicy::SessionExpired];
    let mut all = Vec::new();
    for policy in policies {
        let path = format!("{}-{policy:?}", arena.path);
        let selector = LeaderSelector::new(&curator, &path).unwrap().with_loss_policy(policy);
        let mut led = Led::obedient(&selector);
        let term = led.leads().await;
        all.push((led, term));
    }
    arena.server.stop().await.unwrap();
    let [suspended, lease, session] = &all[..] else { unreachable!() };
    let loss = within("suspended", suspended.1.leadership.lost()).await;
    assert_eq!(loss, Loss::Suspended);
    assert_eq!(within("the lease", lease.1.leadership.lost()).await, Loss::LeaseEnded);
    assert!(session.1.leadership.is_held() && session.0.run.has_leadership());
    let loss = within("the session", session.1.leadership.lost()).await;
    assert_eq!(loss, Loss::SessionExpired);
    is(&curator, ConnectionState::Lost).await;
    for (led, term) in &all {
        term.over().await;
        assert!(!led.run.has_leadership() && led.run.leadership().is_none());
    }
    arena.server.start_again().await.unwrap();
    for ((led, _), expected) in
        all.iter().zip([Loss::Suspended, Loss::LeaseEnded, Loss::SessionExpired])
    {
        assert_eq!(lost(led.report().await), (expected, Ended::SteppedDown));
    }
}

/// Curator: TestLeaderSelectorCluster#testLostRestart (CURATOR-671: it could not queue up again).
#[tokio::test(start_paused = true)]
async fn after_an_outage_of_all_servers_it_can_queue_up_again() {
    let arena = Arena::three(TICK, 10).await;
    let retry = RetryPolicy::n_times(1000, Duration::from_millis(50));
    let curator = arena.connect(arena.short_lived_builder().retry(retry)).await;
    let mut led = Led::obedient(&arena.selector(&curator));
    let term = led.leads().await;
    arena.children_are(1).await;
    for member in arena.servers.members() {
        member.stop().await.unwrap();
    }
    is(&curator, ConnectionState::Lost).await;
    term.over().await;
    assert!(!led.run.has_leadership() && led.began().is_none());
    for member in arena.servers.members() {
        member.launch().await.unwrap();
    }
    arena.servers.serving().await;
    assert_eq!(lost(led.report().await).1, Ended::SteppedDown);
    assert!(led.run.requeue().unwrap());
    let again = led.leads().await;
    assert!(again.leadership.fencing_token() > term.leadership.fencing_token());
    eventually("its own node, alone", async || {
        let names = arena.children().await;
        names.len() == 1 && again.leadership.node().ends_with(&names[0])
    })
    .await;
    assert_eq!(again.leadership.loss(), None);
    led.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_loss_while_the_body_runs_is_told_with_what_it_returns() {
    let arena = Arena::new().await;
    let curator = arena.short_lived_curator().await;
    let mut led = Led::stubborn(&arena.selector(&curator).auto_requeue());
    for loss in [Loss::NodeDeleted, Loss::SessionExpired] {
        let term = led.leads().await;
        if loss == Loss::NodeDeleted {
            arena.admin.delete(term.leadership.node(), None).await.unwrap();
        } else {
            arena.kill_session(&curator).await;
        }
        assert_eq!(within("the loss", term.leadership.lost()).await, loss);
        assert!(term.leadership.cancellation_token().is_cancelled());
        assert!(!term.is_over(), "it has the grace to tidy up");
        assert!(!led.run.has_leadership() && led.run.leadership().is_none());
        assert!(led.began().is_none(), "one body at a time");
        term.end();
        assert_eq!(lost(led.report().await), (loss, Ended::Told));
    }
    led.leads().await;
}
