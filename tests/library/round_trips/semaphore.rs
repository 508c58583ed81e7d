//! The requests of a semaphore, one by one.

use std::collections::HashSet;

use futures_util::stream::{FuturesUnordered, StreamExt};
use zookeeper_recipes_dev::Operation::{self, Create, Delete, GetData, List};

use crate::prelude::*;
use crate::support::counted_client::{CountedClient, settle, without_removals};
use crate::support::leases::{asks, asks_for, served, spawned};

const LIMIT: usize = 3;

const RETENTION: Duration = Duration::from_secs(60);

/// The folders are there.
async fn testbed() -> Testbed {
    let testbed = Testbed::with_parent().await;
    for folder in ["locks", "leases"] {
        testbed.create(&format!("{}/{folder}", testbed.path), CreateMode::Persistent).await;
    }
    testbed
}

/// A client, and its semaphore.
async fn client_and_semaphore(testbed: &Testbed) -> (CountedClient, InterProcessSemaphoreV2) {
    let client = CountedClient::new(testbed).await;
    let semaphore = client.curator.semaphore(&testbed.path, LIMIT).unwrap();
    client.proxy.clear_log();
    (client, semaphore)
}

/// A client, its semaphore, and the live limit of that.
async fn live(
    testbed: &Testbed,
    limit: i32,
) -> (CountedClient, InterProcessSemaphoreV2, SharedCount) {
    let client = CountedClient::new(testbed).await;
    let path = format!("{}-limit", testbed.path);
    let limit = SharedCount::start(&client.curator, &path, limit).await.unwrap();
    let semaphore =
        InterProcessSemaphoreV2::with_shared_count(&client.curator, &testbed.path, &limit).unwrap();
    (client, semaphore, limit)
}

/// Sets a live limit. The semaphore knows it then.
async fn becomes(limit: &SharedCount, semaphore: &InterProcessSemaphoreV2, value: i32) {
    limit.set(value).await.unwrap();
    let known = usize::try_from(value).unwrap();
    eventually("the limit", async || semaphore.limit() == known).await;
    settle().await;
}

/// So many leases, and what it took to have them; the lock beside them is given back.
async fn acquired(
    client: &CountedClient,
    semaphore: &InterProcessSemaphoreV2,
    count: usize,
) -> (Guards, Vec<Operation>) {
    let leases = within("the leases", semaphore.acquire_many(count)).await.unwrap();
    assert_eq!(leases.iter().count(), count);
    let given_back = async || {
        client.log().contains(&Delete)
            && client.proxy.replies(Delete) == client.proxy.requests(Delete)
    };
    eventually("the lock is given back", given_back).await;
    settle().await;
    round_trip(&client.curator).await;
    (leases, client.took())
}

async fn released(client: &CountedClient, leases: Guards) {
    let count = leases.iter().count();
    leases.release().await.unwrap();
    assert_eq!(client.took(), vec![Delete; count]);
}

#[tokio::test(start_paused = true)]
async fn leases_of_a_known_path_cost_a_create_and_a_delete_each_and_the_same_for_the_lock() {
    for count in 1..=LIMIT {
        let testbed = testbed().await;
        let (client, semaphore) = client_and_semaphore(&testbed).await;
        let (leases, mut took) = acquired(&client, &semaphore, 1).await;
        // The third listing, once in a session, checks the path for other recipes.
        let order = [Create, GetData, List, Delete];
        took.sort_by_key(|one| order.iter().position(|of| of == one));
        let expected = [Create, Create, GetData, GetData, List, List, List, Delete];
        assert_eq!(took, expected);
        released(&client, leases).await;
        for _ in 0..3 {
            let (leases, took) = acquired(&client, &semaphore, count).await;
            assert_eq!(took, [vec![Create; 1 + count], vec![Delete]].concat(), "{count}");
            released(&client, leases).await;
        }
    }
}

