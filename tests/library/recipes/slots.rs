//! Slots: each holder has an index of its own.

use std::collections::{BTreeMap, BTreeSet};

use tokio_util::task::AbortOnDropHandle;
use zookeeper_recipes::{SlotGuard, Slots};

use crate::prelude::*;
use crate::support::leases::{Asks, served, spawned};

/// The slots of the test's path, for each of the curators.
fn slots<'a>(
    testbed: &Testbed,
    curators: impl IntoIterator<Item = &'a Curator>,
    count: usize,
) -> Vec<Slots> {
    let slots = |curator: &Curator| curator.slots(&testbed.path, count).unwrap();
    curators.into_iter().map(slots).collect()
}

fn asks(slots: &Slots) -> Asks<SlotGuard> {
    let slots = slots.clone();
    spawned(async move { slots.acquire().await })
}

fn tries(slots: &Slots) -> Asks<SlotGuard> {
    let slots = slots.clone();
    spawned(async move { slots.try_acquire().await })
}

async fn all_served(asking: impl IntoIterator<Item = Asks<SlotGuard>>) -> Vec<SlotGuard> {
    let mut guards = Vec::new();
    for asks in asking {
        guards.push(served(asks).await);
    }
    guards
}

fn indexes<'a>(guards: impl IntoIterator<Item = &'a SlotGuard>) -> BTreeSet<usize> {
    let mut indexes = BTreeSet::new();
    for guard in guards {
        assert!(guard.is_held());
        assert!(indexes.insert(guard.index()), "{} twice", guard.index());
    }
    indexes
}

#[tokio::test(start_paused = true)]
async fn sixteen_processes_at_once_have_all_indexes() {
    let (testbed, all) = Testbed::with_curators::<16>().await;
    for prefers in [false, true] {
        let began = Instant::now();
        let asking = slots(&testbed, &all, 16).into_iter().map(|slots| {
            // All of them want the same.
            asks(&if prefers { slots.prefer(7).unwrap() } else { slots })
        });
        let asking: Vec<_> = asking.collect();
        let guards = all_served(asking).await;
        println!("{:?}", began.elapsed());
        assert_eq!(indexes(&guards), (0..16).collect());
        for guard in guards {
            assert_eq!(guard.release().await.unwrap(), Released::Confirmed);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn tasks_of_one_process_contend_as_processes_do() {
    let (testbed, [curator]) = Testbed::with_curators().await;
    let slots = curator.slots(&testbed.path, 200).unwrap();
    for _ in 0..2 {
        let began = Instant::now();
        let asking: Vec<_> = (0..200).map(|_| asks(&slots)).collect();
        let guards = all_served(asking).await;
        println!("{:?}", began.elapsed());
        assert_eq!(indexes(&guards), (0..200).collect());
        drop(guards);
    }
}
