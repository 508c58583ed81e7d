//! Readers of one client share a node, and its writers pass one on. `recipes::holds_of_one_process` shows what that saves, and the
//! judge of `tests/simulation` finds a node that must not be shared or passed on.

use zookeeper_recipes_dev::Operation::{Create, Delete, GetData, List, Multi};

use crate::prelude::*;
use crate::support::counted_client::{CountedClient, settle, without_removals};

#[tokio::test(start_paused = true)]
async fn readers_share_a_node_until_the_last_one_releases() {
    let testbed = Testbed::with_parent().await;
    let client = CountedClient::new(&testbed).await;
    let lock = testbed.read_write(&client.curator);
    let first = lock.read().await.unwrap();
    client.took();
    let second = lock.read().await.unwrap();
    assert_eq!(client.took(), [List], "one listing shows that no writer is there");
    let third = lock.try_read().await.unwrap();
    let fourth = lock.read().await.unwrap();
    assert_eq!(client.took(), []);
    for guard in [&second, &third, &fourth] {
        assert_eq!(guard.node(), first.node());
        assert_eq!(guard.fencing_token(), first.fencing_token());
    }
    for guard in [first, third, second] {
        assert_eq!(guard.release().await.unwrap(), Released::Confirmed);
    }
    assert_eq!(client.took(), []);
    assert!(fourth.is_held());
    testbed.children_are(1).await;
    fourth.release().await.unwrap();
    assert_eq!(client.took(), [Delete]);
}

/// Another client's readers come and go: the next reader lists once, and those that ask meanwhile wait for its answer.
#[tokio::test(start_paused = true)]
async fn after_news_the_readers_that_ask_share_one_listing() {
    let testbed = Testbed::with_parent().await;
    let client = CountedClient::new(&testbed).await;
    let lock = testbed.read_write(&client.curator);
    let others = testbed.read_write(&testbed.curator().await);
    let _first = lock.read().await.unwrap();
    let _second = lock.read().await.unwrap();
    for _ in 0..3 {
        others.read().await.unwrap().release().await.unwrap();
    }
    settle().await;
    client.took();
    let readers: Vec<_> = (0..20)
        .map(|_| {
            let lock = lock.clone();
            tokio::spawn(async move { lock.read().await })
        })
        .collect();
    for reader in readers {
        assert!(held(reader).await.is_held());
    }
    assert_eq!(client.took(), [List]);
}

/// The readers that come behind the writer enter by a second node at once, and do not wait until the first one is deleted.
#[tokio::test(start_paused = true)]
async fn a_reader_that_arrives_behind_a_writer_enters_by_a_second_node() {
    let testbed = Testbed::with_parent().await;
    let client = CountedClient::new(&testbed).await;
    let lock = testbed.read_write(&client.curator);
    let first = lock.read().await.unwrap();
    let second = lock.read().await.unwrap();
    let other = testbed.curator().await;
    let writer = testbed.writes(&other).await;
    settle().await;
    client.took();
    let readers = [testbed.reads(&client.curator).await, {
        let lock = lock.clone();
        tokio::spawn(async move { lock.read().await })
    }];
    settle().await;
    let took = client.took();
    assert_eq!(took[..2], [List, Create], "{took:?}");
    assert_eq!(took.iter().filter(|one| **one == Create).count(), 1);
    assert!(lock.try_read().await.unwrap_err().is_busy());
    drop(first);
    settle().await;
    assert!(!writer.is_finished(), "one reads still");
    drop(second);
    let writer = held(writer).await;
    settle().await;
    assert!(!readers.iter().any(JoinHandle::is_finished), "another client writes");
    writer.release().await.unwrap();
    for reader in readers {
        held(reader).await.release().await.unwrap();
    }
    testbed.children_are(0).await;
}

#[tokio::test(start_paused = true)]
async fn a_writer_passes_its_node_on_but_not_with_a_read_alongside() {
    let testbed = Testbed::with_parent().await;
    let client = CountedClient::new(&testbed).await;
    let lock = testbed.read_write(&client.curator);
    let next = || {
        let lock = lock.clone();
        tokio::spawn(async move { lock.write().await })
    };
    let write = lock.write().await.unwrap();
    let second = next();
    settle().await;
    client.took();
    let node = write.node().to_owned();
    write.release().await.unwrap();
    let write = held(second).await;
    assert_eq!(write.node(), node);
    assert_eq!(client.took(), []);

    let third = next();
    settle().await;
    let read = write.downgrade().await.unwrap();
    settle().await;
    assert!(!third.is_finished(), "the read that was made alongside outlives its write hold");
    assert_eq!(client.took()[..3], [Multi, GetData, Delete]);
    assert!(read.is_held());
    read.release().await.unwrap();
    let write = held(third).await;
    assert_ne!(write.node(), node);
    write.release().await.unwrap();
    testbed.children_are(0).await;
}