/// Each change of the children is an event and a listing to the one that waits, and to nobody else.
#[tokio::test(start_paused = true)]
async fn a_lease_that_is_given_back_costs_the_first_waiter_a_listing_and_the_others_nothing() {
    let testbed = testbed().await;
    let (first, second) =
        (client_and_semaphore(&testbed).await, client_and_semaphore(&testbed).await);
    let third = client_and_semaphore(&testbed).await;
    let (leases, _) = acquired(&first.0, &first.1, 3).await;
    for (client, semaphore) in [&second, &third] {
        for _ in 0..2 {
            settle().await;
            client.took();
            let tried = within("a try", semaphore.try_acquire()).await;
            fails(tried, ErrorKind::Busy);
        }
        assert_eq!(client.took(), [List], "all is taken");
    }
    let settled = async || {
        for (client, _) in [&second, &third, &second, &third] {
            round_trip(&client.curator).await;
            settle().await;
        }
    };
    let waiting = asks_for(&second.1, 2);
    testbed.nodes_are(1, 5).await;
    settled().await;
    // The last is with a watch.
    let took = second.0.took();
    assert_eq!(took.iter().filter(|one| **one == Create).count(), 3);
    assert_eq!(took.last(), Some(&List));
    let last = asks(&third.1);
    testbed.nodes_are(2, 5).await;
    settled().await;
    third.0.took();
    let mut leases = leases.into_iter();
    leases.next().unwrap().release().await.unwrap();
    settled().await;
    assert_eq!((second.0.took(), third.0.took()), (vec![List], vec![]));
    assert!(!waiting.is_finished());
    leases.next().unwrap().release().await.unwrap();
    let two = served(waiting).await;
    settled().await;
    // It gives the lock back, and the next makes its lease.
    assert_eq!(without_removals(second.0.took()), [List, Delete]);
    settled().await;
    assert_eq!(third.0.took()[0], Create);
    assert!(!last.is_finished());
    two.release().await.unwrap();
    drop(served(last).await);
}

/// The head waits by its seat, which serves the next head with its count and its watch.
#[tokio::test(start_paused = true)]
async fn a_permit_passes_between_tasks_without_a_request() {
    let testbed = testbed().await;
    let (client, semaphore) = client_and_semaphore(&testbed).await;
    let (leases, _) = acquired(&client, &semaphore, 3).await;
    let mut leases: Vec<_> = leases.into_iter().collect();
    let nodes: Vec<_> = leases.iter().map(|lease| lease.node().to_owned()).collect();
    let waiting: Vec<_> = (0..3).map(|_| asks(&semaphore)).collect();
    testbed.nodes_are(1, 4).await;
    settle().await;
    round_trip(&client.curator).await;
    client.took();
    // At one instant, while the mutex has not passed yet.
    leases.drain(..).for_each(drop);
    for waiting in waiting {
        let lease = served(waiting).await;
        assert!(nodes.iter().any(|node| node == lease.node()));
        leases.push(lease);
    }
    settle().await;
    let took = without_removals(client.took());
    assert_eq!(took, [Delete, Delete], "the seat and the mutex, when no caller waits");
    testbed.nodes_are(0, 3).await;
    leases.drain(..).for_each(drop);
    testbed.nodes_are(0, 0).await;
}

/// One permit after the other is released. Each head takes over the count and the watch of the one before.
#[tokio::test(start_paused = true)]
async fn the_seat_of_a_head_serves_the_next_head() {
    let testbed = testbed().await;
    let (client, semaphore) = client_and_semaphore(&testbed).await;
    let (leases, _) = acquired(&client, &semaphore, 3).await;
    let mut waiting: FuturesUnordered<_> = (0..4).map(|_| served(asks(&semaphore))).collect();
    testbed.nodes_are(1, 4).await;
    settle().await;
    round_trip(&client.curator).await;
    client.took();
    let mut passed = Vec::new();
    for lease in leases {
        lease.release().await.unwrap();
        passed.extend(waiting.next().await);
        settle().await;
        assert_eq!(client.took(), []);
    }
    drop(passed);
    drop(waiting);
    testbed.nodes_are(0, 0).await;
}

/// A stranger is in the queue of the mutex. The tasks that ask after it was seen do not pass it by.
#[tokio::test(start_paused = true)]
async fn no_permit_passes_to_a_task_that_asked_after_a_stranger() {
    let testbed = testbed().await;
    let (client, semaphore) = client_and_semaphore(&testbed).await;
    let (_theirs, strangers) = client_and_semaphore(&testbed).await;
    let (leases, _) = acquired(&client, &semaphore, 3).await;
    let mut leases = leases.into_iter();
    let before = asks(&semaphore);
    testbed.nodes_are(1, 4).await;
    let stranger = asks(&strangers);
    testbed.nodes_are(2, 4).await;
    round_trip(&client.curator).await;
    settle().await;
    let after = asks(&semaphore);
    settle().await;
    drop(leases.next());
    let _before = served(before).await;
    drop(leases.next());
    let _stranger = served(stranger).await;
    settle().await;
    assert!(!after.is_finished(), "it asked after the stranger");
    drop(leases.next());
    drop(served(after).await);
}

