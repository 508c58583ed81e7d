//! Slots under faults.

use zookeeper_recipes::{Error, SlotGuard, SlotHold, Slots};

use crate::product::{SOON, Told, meanwhile, products};
use crate::support::fixture::FaultFixture;

fn told(asked: Result<SlotGuard, Error>) -> Told {
    asked.map_or(Told::Nothing, |slot| Told::Has(Box::new(slot)))
}

/// Of a path that was used before: creates and listings are all it takes.
async fn known(fixture: &FaultFixture) -> Slots {
    let slots = fixture.slots();
    fixture.is_known().await;
    slots
}

/// The one that is preferred is taken.
async fn half_full(fixture: &FaultFixture) -> (Slots, SlotGuard) {
    let slots = known(fixture).await;
    let held = fixture.rival_slot().await;
    (slots.prefer(held.index()).unwrap(), held)
}

async fn full(fixture: &FaultFixture) -> (Slots, [SlotGuard; 2]) {
    let slots = known(fixture).await;
    (slots, [fixture.rival_slot().await, fixture.rival_slot().await])
}

products! { product:
    acquire_of_a_slot_where_the_folders_are_missing: async |fixture: &FaultFixture| fixture.slots(), async |slots| {
        told(slots.acquire().await)
    };
    acquire_of_a_slot: known, async |slots| told(slots.acquire().await);
    acquire_of_a_slot_beside_the_preferred_one: half_full, async |(slots, held)| {
        let slot = slots.acquire().await;
        assert!(slot.as_ref().map_or(true, |slot| slot.index() != held.index()));
        told(slot)
    };
    acquire_of_a_slot_when_all_are_taken: full, async |(slots, [held, _other])| {
        let acquiring = async { told(slots.acquire().await) };
        meanwhile(acquiring, async || held.release().await.unwrap()).await
    };
    acquire_timeout_of_a_slot_when_all_are_taken: full, async |(slots, _held)| {
        Told::busy(slots.acquire_timeout(SOON).await)
    };
    try_acquire_of_a_slot: known, async |slots| told(slots.try_acquire().await);
    try_acquire_of_a_slot_when_all_are_taken: full, async |(slots, _held)| {
        Told::busy(slots.try_acquire().await)
    };
    run_with_a_slot: known, async |slots| {
        let ran = slots.run(async |slot: SlotHold| Ok::<_, Error>(slot.is_held())).await;
        assert!(ran.unwrap_or(true), "the body began without a hold");
        Told::Nothing
    };
    release_of_a_slot: async |fixture: &FaultFixture| fixture.slots().acquire().await.unwrap(), async |slot| {
        let node = slot.node().to_owned();
        Told::released(Some(node), slot.release().await)
    };
    participants_of_slots: full, async |(slots, _held)| {
        if let Ok(participants) = slots.participants().await {
            assert!(participants.len() == 2 && participants.iter().all(|one| one.holds));
        }
        Told::Nothing
    };
}
