//! The requests of slots, one by one.

use zookeeper_recipes::{SlotGuard, Slots};
use zookeeper_recipes_dev::Operation::{self, Create, Delete, GetData, List};

use crate::prelude::*;
use crate::support::counted_client::{CountedClient, settle, without_removals};

/// The number of indexes that are listed together.
const TOGETHER: usize = 64;

/// More indexes than that, all of which this client knows: their paths are there, and no other client came.
async fn known() -> (Testbed, CountedClient, Slots) {
    const COUNT: usize = TOGETHER + 6;
    let testbed = Testbed::with_parent().await;
    let client = CountedClient::new(&testbed).await;
    let slots = client.curator.slots(&testbed.path, COUNT).unwrap();
    let mut all = Vec::new();
    for _ in 0..COUNT {
        all.push(within("a slot", slots.acquire()).await.unwrap());
    }
    for slot in all {
        slot.release().await.unwrap();
    }
    (testbed, client, slots)
}

/// A slot, and what it took to have it. The mutex of the semaphore is released meanwhile.
async fn acquired(client: &CountedClient, slots: &Slots) -> (SlotGuard, Vec<Operation>) {
    client.took();
    let slot = within("a slot", slots.acquire()).await.unwrap();
    let is_released = async || {
        client.log().contains(&Delete)
            && client.proxy.replies(Delete) == client.proxy.requests(Delete)
    };
    eventually("the semaphore's mutex is released", is_released).await;
    settle().await;
    (slot, without_reads(client.took()))
}

async fn released(client: &CountedClient, slot: SlotGuard) {
    client.took();
    slot.release().await.unwrap();
    assert_eq!(without_reads(client.took()), [Delete, Delete]);
}

/// Without the requests of the node monitor, which watches the nodes of holds that last.
fn without_reads(mut took: Vec<Operation>) -> Vec<Operation> {
    took.retain(|operation| *operation != GetData);
    took
}

/// Beyond those of the permit, where one more waits for the other: the listings together, and the create.
#[tokio::test(start_paused = true)]
async fn a_slot_costs_a_permit_the_listings_of_64_indexes_and_a_create() {
    let (_testbed, client, slots) = known().await;
    let permit = [Create, Create, Delete];
    let look = |indexes| vec![List; indexes];
    for index in 0..3 {
        let preferring = slots.clone().prefer(index).unwrap();
        let (slot, took) = acquired(&client, &preferring).await;
        assert_eq!(took, [&permit[..], &look(1), &[Create]].concat());
        assert_eq!(slot.index(), index);
        released(&client, slot).await;
    }
    let mut all = Vec::new();
    for index in 0..TOGETHER {
        let (slot, took) = acquired(&client, &slots).await;
        assert_eq!(took, [&permit[..], &look(TOGETHER), &[Create]].concat());
        assert_eq!(slot.index(), index);
        all.push(slot);
    }
    let last = slots.clone().prefer(0).unwrap();
    for (slots, looks) in [(&slots, vec![TOGETHER, 6]), (&last, vec![1, TOGETHER, 6])] {
        let (slot, took) = acquired(&client, slots).await;
        assert_eq!(took, [&permit[..], &look(looks.iter().sum()), &[Create]].concat());
        all.push(slot);
    }
    for slot in all {
        released(&client, slot).await;
    }
}

/// Only the first listing of several is held: the others are sent nevertheless.
#[tokio::test(start_paused = true)]
async fn the_listings_are_sent_together() {
    let (_testbed, client, slots) = known().await;
    client.took();
    let held = client.proxy.hold(Message::reply(List).nth(1));
    let asking = tokio::spawn(async move { slots.acquire().await });
    within("a listing", held.struck()).await;
    settle().await;
    assert_eq!(client.took().iter().filter(|one| **one == List).count(), TOGETHER);
    held.heal();
    released(&client, within("the slot", asking).await.unwrap().unwrap()).await;
}

#[tokio::test(start_paused = true)]
async fn a_try_when_all_are_taken_costs_one_listing() {
    let testbed = Testbed::with_parent().await;
    let client = CountedClient::new(&testbed).await;
    let slots = client.curator.slots(&testbed.path, 1).unwrap();
    let (slot, _) = acquired(&client, &slots).await;
    fails(slots.try_acquire().await, ErrorKind::Busy);
    assert_eq!(client.took(), [List]);
    released(&client, slot).await;
}

/// A permit is passed on without a request. Its index is free for those that look after the release.
#[tokio::test(start_paused = true)]
async fn a_slot_that_passes_to_a_task_of_the_process_costs_a_delete_a_look_and_a_create() {
    let testbed = Testbed::with_parent().await;
    let client = CountedClient::new(&testbed).await;
    let slots = client.curator.slots(&testbed.path, 2).unwrap();
    let (zero, _) = acquired(&client, &slots).await;
    let (one, _) = acquired(&client, &slots).await;
    let asking = tokio::spawn(async move { slots.acquire().await });
    testbed.nodes_are(1, 3).await;
    settle().await;
    client.took();
    zero.release().await.unwrap();
    let next = within("the slot", asking).await.unwrap().unwrap();
    assert_eq!(next.index(), 0);
    settle().await;
    // One delete is that of the index. The others are those of the node by which the task waited, and of the semaphore's mutex.
    let mut took = without_removals(client.took());
    took.sort_by_key(|one| [Delete, List, Create].iter().position(|of| of == one));
    assert_eq!(took, [Delete, Delete, Delete, List, List, Create]);
    released(&client, next).await;
    released(&client, one).await;
}
