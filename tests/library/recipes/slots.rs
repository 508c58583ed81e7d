//! Slots: each holder has an index that no other live holder has.

use std::collections::BTreeSet;

use zookeeper_recipes::{SlotGuard, SlotHold, Slots};

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

/// The indexes of guards that all hold, each with one of its own.
#[track_caller]
fn indexes<'a>(guards: impl IntoIterator<Item = &'a SlotGuard>) -> BTreeSet<usize> {
    let mut indexes = BTreeSet::new();
    for guard in guards {
        assert!(guard.is_held());
        assert!(indexes.insert(guard.index()), "two have {}", guard.index());
    }
    indexes
}

/// Neither a holder nor a waiter is left, and no contender at any of the indexes.
async fn nothing_is_left(testbed: &Testbed, count: usize) {
    testbed.nodes_are(0, 0).await;
    for index in 0..count {
        let path = format!("{}/slots/{index}", testbed.path);
        eventually(&path, async || children(&testbed.admin, &path).await.is_empty()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn sixteen_processes_at_once_have_all_indexes() {
    let (testbed, all) = Testbed::with_curators::<16>().await;
    for prefers_seven in [false, true] {
        let began = Instant::now();
        let asking: Vec<_> = slots(&testbed, &all, 16)
            .into_iter()
            .map(|slots| asks(&if prefers_seven { slots.prefer(7).unwrap() } else { slots }))
            .collect();
        let guards = all_served(asking).await;
        assert_eq!(indexes(&guards), (0..16).collect());
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
        for guard in guards {
            assert_eq!(guard.release().await.unwrap(), Released::Confirmed);
        }
        nothing_is_left(&testbed, 16).await;
    }
}

#[tokio::test(start_paused = true)]
async fn sixteen_of_twenty_tries_at_once_hold() {
    let (testbed, all) = Testbed::with_curators::<20>().await;
    let of_many = slots(&testbed, &all, 16);
    let of_one = vec![of_many[0].clone(); 20];
    for all in [of_many, of_one] {
        let began = Instant::now();
        let trying: Vec<_> = all.iter().map(tries).collect();
        let (mut held, mut busy) = (Vec::new(), 0);
        for tries in trying {
            match within("a try", tries).await.unwrap() {
                Ok(guard) => held.push(guard),
                tried => {
                    let error = fails(tried, ErrorKind::Busy);
                    assert_eq!(error.path(), Some(&*testbed.path));
                    busy += 1;
                }
            }
        }
        assert_eq!((indexes(&held), busy), ((0..16).collect(), 4));
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
        drop(held);
        nothing_is_left(&testbed, 16).await;
    }
}

#[tokio::test(start_paused = true)]
async fn tasks_of_one_process_contend_as_processes_do() {
    let (testbed, [curator]) = Testbed::with_curators().await;
    let slots = curator.slots(&testbed.path, 70).unwrap();
    let asked_at = Instant::now();
    let asking: Vec<_> = (0..90).map(|_| asks(&slots)).collect();
    let turns = asking.into_iter().map(async |asks| {
        let guard = served(asks).await;
        let (index, waited) = (guard.index(), asked_at.elapsed());
        tokio::time::sleep(BUSY).await;
        assert!(guard.is_held());
        guard.release().await.unwrap();
        (index, waited)
    });
    let (had, mut waits): (Vec<_>, Vec<_>) = join_all(turns).await.into_iter().unzip();
    waits.sort();
    // Seventy hold before the first of them releases.
    assert!(waits[69] < BUSY && waits[70] >= BUSY, "{waits:?}");
    assert_eq!(had.into_iter().collect::<BTreeSet<_>>(), (0..70).collect());
    // An owner has no part in it: its second slot is another one.
    let two = async { [slots.acquire().await.unwrap(), slots.acquire().await.unwrap()] };
    let two = within("an owner", Owner::new().scope(two)).await;
    assert_eq!(indexes(&two), BTreeSet::from([0, 1]));
}

/// What a process that stops and comes back has to remember is its number.
#[tokio::test(start_paused = true)]
async fn the_preferred_index_if_it_is_free_and_else_the_lowest() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let slots = curator.slots(&testbed.path, 4).unwrap();
    let others = other.slots(&testbed.path, 4).unwrap().prefer(2).unwrap();
    let two = served(asks(&slots.clone().prefer(2).unwrap())).await;
    let zero = served(asks(&others)).await;
    let one = served(tries(&slots)).await;
    assert_eq!((two.index(), zero.index(), one.index()), (2, 0, 1));
    two.release().await.unwrap();
    for _ in 0..3 {
        let two = served(tries(&others)).await;
        assert_eq!(two.index(), 2);
        let three = served(asks(&slots)).await;
        assert_eq!(three.index(), 3);
        fails(others.try_acquire().await, ErrorKind::Busy);
        three.release().await.unwrap();
        two.release().await.unwrap();
    }
}

/// A third party deletes one of the two nodes. The session lives, so the other node is there until the guard is dropped.
#[tokio::test(start_paused = true)]
async fn a_slot_is_lost_with_either_node() {
    let testbed = Testbed::new().await;
    let slots = testbed.attentive_curator().await.slots(&testbed.path, 1).unwrap();
    for deletes_permit in [false, true] {
        let (started, body) = tokio::sync::oneshot::channel();
        let running = slots.clone();
        let run = tokio::spawn(async move {
            let body = async |slot: SlotHold| {
                started.send(slot.view()).unwrap();
                std::future::pending::<Result<(), Error>>().await
            };
            running.run(body).await
        });
        let slot = within("the body", body).await.unwrap();
        assert!(slot.is_held() && slot.loss().is_none() && !slot.session_lease_left().is_zero());
        assert_eq!(slot.index_path(), format!("{}/slots/0", testbed.path));
        let leases = testbed.leases().await;
        testbed.remove(if deletes_permit { &leases[0] } else { slot.node() }).await;
        assert_eq!(within("the loss", slot.lost()).await, Loss::NodeDeleted);
        assert_eq!((slot.is_held(), slot.loss()), (false, Some(Loss::NodeDeleted)));
        let error = fails(within("the run", run).await.unwrap(), ErrorKind::Lost);
        assert_eq!(error.path(), Some(slots.path()));
        nothing_is_left(&testbed, 1).await;
        // While a guard is kept, so is the other node.
        let guard = served(asks(&slots)).await;
        testbed.nodes_are(0, 1).await;
        let leases = testbed.leases().await;
        testbed.remove(if deletes_permit { &leases[0] } else { guard.node() }).await;
        within("the loss", guard.lost()).await;
        assert!(!guard.is_held() && guard.session_lease_left().is_zero());
        let text = fails(guard.release().await, ErrorKind::Lost).to_string();
        assert_eq!(text.matches(slots.path()).count(), 1, "{text}");
        nothing_is_left(&testbed, 1).await;
    }
}

/// A process that gets the permit finds the index free.
#[tokio::test(start_paused = true)]
async fn the_index_is_free_before_the_permit() {
    let testbed = Testbed::new().await;
    let (link, curator) = testbed.linked(testbed.builder()).await;
    let slots = curator.slots(&testbed.path, 1).unwrap();
    for drops in [false, true] {
        let slot = served(asks(&slots)).await;
        testbed.nodes_are(0, 1).await;
        let index = slot.index_path().to_owned();
        let held = link.hold(Message::request(Operation::Delete).nth(2));
        let releasing = spawned(async move {
            if drops {
                drop(slot)
            } else {
                drop(slot.release().await)
            }
            Ok(())
        });
        within("the second delete", held.struck()).await;
        eventually("the index", async || children(&testbed.admin, &index).await.is_empty()).await;
        testbed.nodes_are(0, 1).await;
        held.heal();
        served(releasing).await;
        nothing_is_left(&testbed, 1).await;
    }
}

/// An index that another process has without a permit, as if a third party had deleted that.
#[tokio::test(start_paused = true)]
async fn an_index_that_is_taken_without_a_permit_is_waited_for() {
    const PATIENCE: Duration = Duration::from_secs(1);
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let slots = curator.slots(&testbed.path, 2).unwrap();
    let zero = served(asks(&slots)).await;
    let orphan = other.mutex(format!("{}/slots/1", testbed.path)).unwrap();
    let orphan = within("the mutex", orphan.acquire()).await.unwrap();
    let began = Instant::now();
    let tried = within("a try", tries(&slots)).await.unwrap();
    assert_eq!(fails(tried, ErrorKind::Busy).path(), Some(slots.path()));
    assert!(began.elapsed() > PATIENCE && began.elapsed() < 3 * PATIENCE, "{:?}", began.elapsed());
    let began = Instant::now();
    fails(slots.acquire_timeout(BUSY).await, ErrorKind::Busy);
    assert!(began.elapsed() >= BUSY, "{:?}", began.elapsed());
    testbed.nodes_are(0, 1).await;
    let waiting = asks(&slots);
    tokio::time::sleep(LONG).await;
    assert!(!waiting.is_finished());
    let began = Instant::now();
    orphan.release().await.unwrap();
    let one = served(waiting).await;
    assert_eq!((zero.index(), one.index()), (0, 1));
    assert!(began.elapsed() < 2 * PATIENCE, "{:?}", began.elapsed());
}

/// Without the permit it has no place in the line.
#[tokio::test(start_paused = true)]
async fn a_caller_whose_permit_is_deleted_while_it_looks_has_another_one_first() {
    let testbed = Testbed::new().await;
    let slots = testbed.attentive_curator().await.slots(&testbed.path, 1).unwrap();
    let orphan = testbed.curator().await.mutex(format!("{}/slots/0", testbed.path)).unwrap();
    let orphan = within("the mutex", orphan.acquire()).await.unwrap();
    let waiting = asks(&slots);
    testbed.nodes_are(0, 1).await;
    let permit = testbed.leases().await;
    testbed.delete(&permit).await;
    eventually("another permit", async || {
        let leases = testbed.leases().await;
        leases.len() == 1 && leases != permit
    })
    .await;
    orphan.release().await.unwrap();
    assert!(served(waiting).await.is_held());
}

#[tokio::test(start_paused = true)]
async fn counts_and_indexes_that_there_cannot_be_are_refused() {
    let (testbed, curator) = Testbed::with_curator().await;
    for count in [0, 65_537, usize::MAX] {
        let error = fails(curator.slots(&testbed.path, count), ErrorKind::InvalidInput);
        assert_eq!((error.option(), error.path()), (Some("count"), Some(&*testbed.path)));
        assert!(error.to_string().contains(&count.to_string()), "{error}");
    }
    for (count, index) in [(1, 1), (4, 4), (65_536, 70_000)] {
        let slots = curator.slots(&testbed.path, count).unwrap();
        assert_eq!(slots.count(), count);
        let error = fails(slots.clone().prefer(index), ErrorKind::InvalidInput);
        assert_eq!((error.option(), error.path()), (Some("preferred index"), Some(slots.path())));
        assert!(error.to_string().contains(&index.to_string()), "{error}");
        let last = served(asks(&slots.prefer(count - 1).unwrap())).await;
        assert_eq!(last.index(), count - 1);
        last.release().await.unwrap();
    }
}

/// Every function that runs a body, and what its body gets.
#[tokio::test(start_paused = true)]
async fn bodies_have_the_index() {
    let (testbed, curator) = Testbed::with_curator().await;
    let slots = curator.slots(&testbed.path, 2).unwrap();
    let held = served(asks(&slots)).await;
    let body = async |slot: SlotHold| {
        assert!(slot.is_held());
        Ok::<_, Error>(slot.index())
    };
    assert_eq!(slots.run(body).await.unwrap(), 1);
    assert_eq!(slots.try_run(body).await.unwrap(), 1);
    assert_eq!(slots.run_timeout(LONG, body).await.unwrap(), 1);
    assert_eq!(slots.with(async |slot| slot.index()).await.unwrap(), 1);
    let failed =
        slots.run(async |_| Err::<(), _>(fails(curator.slots("/", 0), ErrorKind::InvalidInput)));
    fails(failed.await, ErrorKind::InvalidInput);
    let participants = slots.participants().await.unwrap();
    assert_eq!(participants.iter().map(|one| one.holds).collect::<Vec<_>>(), [true]);
    let holder = curator.mutex(held.index_path()).unwrap().participants().await.unwrap();
    assert_eq!(holder[0].node, held.node());
    let one = served(asks(&slots)).await;
    fails(slots.try_run(body).await, ErrorKind::Busy);
    fails(slots.run_timeout(BUSY, body).await, ErrorKind::Busy);
    held.fenced().create(&format!("{}-data", testbed.path), b"0").await.unwrap();
    drop((held, one));
    nothing_is_left(&testbed, 2).await;
}
