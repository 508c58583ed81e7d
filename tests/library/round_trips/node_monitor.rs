//! The watches and the checks of the nodes of holds and waiters, and their requests.

use futures_util::stream::{StreamExt, iter};

use crate::prelude::*;
use crate::support::counted_client::CountedClient;

async fn short_lived(testbed: &Testbed) -> CountedClient {
    CountedClient::built(testbed, testbed.short_lived_builder()).await
}

/// The data of its node were changed before, twice. The first watch is the monitor's, or that of the wait.
#[tokio::test(start_paused = true)]
async fn a_hold_whose_watch_was_used_up_is_told() {
    for waits in [false, true] {
        let testbed = Testbed::with_parent().await;
        let client = short_lived(&testbed).await;
        let guard = match waits {
            false => testbed.mutex(&client.curator).acquire().await.unwrap(),
            true => waited(&testbed, &client).await,
        };
        for _ in 0..2 {
            let reads = client.proxy.replies(Operation::GetData);
            testbed.admin.set_data(guard.node(), b"changed", None).await.unwrap();
            eventually("a watch", async || client.proxy.replies(Operation::GetData) > reads).await;
        }
        assert!(guard.is_held());
        round_trip(&client.curator).await;
        client.took();
        testbed.admin.delete(guard.node(), None).await.unwrap();
        assert_eq!(within("the loss", guard.lost()).await, Loss::NodeDeleted);
        assert_eq!(client.took(), [], "the event says so");
    }
}

/// A hold that was waited for, behind another client's.
async fn waited(testbed: &Testbed, client: &CountedClient) -> Guard {
    let other = testbed.mutex(&testbed.curator().await).acquire().await.unwrap();
    let mutex = testbed.mutex(&client.curator);
    let waiting = client.waits_in(testbed, 3, async move { mutex.acquire().await }).await;
    other.release().await.unwrap();
    held(waiting).await
}

/// The watch of the wait is used further.
#[tokio::test(start_paused = true)]
async fn a_node_that_was_watched_in_the_queue_is_not_watched_again() {
    let testbed = Testbed::with_parent().await;
    let client = short_lived(&testbed).await;
    let guard = waited(&testbed, &client).await;
    client.took();
    // The monitor has watched every other hold by now.
    tokio::time::sleep(SHORT / 3).await;
    assert_eq!(client.took(), []);
    testbed.admin.delete(guard.node(), None).await.unwrap();
    assert_eq!(within("the loss", guard.lost()).await, Loss::NodeDeleted);
    assert_eq!(client.took(), []);
}

/// The monitor passes over holds that are younger than a twelfth of the session timeout.
#[tokio::test(start_paused = true)]
async fn short_holds_cost_no_watch() {
    const T: Duration = Duration::from_secs(24);
    let testbed = Testbed::with_parent().await;
    let client = CountedClient::built(&testbed, testbed.builder().session_timeout(T)).await;
    let mutex = testbed.mutex(&client.curator);
    mutex.acquire().await.unwrap().release().await.unwrap();
    client.took();
    for _ in 0..8 {
        let guard = mutex.acquire().await.unwrap();
        tokio::time::sleep(T / 48).await;
        guard.release().await.unwrap();
        assert_eq!(client.took(), [Operation::Create, Operation::Delete]);
    }
}