/// A caller of several permits, or of another identity, has no use for a permit of others.
#[tokio::test(start_paused = true)]
async fn a_permit_passes_to_a_task_whose_node_would_be_the_same() {
    let testbed = testbed().await;
    let (client, semaphore) = client_and_semaphore(&testbed).await;
    let named = client.curator.with_identity("another");
    let named = named.semaphore(&testbed.path, LIMIT).unwrap();
    for (next, count) in [(&named, 1), (&semaphore, 2)] {
        let (leases, _) = acquired(&client, &semaphore, 3).await;
        let nodes: Vec<_> = leases.iter().map(|lease| lease.node().to_owned()).collect();
        let waiting = asks_for(next, count);
        testbed.nodes_are(1, 3 + count).await;
        settle().await;
        drop(leases);
        let holds = served(waiting).await;
        assert!(holds.iter().all(|lease| !nodes.iter().any(|node| node == lease.node())));
        drop(holds);
        testbed.nodes_are(0, 0).await;
    }
}

/// The permit was counted when two were allowed. Under a limit of one it is deleted.
#[tokio::test(start_paused = true)]
async fn no_permit_passes_beyond_a_limit_that_has_fallen() {
    let testbed = testbed().await;
    let (client, semaphore, limit) = live(&testbed, 2).await;
    let first = semaphore.acquire().await.unwrap();
    let second = semaphore.acquire().await.unwrap();
    let waiting = asks(&semaphore);
    testbed.nodes_are(1, 3).await;
    becomes(&limit, &semaphore, 1).await;
    drop(second);
    settle().await;
    round_trip(&client.curator).await;
    assert!(!waiting.is_finished(), "one holds, and one may");
    testbed.nodes_are(1, 2).await;
    drop(first);
    drop(served(waiting).await);
    testbed.nodes_are(0, 0).await;
}

/// The first two permits were counted when two were allowed, and a third one was given out before the limit fell again.
#[tokio::test(start_paused = true)]
async fn no_permit_passes_that_was_held_while_the_limit_rose_and_fell() {
    let testbed = testbed().await;
    let (client, semaphore, limit) = live(&testbed, 2).await;
    let others = testbed.curator().await.semaphore(&testbed.path, 3).unwrap();
    for retention in [Duration::ZERO, RETENTION] {
        let semaphore = semaphore.clone().with_retention(retention);
        let first = semaphore.acquire().await.unwrap();
        let second = semaphore.acquire().await.unwrap();
        becomes(&limit, &semaphore, 3).await;
        let third = others.acquire().await.unwrap();
        becomes(&limit, &semaphore, 2).await;
        if retention.is_zero() {
            let waiting = asks(&semaphore);
            testbed.nodes_are(1, 4).await;
            drop(first);
            settle().await;
            round_trip(&client.curator).await;
            assert!(!waiting.is_finished(), "two hold, and two may");
            testbed.nodes_are(1, 3).await;
            drop(second);
            drop(served(waiting).await);
        } else {
            drop(first);
            assert!(semaphore.try_acquire().await.unwrap_err().is_busy(), "two hold");
            drop(second);
        }
        drop(third);
        testbed.nodes_are(0, 0).await;
    }
}

/// The handles have different limits, as before and after a change of the configuration.
#[tokio::test(start_paused = true)]
async fn no_permit_passes_to_a_handle_of_a_smaller_limit() {
    let testbed = testbed().await;
    let (client, semaphore) = retaining(&testbed).await;
    let smaller = client.curator.semaphore(&testbed.path, LIMIT - 1).unwrap();
    retained(&testbed, &client, &semaphore).await;
    let leases = [smaller.acquire().await.unwrap(), smaller.acquire().await.unwrap()];
    assert!(smaller.try_acquire().await.unwrap_err().is_busy());
    drop(leases);
}

/// A permit is kept for the head, which has not taken it yet. Which of the two tasks runs first is chance, so there are many rounds.
#[tokio::test(start_paused = true)]
async fn no_other_caller_takes_the_permit_of_the_head() {
    let testbed = testbed().await;
    let (client, semaphore) = client_and_semaphore(&testbed).await;
    for count in [1, 2].repeat(20) {
        let (leases, _) = acquired(&client, &semaphore, 3).await;
        let mut leases = leases.into_iter();
        let lease = leases.next().unwrap();
        let node = lease.node().to_owned();
        let head = asks(&semaphore);
        testbed.nodes_are(1, 4).await;
        settle().await;
        let mut other = std::pin::pin!(semaphore.acquire_many(count));
        assert!(futures_util::poll!(other.as_mut()).is_pending());
        drop(lease);
        let head = served(head).await;
        assert_eq!(head.node(), node);
        drop((head, leases));
        drop(within("the other caller", other).await.unwrap());
        testbed.nodes_are(0, 0).await;
    }
}

