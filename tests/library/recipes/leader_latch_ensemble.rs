//! Leader latches on an ensemble.

use std::time::Duration;

use zookeeper_recipes::{Curator, LeaderLatch, LossPolicy};

use super::latches::{ceased, gained, is_quiet, leaders, leadership, the_leader, told};
use crate::harness::{Arena, TICK, within};

/// Long against what a busy machine holds a task up for.
const SESSION: Duration = Duration::from_secs(6);

/// On a member of its own each.
async fn curators(arena: &Arena) -> Vec<Curator> {
    let mut curators = Vec::new();
    for member in arena.servers.members() {
        let builder = arena.builder().session_timeout(SESSION);
        curators.push(builder.connect(member.connect_string()).await.unwrap());
    }
    curators
}

fn latches(curators: &[Curator], path: &str) -> Vec<LeaderLatch> {
    let latch = |curator| LeaderLatch::new(curator, path).unwrap();
    curators.iter().map(latch).collect()
}

/// Curator: `TestLeaderLatchCluster#testInCluster`: the leader's server is killed, and one of the others leads. (There it
/// is enough that one does, in the end; here nobody does before the old leader knows that it does not.)
#[tokio::test(start_paused = true)]
async fn when_the_leaders_server_dies_one_of_the_others_leads() {
    let arena = Arena::three(TICK, 10).await;
    let curators = curators(&arena).await;
    let mut latches = latches(&curators, &arena.path);
    latches.iter().for_each(|latch| latch.start().unwrap());
    let number = the_leader(&latches).await;
    let leads = leadership(&latches[number]).await;
    let old = latches.remove(number);
    let mut watch = told(&old);
    let next = {
        let (one, two) = (&latches[0], &latches[1]);
        let member = &arena.servers.members()[number];
        let (killed, next) = tokio::join!(member.kill(), async {
            tokio::select! {
                leads = leadership(one) => leads,
                leads = leadership(two) => leads,
            }
        });
        killed.unwrap();
        next
    };
    // By the clock, at its first look.
    assert!(!leads.is_held() && !old.has_leadership(), "two lead");
    assert!(next.fencing_token() > leads.fencing_token());
    ceased(&mut watch).await;
    assert_eq!(leaders(&latches), 1);
    // It is back when its server is, and has its turn.
    arena.servers.members()[number].start_again().await.unwrap();
    for latch in &latches {
        latch.close().await.unwrap();
    }
    gained(&mut watch).await;
    old.close().await.unwrap();
}

/// The servers are restarted one after the other, as an upgrade does, and nobody is told anything: nobody leads anew, and
/// nobody loses a place.
#[tokio::test(start_paused = true)]
async fn a_rolling_restart_is_no_event() {
    let arena = Arena::three(TICK, 10).await;
    let mut latches = Vec::new();
    for policy in [LossPolicy::Lease, LossPolicy::SessionExpired, LossPolicy::Lease] {
        let builder = arena.builder().session_timeout(Duration::from_secs(60));
        let curator = arena.connect(builder).await;
        let latch = arena.latch(&curator).with_loss_policy(policy);
        latch.start().unwrap();
        crate::harness::eventually("its place", async || {
            latch.participants().await.unwrap().len() == latches.len() + 1
        })
        .await;
        latches.push((latch, curator));
    }
    let leads = leadership(&latches[0].0).await;
    let queue = latches[0].0.participants().await.unwrap();
    let mut watches: Vec<_> = latches.iter().map(|(latch, _)| told(latch)).collect();
    for member in arena.servers.members() {
        member.restart().await.unwrap();
        arena.servers.serving().await;
        for (_, curator) in &latches {
            crate::harness::round_trip(curator).await;
        }
        assert!(leads.is_held());
    }
    for watch in &mut watches {
        is_quiet(watch).await;
    }
    assert_eq!(within("the queue", latches[2].0.participants()).await.unwrap(), queue);
}
