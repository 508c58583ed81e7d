//! Attacks on the gap rule: a create that gets the expected number has no new contender before it. Also where the lock path
//! is deleted and made again, and its counter is driven to exactly that number, while another contender holds there.

use zookeeper_recipes_dev::Operation::{self, Create, GetData, List};

use crate::prelude::*;
use crate::support::counted_client::{CountedClient, sequence, still_waits, without_removals};

/// The client arms its watches again in its own time: what is known by one ends with the connection.
#[tokio::test(start_paused = true)]
async fn after_a_reconnect_it_lists_and_watches_again() {
    let (testbed, client) = CountedClient::known().await;
    let mutex = testbed.mutex(&client.curator);
    for held_meanwhile in [false, true] {
        let guard = if held_meanwhile { Some(mutex.acquire().await.unwrap()) } else { None };
        let set = client.proxy.replies(Operation::SetWatches);
        client.proxy.cut(Cut::Reset);
        eventually("its watches again", async || client.proxy.replies(Operation::SetWatches) > set)
            .await;
        round_trip(&client.curator).await;
        if let Some(guard) = guard {
            guard.release().await.unwrap();
        }
        client.took();
        let guard = mutex.acquire().await.unwrap();
        let asked = without_removals(client.took());
        assert_eq!(asked, [Create, GetData, List], "held meanwhile: {held_meanwhile}");
        guard.release().await.unwrap();
        client.is_known(&mutex).await;
    }
}

/// Makes the path again, so that the next create gets the number `expected`, and the one before it holds.
async fn drive_to(testbed: &Testbed, other: &CountedClient, expected: usize) -> Guard {
    testbed.make_again().await;
    testbed.count_up(expected - 1).await;
    let theirs = testbed.mutex(&other.curator).acquire().await.unwrap();
    assert_eq!(sequence(theirs.node()), i64::try_from(expected).unwrap() - 1);
    theirs
}

/// Starts to acquire.
fn spawn(testbed: &Testbed, client: &CountedClient) -> Waiting {
    let mutex = testbed.mutex(&client.curator);
    tokio::spawn(async move { mutex.acquire().await })
}

/// It has the number that was expected, and waits all the same.
async fn is_not_fooled(testbed: &Testbed, client: &CountedClient, theirs: Guard, ours: Waiting) {
    testbed.children_are(2).await;
    let own = testbed.newcomer(&[theirs.node()]).await;
    assert_eq!(sequence(&own), sequence(theirs.node()) + 1);
    still_waits(client, &ours).await;
    assert!(theirs.is_held());
    theirs.release().await.unwrap();
    held(ours).await.release().await.unwrap();
}

/// The watch on the parent fires before the create is answered.
#[tokio::test(start_paused = true)]
async fn a_path_made_again_is_not_mistaken_for_the_one_that_is_watched() {
    let (testbed, client) = CountedClient::known().await;
    let other = CountedClient::new(&testbed).await;
    let theirs = drive_to(&testbed, &other, 1).await;
    let ours = spawn(&testbed, &client);
    is_not_fooled(&testbed, &client, theirs, ours).await;
}

/// The watch comes to a path made again, behind the create in the old one: the listing is from behind the watch, or
/// it would be of the old one.
#[tokio::test(start_paused = true)]
async fn a_path_made_again_before_the_watch_is_not_mistaken_for_the_one_that_was_listed() {
    let testbed = Testbed::with_parent().await;
    let (client, other) = (CountedClient::new(&testbed).await, CountedClient::new(&testbed).await);
    let late = client.proxy.hold(Message::request(Operation::GetData));
    let ours = spawn(&testbed, &client);
    within("the watch", late.struck()).await;
    testbed.children_are(1).await;
    let theirs = drive_to(&testbed, &other, 1).await;
    late.heal();
    is_not_fooled(&testbed, &client, theirs, ours).await;
    let mutex = testbed.mutex(&client.curator);
    mutex.acquire().await.unwrap().release().await.unwrap();
    client.took();
    let guard = mutex.acquire().await.unwrap();
    assert_eq!(client.took(), [Create], "and the rule holds for the new one");
    guard.release().await.unwrap();
}