/// The head leaves as it is given a permit.
#[tokio::test(start_paused = true)]
async fn a_permit_that_a_caller_does_not_take_is_deleted_or_passed_on() {
    let testbed = testbed().await;
    let (client, semaphore) = client_and_semaphore(&testbed).await;
    for waits in [false, true] {
        let lease = semaphore.acquire_many(3).await.unwrap();
        let head = asks(&semaphore);
        testbed.nodes_are(1, 4).await;
        let next = waits.then(|| asks(&semaphore));
        settle().await;
        drop(lease);
        drop(head);
        if let Some(next) = next {
            drop(served(next).await);
        }
        testbed.nodes_are(0, 0).await;
    }
    drop(client);
}

/// The pauses between two listings grow up to a second.
#[tokio::test(start_paused = true)]
async fn a_try_behind_a_caller_that_is_entering_looks_less_and_less_often() {
    let testbed = testbed().await;
    let (client, semaphore) = client_and_semaphore(&testbed).await;
    let lock = testbed.curator().await.mutex(format!("{}/locks", testbed.path)).unwrap();
    let entering = lock.acquire().await.unwrap();
    settle().await;
    client.took();
    let began = Instant::now();
    fails(within("a try", semaphore.try_acquire()).await, ErrorKind::Busy);
    let seconds = usize::try_from(began.elapsed().as_secs()).unwrap();
    settle().await;
    let took = client.took();
    let lists = took.iter().filter(|one| **one == List).count();
    assert!((seconds..seconds + 15).contains(&lists), "{lists} in {seconds} s");
    entering.release().await.unwrap();
}

/// A client, and its semaphore, which retains.
async fn retaining(testbed: &Testbed) -> (CountedClient, InterProcessSemaphoreV2) {
    let (client, semaphore) = client_and_semaphore(testbed).await;
    (client, semaphore.with_retention(RETENTION))
}

/// Acquires all leases, one by one, and releases them: they are retained.
async fn retained(testbed: &Testbed, client: &CountedClient, semaphore: &InterProcessSemaphoreV2) {
    let mut leases = Vec::new();
    for _ in 0..LIMIT {
        leases.push(semaphore.acquire().await.unwrap());
    }
    testbed.nodes_are(0, LIMIT).await;
    for lease in leases {
        lease.release().await.unwrap();
    }
    settle().await;
    round_trip(&client.curator).await;
    testbed.nodes_are(0, LIMIT).await;
}

#[tokio::test(start_paused = true)]
async fn a_retained_lease_is_held_again_without_a_request() {
    let testbed = testbed().await;
    let (client, semaphore) = retaining(&testbed).await;
    retained(&testbed, &client, &semaphore).await;
    for _ in 0..3 {
        client.took();
        let mut leases = Vec::new();
        for _ in 0..LIMIT {
            leases.push(semaphore.try_acquire().await.unwrap());
        }
        assert_eq!(without_removals(client.took()), []);
        assert!(semaphore.try_acquire().await.unwrap_err().is_busy());
        let nodes: HashSet<_> = leases.iter().map(|lease| lease.node().to_owned()).collect();
        assert_eq!(nodes.len(), LIMIT);
        leases.into_iter().for_each(drop);
        settle().await;
        round_trip(&client.curator).await;
    }
    testbed.nodes_are(0, LIMIT).await;
    tokio::time::sleep(Duration::from_secs(61)).await;
    testbed.nodes_are(0, 0).await;
}

/// The second lease is acquired while the first one, which was retained before, is held.
#[tokio::test(start_paused = true)]
async fn a_task_that_acquires_one_more_ends_no_retention_of_those_that_are_held() {
    let testbed = testbed().await;
    let (client, semaphore) = retaining(&testbed).await;
    semaphore.acquire().await.unwrap().release().await.unwrap();
    settle().await;
    let first = semaphore.acquire().await.unwrap();
    let second = semaphore.acquire().await.unwrap();
    testbed.nodes_are(0, 2).await;
    drop((first, second));
    settle().await;
    client.took();
    let leases = (semaphore.acquire().await.unwrap(), semaphore.acquire().await.unwrap());
    assert_eq!(without_removals(client.took()), []);
    drop(leases);
}