/// The paths are so long that a session can watch none, or few, of its nodes.
#[tokio::test(start_paused = true)]
async fn beyond_the_budget_of_watches_they_look() {
    const LOCKS: usize = 24;
    let mut testbed = Testbed::new().await;
    testbed.path = format!("{}/{}", testbed.path, "x".repeat(9_000));
    let (client, other) = (short_lived(&testbed).await, short_lived(&testbed).await);
    let lock = |client: &CountedClient, number: usize| {
        client.curator.mutex(format!("{}-{number}", testbed.path)).unwrap()
    };
    let mut holds = Vec::new();
    for number in 0..LOCKS {
        holds.push(lock(&client, number).acquire().await.unwrap());
    }
    eventually("looks", async || client.proxy.replies(Operation::Exists) > 2).await;
    // Whether it is one of those that are watched or not.
    for guard in holds {
        assert!(guard.is_held(), "{:?}", guard.loss());
        testbed.admin.delete(guard.node(), None).await.unwrap();
        assert_eq!(within("the loss", guard.lost()).await, Loss::NodeDeleted);
    }
    // A waiter that cannot watch its predecessor.
    let mut waiters = tokio::task::JoinSet::new();
    let mut holds = Vec::new();
    for number in 0..LOCKS {
        holds.push(lock(&other, number).acquire().await.unwrap());
        let mutex = lock(&client, number);
        waiters.spawn(async move { mutex.acquire().await.unwrap().release().await.unwrap() });
    }
    let looks = client.proxy.replies(Operation::Exists);
    eventually("looks", async || client.proxy.replies(Operation::Exists) > looks + LOCKS).await;
    for guard in holds {
        guard.release().await.unwrap();
    }
    within("all of them", waiters.join_all()).await;
}

