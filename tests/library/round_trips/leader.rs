//! What an election takes: to come to lead, to hand over, and for who only looks.

use crate::harness::Operation::{Create, Delete, Exists, GetData, List};
use tokio::task::JoinHandle;
use zookeeper_recipes::{
    LeaderError, LeaderLatch, LeaderObserver, LeaderSelector, Leadership, Loss, LossPolicy,
    Participant, Shortcuts,
};

use super::link::{Linked, linked, settle, without_removals};
use crate::harness::{Arena, Cut, Operation, eventually, within};

const ALL: Shortcuts = Shortcuts::ALL;
const CLIENTS: usize = 4;

impl Linked {
    fn latch(&self, arena: &Arena) -> LeaderLatch {
        LeaderLatch::new(&self.curator, &arena.path).unwrap()
    }

    fn observer(&self, arena: &Arena) -> LeaderObserver {
        LeaderObserver::of_latch(&self.curator, &arena.path).unwrap()
    }
}

async fn leads(latch: &LeaderLatch) -> Leadership {
    latch.start().unwrap();
    within("the leadership", latch.await_leadership()).await.unwrap()
}

async fn closed(latch: &LeaderLatch) {
    within("the end of a latch", latch.close()).await.unwrap();
}

/// Joins behind somebody, with watches on the parent, its own node, and those before it.
async fn waits(
    linked: &Linked,
    arena: &Arena,
    reads: usize,
) -> (LeaderLatch, JoinHandle<Result<Leadership, LeaderError>>) {
    let latch = linked.latch(arena);
    let waiting = latch.clone();
    let waiting = async move {
        waiting.start().unwrap();
        waiting.await_leadership().await
    };
    (latch, linked.waits_in(arena, reads, waiting).await)
}

#[tokio::test(start_paused = true)]
async fn a_term_of_a_selector_is_a_create_and_a_delete() {
    let (arena, linked) = Linked::known().await;
    let selector = LeaderSelector::new(&linked.curator, &arena.path).unwrap();
    for _ in 0..3 {
        within("a term", async { selector.run(async |_| ()).await }).await.unwrap();
        assert_eq!(linked.took(), [Create, Delete]);
    }
}

/// The event admits it.
#[tokio::test(start_paused = true)]
async fn a_hand_over_takes_no_request_of_the_next_leader() {
    let arena = Arena::with_parent().await;
    let [first, second, third] = linked(&arena, ALL).await;
    let leader = first.latch(&arena);
    leads(&leader).await;
    let (next, waiting) = waits(&second, &arena, 3).await;
    assert_eq!(second.took(), [Create, GetData, List, GetData, GetData]);
    let (last, waits) = waits(&third, &arena, 4).await;
    first.took();
    third.took();
    closed(&leader).await;
    within("the next", waiting).await.unwrap().unwrap();
    assert_eq!((first.took(), second.took()), (vec![Delete], vec![]));
    third.round_trip().await;
    settle().await;
    third.round_trip().await;
    settle().await;
    // It is next now, and makes sure of that beforehand.
    assert_eq!(third.took(), [List]);
    closed(&next).await;
    within("the last", waits).await.unwrap().unwrap();
    assert_eq!((second.took(), third.took()), (vec![Delete], vec![]));
    closed(&last).await;
}

/// On the node that it had, if that is the first still.
#[tokio::test(start_paused = true)]
async fn who_leads_again_after_a_loss_that_left_its_node_asks_once() {
    let arena = Arena::with_parent().await;
    let linked = Linked::new(&arena, ALL).await;
    let latch = linked.latch(&arena).with_loss_policy(LossPolicy::Suspended);
    let before = leads(&latch).await;
    linked.took();
    assert_eq!(linked.proxy.cut(Cut::Reset), 1);
    assert_eq!(within("the loss", before.lost()).await, Loss::Suspended);
    let again = within("the leadership", latch.await_leadership()).await.unwrap();
    assert_eq!((again.node(), again.fencing_token()), (before.node(), before.fencing_token()));
    let mut took = without_removals(linked.took());
    // Whether its node's watch is removed before the connection is back is chance.
    took.retain(|one| *one != Operation::SetWatches);
    // What was sent while the connection broke fails with it, and is sent again.
    assert!(matches!(took[..], [List] | [List, List]), "{took:?}");
    closed(&latch).await;
}