/// A task asks for all leases, and its first create is on its way. The lease that is released meanwhile was retained before.
#[tokio::test(start_paused = true)]
async fn no_task_takes_a_retained_lease_past_a_task_that_enters() {
    let testbed = testbed().await;
    let (client, semaphore) = retaining(&testbed).await;
    for is_try in [false, true] {
        retained(&testbed, &client, &semaphore).await;
        let mut leases = Vec::new();
        for _ in 0..LIMIT {
            leases.push(semaphore.acquire().await.unwrap());
        }
        let held = client.proxy.hold(Message::request(Create));
        let all = asks_for(&semaphore, LIMIT);
        within("its create", held.struck()).await;
        leases.truncate(1);
        settle().await;
        let later = semaphore.clone();
        let later = match is_try {
            false => asks(&later),
            true => spawned(async move { later.try_acquire().await }),
        };
        settle().await;
        assert!(!later.is_finished(), "it asked after another task");
        held.heal();
        drop(leases);
        let all = served(all).await;
        if is_try {
            fails(within("a try", later).await.unwrap(), ErrorKind::Busy);
            drop(all);
        } else {
            drop(all);
            drop(served(later).await);
        }
    }
}

/// The first caller that comes has all of them deleted, so it waits for one trip of the client that keeps them.
#[tokio::test(start_paused = true)]
async fn retained_leases_are_given_up_when_a_caller_comes() {
    let testbed = testbed().await;
    let (client, semaphore) = retaining(&testbed).await;
    let others = testbed.curator().await.semaphore(&testbed.path, LIMIT).unwrap();
    for is_try in [false, true] {
        retained(&testbed, &client, &semaphore).await;
        let began = Instant::now();
        let lease = match is_try {
            false => within("another client", others.acquire()).await.unwrap(),
            true => others.try_acquire().await.expect("nobody holds"),
        };
        testbed.nodes_are(0, 1).await;
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        drop(lease);
        testbed.nodes_are(0, 0).await;
    }
    retained(&testbed, &client, &semaphore).await;
    client.took();
    let leases = within("several", semaphore.acquire_many(LIMIT)).await.unwrap();
    testbed.nodes_are(0, LIMIT).await;
    let took = without_removals(client.took());
    assert_eq!(took[..LIMIT], [Delete; LIMIT], "ahead of the creates: {took:?}");
    let began = Instant::now();
    assert!(others.try_acquire().await.unwrap_err().is_busy(), "all are held");
    assert!(began.elapsed() < Duration::from_millis(200), "{:?}", began.elapsed());
    drop(leases);
    let all = others.try_acquire_many(LIMIT).await.expect("nobody holds");
    drop(all);
    testbed.nodes_are(0, 0).await;
}

/// A caller that comes while leases are held has them deleted as soon as they are released.
#[tokio::test(start_paused = true)]
async fn no_lease_is_retained_while_another_client_waits() {
    let testbed = testbed().await;
    let (client, semaphore) = retaining(&testbed).await;
    let others = testbed.curator().await.semaphore(&testbed.path, LIMIT).unwrap();
    for was_retained in [false, true] {
        if was_retained {
            retained(&testbed, &client, &semaphore).await;
        }
        let mut leases = Vec::new();
        for _ in 0..LIMIT {
            leases.push(semaphore.acquire().await.unwrap());
        }
        let waiting = asks_for(&others, LIMIT);
        testbed.nodes_are(1, 2 * LIMIT).await;
        let began = Instant::now();
        leases.into_iter().for_each(drop);
        let all = served(waiting).await;
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        testbed.nodes_are(0, LIMIT).await;
        drop(all);
        testbed.nodes_are(0, 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn retained_leases_are_given_up_when_the_limit_changes_or_the_session_ends() {
    let testbed = testbed().await;
    let (client, semaphore, limit) = live(&testbed, 3).await;
    let semaphore = semaphore.with_retention(RETENTION);
    let began = Instant::now();
    for changed in [4, 3] {
        retained(&testbed, &client, &semaphore).await;
        becomes(&limit, &semaphore, changed).await;
        testbed.nodes_are(0, 0).await;
    }
    retained(&testbed, &client, &semaphore).await;
    client.curator.close().await;
    testbed.nodes_are(0, 0).await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}
