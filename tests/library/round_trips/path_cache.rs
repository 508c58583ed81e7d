//! A session remembers a bounded number of lock paths.

use futures_util::stream::{StreamExt, iter};
use zookeeper_recipes_dev::Operation::{Create, Delete, GetData, List};

use crate::prelude::*;
use crate::support::counted_client::{CountedClient, without_removals};

/// How many lock paths a session remembers.
const REMEMBERED: usize = 256;

#[tokio::test(start_paused = true)]
async fn more_lock_paths_than_are_remembered() {
    let testbed = Testbed::own().await;
    // A path that was idle for a session timeout makes room.
    let timeout = Duration::from_secs(20);
    let builder = testbed.builder().session_timeout(timeout);
    let client = CountedClient::built(&testbed, builder).await;
    let lock = |number: usize| client.curator.mutex(format!("{}/{number}", testbed.path)).unwrap();
    let once = async |number| {
        lock(number).acquire().await.unwrap().release().await.unwrap();
    };
    // The first three in their order, the others at once, so that none is idle before all were used.
    for number in 0..3 {
        once(number).await;
    }
    iter(3..REMEMBERED).for_each_concurrent(50, once).await;
    let last = REMEMBERED + 43;
    iter(REMEMBERED..=last).for_each_concurrent(50, once).await;
    assert_eq!(testbed.servers.watches().await, REMEMBERED);
    let took = async |number: usize| {
        client.took();
        let guard = lock(number).acquire().await.unwrap();
        let took = without_removals(client.took());
        guard.release().await.unwrap();
        assert_eq!(client.took(), [Delete]);
        took
    };
    // None of them is idle yet, and none makes room.
    assert_eq!(took(0).await, [Create]);
    assert_eq!(took(last).await, [Create, List]);
    assert_eq!(testbed.servers.watches().await, REMEMBERED);
    tokio::time::sleep(timeout).await;
    assert_eq!(took(2).await, [Create]);
    assert_eq!(took(last).await, [Create, GetData, List]);
    assert_eq!(took(last).await, [Create]);
    // The one that was used least recently is forgotten, and its watch is taken back.
    eventually("its watch is gone", async || testbed.servers.watches().await <= REMEMBERED).await;
    assert_eq!(took(2).await, [Create]);
    assert_ne!(took(1).await, [Create]);
}
