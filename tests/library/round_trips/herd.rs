//! A thousand waiters, and a hundred candidates: how many a release wakes, and what they cost.

use std::sync::Arc;

use tokio::task::JoinSet;
use zookeeper_recipes::{FencingToken, LeaderLatch, Leadership, MutexGuard, Shortcuts};

use super::link::{LONG_SESSION, Linked, events, linked};
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

enum Hold {
    Mutex(MutexGuard),
    Latch(Box<LeaderLatch>, Leadership),
}

impl Hold {
    async fn of(linked: &Linked, arena: &Arena, is_latch: bool) -> Self {
        if is_latch {
            let latch = LeaderLatch::new(&linked.curator, &arena.path).unwrap();
            latch.start().unwrap();
            let leadership = latch.await_leadership().await.unwrap();
            Self::Latch(Box::new(latch), leadership)
        } else {
            Self::Mutex(arena.mutex(&linked.curator).acquire().await.unwrap())
        }
    }

    fn token(&self) -> FencingToken {
        match self {
            Self::Mutex(guard) => guard.fencing_token(),
            Self::Latch(_, leadership) => leadership.fencing_token(),
        }
    }

    async fn release(self) {
        match self {
            Self::Mutex(guard) => drop(guard.release().await.unwrap()),
            Self::Latch(latch, _) => latch.close().await.unwrap(),
        }
    }
}

/// Neighbours in the queue are of different clients.
async fn queue(waiters: usize, is_latch: bool) -> Cost {
    let arena = Arc::new(Arena::own().await);
    let clients: [_; CLIENTS] = linked(&arena, Shortcuts::ALL).await;
    let clients = Arc::new(clients);
    let mut holder = Hold::of(&clients[0], &arena, is_latch).await;
    let requests = || clients.iter().map(Linked::requests).sum::<usize>();
    let before = requests();
    let (served, mut holds) = tokio::sync::mpsc::unbounded_channel();
    let mut tasks = JoinSet::new();
    for waiter in 1..=waiters {
        let (client, served) = (waiter % CLIENTS, served.clone());
        let (clients, shared) = (clients.clone(), arena.clone());
        tasks.spawn(async move {
            let hold = Hold::of(&clients[client], &shared, is_latch).await;
            assert!(served.send((client, hold)).is_ok());
        });
        if waiter % CLIENTS == 0 {
            // Not more than a few creates under way: the queue is as mixed as they come.
            arena.children_are(waiter + 1).await;
        }
    }
    arena.children_are(waiters + 1).await;
    let mut releasing = 0;
    let start = events(&*clients).await;
    for release in 0..waiters {
        let before = if release < LOOKED_AT { events(&*clients).await } else { Vec::new() };
        let last = holder.token();
        holder.release().await;
        let (client, hold) = within("the next", holds.recv()).await.unwrap();
        assert!(hold.token() > last, "invariant 4");
        if release < LOOKED_AT {
            let after = events(&*clients).await;
            let others = (0..CLIENTS).filter(|other| *other != releasing);
            let woken: usize = others.map(|other| after[other] - before[other]).sum();
            assert!(woken <= 2, "a release woke {woken} others: invariant 6");
        }
        (releasing, holder) = (client, hold);
    }
    holder.release().await;
    within("their ends", tasks.join_all()).await;
    let events = events(&*clients).await.iter().zip(start).map(|(end, start)| end - start).sum();
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
    assert!(LONG_SESSION.as_secs() >= 60, "nobody looks for its node meanwhile");
    let candidates = queue(100, true).await;
    let few = queue(100, false).await;
    let many = queue(1000, false).await;
    println!("candidates: {candidates:?}, few: {few:?}, many: {many:?}");
    // The echo of the own deletion is the third.
    for cost in [&candidates, &few, &many] {
        assert!(cost.events <= 3 * (cost.waiters + 1), "{cost:?}");
    }
    assert!(many.each() <= 1.25 * few.each(), "{} and {}", few.each(), many.each());
    // Create, listing, three watches, the listing of who stands by, delete.
    assert!(many.each() <= 8.0 && candidates.each() <= 8.0, "{many:?}, {candidates:?}");
}
