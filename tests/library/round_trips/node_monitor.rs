//! The watches and the checks of the nodes of holds and waiters, and their requests.

use futures_util::stream::{StreamExt, iter};

use crate::prelude::*;
use crate::support::counted_client::CountedClient;

/// A request about several nodes (`multiRead`), each twelfth of a session timeout.
const LOOK: Operation = Operation::MultiRead;

async fn short_lived(testbed: &Testbed) -> CountedClient {
    CountedClient::built(testbed, testbed.short_lived_builder()).await
}

/// The data of its node were changed before, twice.
#[tokio::test(start_paused = true)]
async fn a_hold_whose_watch_was_used_up_is_told() {
    let testbed = Testbed::with_parent().await;
    let client = short_lived(&testbed).await;
    let guard = testbed.mutex(&client.curator).acquire().await.unwrap();
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
    eventually("looks", async || client.proxy.replies(LOOK) > 2).await;
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

/// As cheap as one, but for the looks for those that it may not watch.
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
    let (looks, began) = (count(&many, LOOK), Instant::now());
    tokio::time::sleep(T).await;
    let probes =
        [count(&many, Operation::Sync) - start[0], count(&one, Operation::Sync) - start[1]];
    let looks = count(&many, LOOK) - looks;
    let took = began.elapsed();
    println!("in {took:?} probes: {probes:?}; looks: {looks}");
    // By a timer, of which the first may come at once; late ones are not made up for.
    let at_most = |each: u32| 1 + usize::try_from(took.as_nanos() / (T / each).as_nanos()).unwrap();
    assert!(probes.iter().all(|probes| (1..=at_most(7)).contains(probes)), "{probes:?}");
    assert!((1..=at_most(12)).contains(&looks), "{looks}");
    assert_eq!(count(&many, Operation::Exists), 0);
    assert!(single.is_held() && holds.iter().all(|guard| guard.is_held()));
    within("the end", many.curator.close()).await;
    assert!(holds.iter().all(|guard| !guard.is_held()));
}
