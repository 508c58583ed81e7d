//! The requests of an election: to come to lead, to hand over, and to observe.

use zookeeper_recipes_dev::Operation::{Exists, GetData, List};

use crate::prelude::*;
use crate::support::counted_client::{CountedClient, counted_clients, settle, without_removals};
use crate::support::latches::leadership;

const CLIENTS: usize = 4;

async fn closed(latch: &LeaderLatch) {
    within("the end of a latch", latch.close()).await.unwrap();
}

/// Joins behind another candidate, with watches on the parent, its own node, and those before it.
async fn waits(
    client: &CountedClient,
    testbed: &Testbed,
    reads: usize,
) -> JoinHandle<(LeaderLatch, Hold)> {
    let (path, curator) = (testbed.path.clone(), client.curator.clone());
    let leads = async move {
        let latch = curator.leader_latch(path).unwrap();
        let hold = latch.leadership().await.unwrap();
        (latch, hold)
    };
    client.waits_in(testbed, reads, leads).await
}

/// On the node that it had, if that is the first still.
#[tokio::test(start_paused = true)]
async fn a_latch_that_leads_again_by_its_old_node_asks_once() {
    let testbed = Testbed::with_parent().await;
    let client = CountedClient::new(&testbed).await;
    let latch = testbed.latch(&client.curator.with_loss_policy(LossPolicy::Suspended));
    let before = leadership(&latch).await;
    client.took();
    assert_eq!(client.proxy.cut(Cut::Reset), 1);
    assert_eq!(within("the loss", before.lost()).await, Loss::Suspended);
    let again = leadership(&latch).await;
    assert_eq!((again.node(), again.fencing_token()), (before.node(), before.fencing_token()));
    let mut took = without_removals(client.took());
    // Whether its node's watch is removed before the connection is back is chance.
    took.retain(|one| *one != Operation::SetWatches);
    // What was sent while the connection broke fails with it, and is sent again.
    assert!(matches!(took[..], [List] | [List, List]), "{took:?}");
    closed(&latch).await;
}

/// Waits until each has been told that this one leads.
async fn told(observers: &mut [LeaderObserver], leader: &Hold) {
    for observer in observers {
        while observer.leader().map(|leader| leader.node).as_deref() != Some(leader.node()) {
            within("the leader", observer.changed()).await.unwrap();
        }
    }
}

/// All requests of the clients are answered.
async fn answered(clients: &[CountedClient]) {
    for client in clients {
        round_trip(&client.curator).await;
    }
    settle().await;
    for client in clients {
        round_trip(&client.curator).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_costs_an_observer_two_reads_and_a_candidate_nothing() {
    const OBSERVERS: usize = 200;
    let testbed = Testbed::own().await;
    let candidates: [_; 3] = counted_clients(&testbed).await;
    let clients: [_; CLIENTS] = counted_clients(&testbed).await;
    let first = testbed.latch(&candidates[0].curator);
    let leader = leadership(&first).await;
    let second = waits(&candidates[1], &testbed, 3).await;
    let third = waits(&candidates[2], &testbed, 4).await;
    let start: usize = clients.iter().map(CountedClient::requests).sum();
    let mut observers: Vec<_> =
        (0..OBSERVERS).map(|number| testbed.observer(&clients[number % CLIENTS].curator)).collect();
    told(&mut observers, &leader).await;
    answered(&clients).await;
    // Each looks, behind a `sync`, which is not counted.
    assert_eq!(clients.iter().map(CountedClient::requests).sum::<usize>() - start, 2 * OBSERVERS);
    for client in &clients {
        client.took();
    }
    waits(&candidates[0], &testbed, 3).await.abort();
    testbed.children_are(3).await;
    answered(&clients).await;
    assert!(clients.iter().all(|client| client.log().is_empty()), "it is not the leader");
    for candidate in &candidates {
        candidate.took();
    }
    let mut leads = first;
    for (next, expected) in [(second, &[List][..]), (third, &[][..])] {
        closed(&leads).await;
        let leader;
        (leads, leader) = within("the next", next).await.unwrap();
        told(&mut observers, &leader).await;
        answered(&clients).await;
        for client in &clients {
            let mut took = client.took();
            took.sort_by_key(|one| *one == GetData);
            let each = OBSERVERS / CLIENTS;
            assert_eq!(took, [vec![List; each], vec![GetData; each]].concat());
        }
        answered(&candidates).await;
        // As without observers.
        assert_eq!(candidates[2].took(), expected);
        let _ = (candidates[0].took(), candidates[1].took());
    }
}

/// There is no leader, or not even the path: the observer watches for a change.
#[tokio::test(start_paused = true)]
async fn without_a_leader_an_observer_looks_once_and_waits() {
    let testbed = Testbed::new().await;
    let (client, other) = (CountedClient::new(&testbed).await, CountedClient::new(&testbed).await);
    client.took();
    let mut observer = testbed.observer(&client.curator);
    let mut changed = async || within("the leader", observer.changed()).await.unwrap();
    assert_eq!(changed().await, None);
    assert_eq!(client.took(), [List, Exists]);
    testbed.create(&testbed.path, CreateMode::Persistent).await;
    eventually("it looks", async || client.log().len() >= 2).await;
    assert_eq!(client.took(), [List, List]);
    for _ in 0..3 {
        let latch = testbed.latch(&other.curator);
        let leader = leadership(&latch).await;
        let told = changed().await.unwrap();
        assert_eq!(told.fencing_token, Some(leader.fencing_token()));
        assert_eq!(without_removals(client.took()), [List, GetData]);
        closed(&latch).await;
        assert_eq!(changed().await, None);
        assert_eq!(without_removals(client.took()), [List, List]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_observer_takes_the_watch_along() {
    let testbed = Testbed::with_parent().await;
    let (client, other) = (CountedClient::new(&testbed).await, CountedClient::new(&testbed).await);
    let latch = testbed.latch(&other.curator);
    let leader = leadership(&latch).await;
    let mut observers = [testbed.observer(&client.curator), testbed.observer(&client.curator)];
    told(&mut observers, &leader).await;
    answered(std::slice::from_ref(&client)).await;
    client.took();
    let [one, two] = observers;
    drop(one);
    answered(std::slice::from_ref(&client)).await;
    assert_eq!(client.took(), [], "the other one watches the same node");
    drop(two);
    eventually("it is taken back", async || !client.log().is_empty()).await;
    closed(&latch).await;
    answered(std::slice::from_ref(&client)).await;
    // Perhaps more than once.
    assert_eq!(without_removals(client.took()), []);
}
