//! The shared count.

use std::sync::Arc;

use crate::harness::{Arena, eventually};
use crate::lock::{Party, unique};
use crate::peer::Peer;
use crate::peers;
use crate::rows::shown;

/// A shared count of a peer.
pub(crate) struct Counter {
    peer: Arc<Peer>,
    pub(crate) name: String,
}

impl Party {
    pub(crate) async fn counter(&self, path: &str, seed: i32) -> Counter {
        let name = unique("count");
        self.peer.ask(format!("count {name} {} {path} {seed}", self.session)).await;
        Counter { peer: self.peer.clone(), name }
    }
}

impl Counter {
    pub(crate) async fn value(&self) -> i32 {
        self.peer.ask(format!("value {}", self.name)).await.parse().unwrap()
    }

    pub(crate) async fn set(&self, value: i32) {
        self.peer.ask(format!("set {} {value}", self.name)).await;
    }

    /// To what this side saw last, if nobody has set it since.
    async fn try_add(&self, more: i32) -> bool {
        self.peer.ask(format!("try-add {} {more}", self.name)).await == "yes"
    }

    pub(crate) async fn sees(&self, value: i32) {
        eventually("it sees it", async || self.value().await == value).await;
    }
}

#[tokio::test]
async fn ours_and_curators() {
    let Some(curator) = peers::curator() else { return };
    let arena = Arena::real().await;
    for [first, second] in [[peers::ours(), curator.clone()], [curator.clone(), peers::ours()]] {
        let servers = arena.server.connect_string();
        let first = Party::join(&first, servers).await.counter(&arena.path, -1).await;
        // The seed of the second is of no account.
        let second = Party::join(&second, servers).await.counter(&arena.path, 7).await;
        assert_eq!((first.value().await, second.value().await), (-1, -1));
        for value in [i32::MIN, 0, 1, i32::MAX] {
            first.set(value).await;
            second.sees(value).await;
            second.set(value ^ 5).await;
            first.sees(value ^ 5).await;
        }
        counted_up(&first, &second).await;
        arena.admin.delete(&arena.path, None).await.unwrap();
    }
    let result = "each sees what the other sets, no addition is lost";
    shown("shared count", "ours, Curator", result, "");
}

/// Both add one at a time, each twenty times, over what the other adds meanwhile: none is lost.
async fn counted_up(first: &Counter, second: &Counter) {
    first.set(100).await;
    second.sees(100).await;
    let count_up = async |counter: &Counter| {
        for _ in 0..20 {
            while !counter.try_add(1).await {}
        }
    };
    tokio::join!(count_up(first), count_up(second));
    first.sees(140).await;
    second.sees(140).await;
}
