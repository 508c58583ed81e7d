//! A thousand waiters: whom a release wakes, and what they cost.

use tokio::task::JoinSet;
use zookeeper_recipes::{MutexGuard, Shortcuts};
use zookeeper_testkit::Operation;

use super::link::{LONG_SESSION, Linked, events};
use crate::harness::{Arena, within};

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
async fn queue(waiters: usize, rules: Shortcuts) -> Cost {
    let arena = Arena::own().await;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(Linked::new(&arena, rules).await);
    }
    let requests = |clients: &[Linked]| -> usize {
        let syncs = |client: &Linked| client.proxy.requests(Operation::Sync);
        clients.iter().map(|client| client.proxy.requests(Operation::Any) - syncs(client)).sum()
    };
    let mut holder = arena.mutex(&clients[0].curator).acquire().await.unwrap();
    let before = requests(&clients);
    let (served, mut holds) = tokio::sync::mpsc::unbounded_channel::<(usize, MutexGuard)>();
    let mut tasks = JoinSet::new();
    for waiter in 1..=waiters {
        let (client, served) = (waiter % CLIENTS, served.clone());
        let mutex = arena.mutex(&clients[client].curator);
        tasks.spawn(async move { served.send((client, mutex.acquire().await.unwrap())).unwrap() });
        if waiter % CLIENTS == 0 {
            // Not more than a few creates under way: the queue is as mixed as they come.
            arena.children_are(waiter + 1).await;
        }
    }
    arena.children_are(waiters + 1).await;
    let mut last = holder.fencing_token();
    let mut releasing = 0;
    let start = events(&clients).await;
    for release in 0..waiters {
        let before = if release < LOOKED_AT { events(&clients).await } else { Vec::new() };
        holder.release().await.unwrap();
        let (client, guard) = within("the next", holds.recv()).await.unwrap();
        assert!(guard.fencing_token() > last);
        last = guard.fencing_token();
        if release < LOOKED_AT {
            let after = events(&clients).await;
            let others = (0..CLIENTS).filter(|other| *other != releasing);
            let woken: usize = others.map(|other| after[other] - before[other]).sum();
            assert!(woken <= 2, "a release woke {woken} others: invariant 6");
        }
        (releasing, holder) = (client, guard);
    }
    holder.release().await.unwrap();
    within("their ends", tasks.join_all()).await;
    let end = events(&clients).await;
    let events = end.iter().zip(start).map(|(end, start)| end - start).sum();
    Cost { requests: requests(&clients) - before, events, waiters }
}

impl Cost {
    #[allow(clippy::cast_precision_loss)] // some thousands
    fn each(&self) -> f64 {
        self.requests as f64 / self.waiters as f64
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_waiters_wake_two_others_a_release_and_cost_as_much_as_a_hundred_each() {
    assert!(LONG_SESSION.as_secs() >= 60, "nobody looks for its node meanwhile");
    let few = queue(100, Shortcuts::ALL).await;
    let many = queue(1000, Shortcuts::ALL).await;
    println!("few: {few:?}, many: {many:?}");
    // The echo of the own deletion is the third.
    for cost in [&few, &many] {
        assert!(cost.events <= 3 * (cost.waiters + 1), "{cost:?}");
    }
    assert!(many.each() <= 1.25 * few.each(), "{} and {}", few.each(), many.each());
    // Create, listing, three watches, the listing of who stands by, delete.
    assert!(many.each() <= 8.0, "{many:?}");
}
