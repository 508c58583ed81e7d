//! A hundred candidates, and a thousand: how many a release wakes, and what they cost.

use crate::prelude::*;
use crate::support::counted_client::{CountedClient, LONG_SESSION, counted_clients, events};

const CLIENTS: usize = 4;
/// So many releases are looked at one by one.
const LOOKED_AT: usize = 40;

#[derive(Debug)]
struct Cost {
    requests: usize,
    events: usize,
    waiters: usize,
}

/// Neighbours in the queue are of different clients.
async fn queue(waiters: usize) -> Cost {
    let testbed = Testbed::own().await;
    let clients: [_; CLIENTS] = counted_clients(&testbed).await;
    let mut holder = testbed.leading_latch(&clients[0].curator).await;
    let requests = || clients.iter().map(CountedClient::requests).sum::<usize>();
    let before = requests();
    let (served, mut holds) = tokio::sync::mpsc::unbounded_channel();
    let mut tasks = JoinSet::new();
    for waiter in 1..=waiters {
        let (client, served) = (waiter % CLIENTS, served.clone());
        let latch = testbed.latch(&clients[client].curator);
        tasks.spawn(async move {
            let hold = latch.leadership().await.unwrap();
            assert!(served.send((client, (latch, hold))).is_ok());
        });
        if waiter % CLIENTS == 0 {
            // Not more than a few creates under way: the queue is as mixed as they come.
            testbed.children_are(waiter + 1).await;
        }
    }
    testbed.children_are(waiters + 1).await;
    let mut releasing = 0;
    let start = events(&clients).await;
    for release in 0..waiters {
        let before = if release < LOOKED_AT { events(&clients).await } else { Vec::new() };
        let (latch, last) = holder;
        latch.close().await.unwrap();
        let (client, hold) = within("the next", holds.recv()).await.unwrap();
        assert!(hold.1.fencing_token() > last.fencing_token(), "invariant 4");
        if release < LOOKED_AT {
            let after = events(&clients).await;
            let others = (0..CLIENTS).filter(|other| *other != releasing);
            let woken: usize = others.map(|other| after[other] - before[other]).sum();
            assert!(woken <= 2, "a release woke {woken} others: invariant 6");
        }
        (releasing, holder) = (client, hold);
    }
    holder.0.close().await.unwrap();
    within("their ends", tasks.join_all()).await;
    let events = events(&clients).await.iter().zip(start).map(|(end, start)| end - start).sum();
    Cost { requests: requests() - before, events, waiters }
}

impl Cost {
    #[allow(clippy::cast_precision_loss)] // some thousands
    fn each(&self) -> f64 {
        self.requests as f64 / self.waiters as f64
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_waiters_wake_two_others_a_release_and_cost_as_much_as_a_hundred_each() {
    assert!(LONG_SESSION.as_secs() >= 60, "no contender looks for its node meanwhile");
    let candidates = queue(100).await;
    let many = queue(1000).await;
    println!("candidates: {candidates:?}, many: {many:?}");
    // The echo of the own deletion is the third.
    for cost in [&candidates, &many] {
        assert!(cost.events <= 3 * (cost.waiters + 1), "{cost:?}");
    }
    assert!(many.each() <= 1.25 * candidates.each(), "{candidates:?}, {many:?}");
    // Create, listing, three watches, the listing of the stand-by, delete.
    assert!(many.each() <= 8.0 && candidates.each() <= 8.0, "{many:?}, {candidates:?}");
}