/// Waits until each has been told that this one leads.
async fn told(observers: &mut [LeaderObserver], leader: &Leadership) {
    for observer in observers {
        while observer.leader().map(|leader| leader.path).as_deref() != Some(leader.node()) {
            within("who leads", observer.changed()).await.unwrap();
        }
    }
}

/// All requests of the clients are answered.
async fn answered(clients: &[Linked]) {
    for client in clients {
        client.round_trip().await;
    }
    settle().await;
    for client in clients {
        client.round_trip().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_costs_an_observer_two_reads_and_a_candidate_nothing() {
    const OBSERVERS: usize = 200;
    let arena = Arena::own().await;
    let candidates: [_; 3] = linked(&arena, ALL).await;
    let clients: [_; CLIENTS] = linked(&arena, ALL).await;
    let first = candidates[0].latch(&arena);
    let leader = leads(&first).await;
    let (second, next) = waits(&candidates[1], &arena, 3).await;
    let (third, last) = waits(&candidates[2], &arena, 4).await;
    let start: usize = clients.iter().map(Linked::requests).sum();
    let mut observers: Vec<_> =
        (0..OBSERVERS).map(|number| clients[number % CLIENTS].observer(&arena)).collect();
    told(&mut observers, &leader).await;
    answered(&clients).await;
    // Each looks, behind a `sync`, which is not counted.
    assert_eq!(clients.iter().map(Linked::requests).sum::<usize>() - start, 2 * OBSERVERS);
    for client in &clients {
        client.took();
    }
    let (fourth, coming) = waits(&candidates[0], &arena, 3).await;
    closed(&fourth).await;
    within("its end", coming).await.unwrap().unwrap_err();
    answered(&clients).await;
    assert!(clients.iter().all(|client| client.log().is_empty()), "it is not the leader");
    for candidate in &candidates {
        candidate.took();
    }
    for (ends, begins, expected) in [(first, next, &[List][..]), (second, last, &[][..])] {
        closed(&ends).await;
        let leader = within("the next", begins).await.unwrap().unwrap();
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
    drop(third);
}

/// Nobody leads, or not even the path is there: what says when that changes is watched.
#[tokio::test(start_paused = true)]
async fn where_nobody_leads_an_observer_looks_once_and_waits() {
    let arena = Arena::new().await;
    let (linked, other) = (Linked::new(&arena, ALL).await, Linked::new(&arena, ALL).await);
    linked.took();
    let mut observer = linked.observer(&arena);
    let mut changed = async || within("who leads", observer.changed()).await.unwrap();
    assert_eq!(changed().await, None);
    assert_eq!(linked.took(), [List, Exists]);
    arena.create(&arena.path, zookeeper_recipes::zookeeper_client::CreateMode::Persistent).await;
    eventually("it looks", async || linked.log().len() >= 2).await;
    assert_eq!(linked.took(), [List, List]);
    for _ in 0..3 {
        let latch = other.latch(&arena);
        let leader = leads(&latch).await;
        let told = changed().await.as_ref().map(Participant::fencing_token);
        assert_eq!(told, Some(leader.fencing_token()));
        assert_eq!(without_removals(linked.took()), [List, GetData]);
        closed(&latch).await;
        assert_eq!(changed().await, None);
        assert_eq!(without_removals(linked.took()), [List, List]);
    }
}

/// Whoever has gone takes its watch along.
#[tokio::test(start_paused = true)]
async fn the_last_observer_takes_the_watch_along() {
    let arena = Arena::with_parent().await;
    let (linked, other) = (Linked::new(&arena, ALL).await, Linked::new(&arena, ALL).await);
    let latch = other.latch(&arena);
    let leader = leads(&latch).await;
    let mut observers = [linked.observer(&arena), linked.observer(&arena)];
    told(&mut observers, &leader).await;
    answered(std::slice::from_ref(&linked)).await;
    linked.took();
    let [one, two] = observers;
    drop(one);
    answered(std::slice::from_ref(&linked)).await;
    assert_eq!(linked.took(), [], "the other one watches the same node");
    drop(two);
    eventually("it is taken back", async || !linked.log().is_empty()).await;
    closed(&latch).await;
    answered(std::slice::from_ref(&linked)).await;
    // Perhaps more than once.
    assert_eq!(without_removals(linked.took()), []);
}