/// Another client's readers come and go. A writer is served after one trip of the client that keeps the node.
#[tokio::test(start_paused = true)]
async fn a_retained_node_of_readers_is_given_up_when_a_writer_comes() {
    let testbed = Testbed::with_parent().await;
    let client = CountedClient::new(&testbed).await;
    let lock = testbed.read_write(&client.curator).with_retention(Duration::from_secs(60));
    let others = testbed.read_write(&testbed.curator().await);
    let node = lock.read().await.unwrap().node().to_owned();
    settle().await;
    client.took();
    for _ in 0..3 {
        others.read().await.unwrap().release().await.unwrap();
        settle().await;
        let read = lock.read().await.unwrap();
        assert_eq!(read.node(), node);
    }
    let took = without_removals(client.took());
    assert!(took.iter().all(|one| [List, GetData].contains(one)), "{took:?}");
    settle().await;
    client.took();
    let first = lock.try_read().await.unwrap();
    let second = lock.read().await.unwrap();
    assert_eq!(without_removals(client.took()), [], "no writer came");
    drop((first, second));
    let write = within("the writer", others.write()).await.unwrap();
    assert!(lock.try_read().await.unwrap_err().is_busy());
    write.release().await.unwrap();
    testbed.children_are(0).await;
}

/// A try finds nodes without a reader, of two clients.
#[tokio::test(start_paused = true)]
async fn a_try_to_write_gets_a_lock_whose_nodes_other_clients_only_keep() {
    let (testbed, [one, two, other]) = Testbed::with_curators().await;
    for curator in [&one, &two] {
        let lock = testbed.read_write(curator).with_retention(Duration::from_secs(60));
        lock.read().await.unwrap().release().await.unwrap();
    }
    testbed.children_are(2).await;
    let write = testbed.read_write(&other).try_write().await.expect("kept nodes");
    let reading = testbed.read_write(&one).with_retention(Duration::from_secs(60));
    assert!(reading.try_read().await.unwrap_err().is_busy());
    write.release().await.unwrap();
    let read = reading.read().await.unwrap();
    assert!(testbed.read_write(&other).try_write().await.unwrap_err().is_busy(), "one reads");
    drop(read);
}

/// A writer's node is retained for the next writer of the client alone.
#[tokio::test(start_paused = true)]
async fn a_retained_node_of_a_writer_is_given_up_when_a_reader_comes() {
    let testbed = Testbed::with_parent().await;
    let client = CountedClient::new(&testbed).await;
    let lock = testbed.read_write(&client.curator).with_retention(Duration::from_secs(60));
    lock.write().await.unwrap().release().await.unwrap();
    settle().await;
    client.took();
    let write = lock.write().await.unwrap();
    assert_eq!(client.took(), []);
    let read = write.read().await.unwrap();
    write.release().await.unwrap();
    read.release().await.unwrap();
    testbed.children_are(0).await;
    lock.write().await.unwrap().release().await.unwrap();
    settle().await;
    client.took();
    let read = within("a reader of the same client", lock.read()).await.unwrap();
    assert_eq!(without_removals(client.took())[..2], [Delete, Create], "it waits for nobody");
    read.release().await.unwrap();
    lock.write().await.unwrap().release().await.unwrap();
    let others = testbed.read_write(&testbed.curator().await);
    within("a reader", others.read()).await.unwrap().release().await.unwrap();
    testbed.children_are(0).await;
}

/// Another client's readers come and go all the time. A retained node that listed for each of them would be a herd of its own.
#[tokio::test(start_paused = true)]
async fn a_retained_node_of_readers_lists_ten_times_a_second_at_most() {
    let testbed = Testbed::with_parent().await;
    let client = CountedClient::new(&testbed).await;
    let lock = testbed.read_write(&client.curator).with_retention(Duration::from_secs(60));
    let others = testbed.read_write(&testbed.curator().await);
    let node = lock.read().await.unwrap().node().to_owned();
    let began = Instant::now();
    let listings = client.proxy.requests(List);
    while testbed.admin.check_stat(&node).await.unwrap().is_some() {
        others.read().await.unwrap().release().await.unwrap();
        settle().await;
    }
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    let listings = client.proxy.requests(List) - listings;
    assert!((10..=20).contains(&listings), "{listings}");
}