/// The paths are so long that a session can watch ten nodes. Holds are watched only while half of that is free: by the watch of
/// their wait, or by the monitor's.
#[tokio::test(start_paused = true)]
async fn holds_leave_watches_to_those_that_wait() {
    const LOCKS: usize = 10;
    for waits in [true, false] {
        let mut testbed = Testbed::new().await;
        let path = format!("{}/{}", testbed.path, "x".repeat(9_000));
        let (client, other) = (short_lived(&testbed).await, testbed.curator().await);
        let mut holds = Vec::new();
        for number in 0..LOCKS {
            testbed.path = format!("{path}-{number}");
            let theirs = testbed.mutex(&other).acquire().await.unwrap();
            if !waits {
                theirs.release().await.unwrap();
                holds.push(testbed.mutex(&client.curator).acquire().await.unwrap());
                continue;
            }
            let waiting = testbed.waits(&client.curator).await;
            round_trip(&client.curator).await;
            theirs.release().await.unwrap();
            holds.push(held(waiting).await);
        }
        // The monitor has come by.
        eventually("polls", async || client.proxy.replies(Operation::Exists) > 2 * LOCKS).await;
        let reads = client.proxy.requests(Operation::GetData);
        testbed.path = format!("{path}-last");
        let theirs = testbed.mutex(&other).acquire().await.unwrap();
        let waiting = testbed.waits(&client.curator).await;
        // A waiter without room sets no watch, neither on its node nor on the one ahead.
        let watches = async || client.proxy.requests(Operation::GetData) >= reads + 2;
        eventually("the watches of the waiter", watches).await;
        theirs.release().await.unwrap();
        holds.push(held(waiting).await);
        assert!(holds.iter().all(|guard| guard.is_held()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_may_not_be_read_is_polled() {
    for version in Version::ALL {
        let testbed = Testbed::with(TestServer::builder(), |one| one.version(version)).await;
        testbed.create(&testbed.path, CreateMode::Persistent).await;
        let client = short_lived(&testbed).await;
        let unreadable = [anyone(Permission::DELETE | Permission::WRITE | Permission::ADMIN)];
        let mutex = testbed.mutex(&client.curator.with_acls(Acls::new(&unreadable)));
        let guard = mutex.acquire().await.unwrap();
        eventually("polls", async || client.proxy.replies(Operation::Exists) > 1).await;
        assert!(guard.is_held(), "{version}");
        testbed.remove(guard.node()).await;
        assert_eq!(within("the loss", guard.lost()).await, Loss::NodeDeleted, "{version}");
    }
}

/// A client that waits behind another's hold, and polls: the paths are too long to be watched.
async fn polls(policy: RetryPolicy) -> (Testbed, CountedClient, Guard, Waiting) {
    let mut testbed = Testbed::new().await;
    testbed.path = format!("{}/{}", testbed.path, "x".repeat(50_000));
    let client = CountedClient::new(&testbed).await;
    let holder = testbed.mutex(&testbed.curator().await).acquire().await.unwrap();
    let waiting = testbed.waits(&client.curator.with_retry(policy)).await;
    eventually("polls", async || client.proxy.replies(Operation::Exists) > 1).await;
    (testbed, client, holder, waiting)
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_polls_enters_again_when_its_node_is_deleted() {
    let policy = RetryPolicy::forever(Duration::from_millis(100));
    let (testbed, _client, holder, waiting) = polls(policy).await;
    let own = testbed.newcomer(&[holder.node()]).await;
    testbed.remove(&own).await;
    testbed.children_are(2).await;
    assert!(!waiting.is_finished());
    holder.release().await.unwrap();
    held(waiting).await.release().await.unwrap();
}

/// A failed poll is no failed try, whatever the retry policy.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_polls_outlasts_a_broken_connection() {
    let (_testbed, client, holder, waiting) = polls(RetryPolicy::never()).await;
    let lost = client.proxy.lose(Message::reply(Operation::Exists));
    struck_once(&lost).await;
    let polls = client.proxy.replies(Operation::Exists);
    eventually("a poll", async || client.proxy.replies(Operation::Exists) > polls).await;
    holder.release().await.unwrap();
    held(waiting).await.release().await.unwrap();
}

/// As cheap as one, except for the looks for those that it may not watch.
#[tokio::test(start_paused = true)]
async fn ten_thousand_holds_are_renewed_as_one_is() {
    const HOLDS: usize = 10_000;
    const T: Duration = Duration::from_secs(12);
    let real = TestServer::builder().jvm_flag("-Djute.maxbuffer=67108864");
    let testbed = Testbed::with(real, |simulated| simulated).await;
    let build = || {
        let builder = testbed.builder().session_timeout(T);
        CountedClient::built(&testbed, builder.ephemeral_limit(64 << 20))
    };
    let (many, one) = (build().await, build().await);
    let lock = |client: &CountedClient, number: usize| {
        client.curator.mutex(format!("{}/{number}", testbed.path)).unwrap()
    };
    let single = lock(&one, HOLDS).acquire().await.unwrap();
    let acquire = async |number| lock(&many, number).acquire().await.unwrap();
    let holds: Vec<_> = iter(0..HOLDS).map(acquire).buffer_unordered(200).collect().await;
    // Until those that can be watched are.
    let watched = async || many.proxy.replies(Operation::GetData);
    let mut before = 0;
    eventually("no more watches", async || {
        tokio::time::sleep(T / 6).await;
        std::mem::replace(&mut before, watched().await) == before
    })
    .await;
    let count = |client: &CountedClient, operation| client.proxy.requests(operation);
    let start = [&many, &one].map(|client| count(client, Operation::Sync));
    let looks = count(&many, Operation::Exists);
    let began = Instant::now();
    tokio::time::sleep(T).await;
    let probes =
        [count(&many, Operation::Sync) - start[0], count(&one, Operation::Sync) - start[1]];
    let looks = count(&many, Operation::Exists) - looks;
    let took = began.elapsed();
    println!("in {took:?} probes: {probes:?}; looks: {looks}");
    // By a timer, of which the first may come at once; late ones are not made up for.
    let at_most = |each: u32| 1 + usize::try_from(took.as_nanos() / (T / each).as_nanos()).unwrap();
    assert!(probes.iter().all(|probes| (1..=at_most(7)).contains(probes)), "{probes:?}");
    // One batch of 64 each time, however many there are.
    assert!((64..=64 * at_most(12)).contains(&looks), "{looks}");
    assert!(single.is_held() && holds.iter().all(|guard| guard.is_held()));
    within("the end", many.curator.close()).await;
    assert!(holds.iter().all(|guard| !guard.is_held()));
}
