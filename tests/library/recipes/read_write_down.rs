//! Reading beside a write hold, and going on when that is given up: no writer slips in.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use zookeeper_recipes::{Attempt, Loss, Released};

use super::read_write_lock::{got_write, settled};
use crate::harness::{Arena, acquired, eventually, lost_by, within};

/// Curator: TestInterProcessReadWriteLock#testDowngrading.
#[tokio::test(start_paused = true)]
async fn a_writer_reads_as_well_and_releases_both_in_either_order() {
    let (arena, [curator, other]) = Arena::with_curators().await;
    let (lock, rival) = (arena.read_write(&curator), arena.read_write(&other));
    for write_first in [true, false] {
        let write = within("the writer", lock.write()).await.unwrap();
        let read = within("a read beside it", write.read()).await.unwrap();
        assert!(write.is_held() && read.is_held());
        let told = lock.participants().await.unwrap();
        assert!(told.len() == 2 && told.iter().all(|one| one.holds), "{told:?}");
        if write_first {
            assert_eq!(write.release().await.unwrap(), Released::Confirmed);
            assert!(read.is_held());
            // It reads, with other readers.
            let other = acquired(rival.try_read().await.unwrap()).expect("read with it");
            assert!(matches!(rival.try_write().await.unwrap(), Attempt::Busy));
            other.release().await.unwrap();
            assert_eq!(read.release().await.unwrap(), Released::Confirmed);
        } else {
            assert_eq!(read.release().await.unwrap(), Released::Confirmed);
            assert!(write.is_held());
            assert!(matches!(rival.try_read().await.unwrap(), Attempt::Busy));
            assert_eq!(write.release().await.unwrap(), Released::Confirmed);
        }
        acquired(rival.try_write().await.unwrap()).expect("free").release().await.unwrap();
        arena.children_are(0).await;
    }
}

/// As Curator names it since 5.5 (CURATOR-621).
#[tokio::test(start_paused = true)]
async fn a_read_beside_a_write_has_its_number_and_its_token() {
    let (arena, [curator, other]) = Arena::with_curators().await;
    let lock = arena.read_write(&curator.with_identity("me@here"));
    // So that the number is not the first.
    lock.read().await.unwrap().release().await.unwrap();
    let write = within("the writer", lock.write()).await.unwrap();
    let next = arena.writes(&other).await;
    let read = within("a read beside it", write.read()).await.unwrap();
    let second = within("another read beside it", write.read()).await.unwrap();
    let digits = &write.node()[write.node().len() - 10..];
    for read in [&read, &second] {
        let name = read.node().strip_prefix(&format!("{}/", arena.path)).unwrap();
        assert_eq!(name.len(), 58);
        assert!(name.starts_with("_c_"), "{name}");
        assert!(name.ends_with(&format!("-__READ__{digits}")), "{name}");
        let (data, stat) = arena.admin.get_data(read.node()).await.unwrap();
        assert_eq!(data, b"me@here");
        assert_eq!(stat.ephemeral_owner, curator.session_id().unwrap());
        // Its node is younger than that of the writer that waits, which holds later.
        assert!(stat.czxid > write.fencing_token().value());
        assert_eq!(read.fencing_token(), write.fencing_token());
    }
    assert_ne!(read.node(), second.node());
    let token = write.fencing_token();
    write.release().await.unwrap();
    read.release().await.unwrap();
    settled(&other).await;
    assert!(!next.is_finished(), "the second read is there");
    second.release().await.unwrap();
    let next = got_write(next).await;
    assert!(next.fencing_token() > token, "invariant 4");
    next.release().await.unwrap();
}

/// Curator: TestInterProcessReadWriteLock#testContendingDowngrading, in many rounds. CURATOR-621, CURATOR-276.
#[tokio::test(start_paused = true)]
async fn no_writer_slips_in_between() {
    let (arena, [curator, other, third]) = Arena::with_curators().await;
    let reads = Arc::new(AtomicBool::new(false));
    for round in 0..30 {
        let lock = arena.read_write(&curator);
        let held = within("the writer", lock.write()).await.unwrap();
        let mut writers = Vec::new();
        // The second is of the same session in some rounds.
        for curator in [&other, if round % 3 == 0 { &curator } else { &third }] {
            let (writer, reads) = (arena.writes(curator).await, reads.clone());
            writers.push(tokio::spawn(async move {
                let guard = got_write(writer).await;
                assert!(!reads.load(Ordering::SeqCst), "a writer beside a reader");
                guard.release().await.unwrap();
            }));
        }
        reads.store(true, Ordering::SeqCst);
        let read = within("the down-grade", held.downgrade()).await.unwrap();
        // Whoever waits is told that the write hold is gone, and looks.
        settled(&other).await;
        settled(&third).await;
        assert!(read.is_held());
        reads.store(false, Ordering::SeqCst);
        read.release().await.unwrap();
        for writer in writers {
            within("a writer", writer).await.unwrap();
        }
    }
    arena.children_are(0).await;
}

#[tokio::test(start_paused = true)]
async fn a_nested_write_guard_keeps_the_write_lock_through_a_down_grade() {
    let (arena, [curator, other]) = Arena::with_curators().await;
    let rival = arena.read_write(&other);
    let write = within("the writer", arena.read_write(&curator).write()).await.unwrap();
    let nested = write.reenter();
    let read = within("the down-grade", write.downgrade()).await.unwrap();
    assert!(nested.is_held() && read.is_held());
    assert!(matches!(rival.try_read().await.unwrap(), Attempt::Busy));
    let again = nested.read().await.unwrap();
    drop(nested);
    eventually("others read", async || acquired(rival.try_read().await.unwrap()).is_some()).await;
    drop((read, again));
    arena.children_are(0).await;
}

/// Before it knows, and after.
#[tokio::test(start_paused = true)]
async fn a_read_beside_a_write_that_is_lost_is_refused() {
    for loss in [Loss::NodeDeleted, Loss::SessionExpired] {
        let arena = Arena::new().await;
        // So long that nobody looks for its node within a test's time.
        let curator = arena.patient_curator().await;
        let write = arena.read_write(&curator).write().await.unwrap();
        if loss == Loss::NodeDeleted {
            arena.remove(write.node()).await;
            assert!(write.is_held(), "nobody has told it");
        } else {
            arena.kill_session(&curator).await;
        }
        assert_eq!(lost_by(within("a read", write.read()).await), loss);
        assert_eq!(arena.children().await.len(), 0, "invariant 3");
        assert_eq!(within("the loss", write.lost()).await, loss);
        assert_eq!(lost_by(within("again", write.read()).await), loss);
        assert_eq!(lost_by(within("a down-grade", write.downgrade()).await), loss);
        arena.children_are(0).await;
    }
}

/// The two have nodes of their own: one that is lost does not take the other with it.
#[tokio::test(start_paused = true)]
async fn a_write_and_the_read_beside_it_are_lost_one_by_one() {
    for write_goes in [true, false] {
        let arena = Arena::new().await;
        let (curator, other) = (arena.short_lived_curator().await, arena.curator().await);
        let write = arena.read_write(&curator).write().await.unwrap();
        let beside = within("a read beside it", write.read()).await.unwrap();
        let writer = arena.writes(&other).await;
        if write_goes {
            arena.remove(write.node()).await;
            assert_eq!(within("the loss", write.lost()).await, Loss::NodeDeleted);
            assert!(beside.is_held(), "{:?}", beside.loss());
            assert_eq!(lost_by(write.release().await), Loss::NodeDeleted);
            settled(&other).await;
            assert!(!writer.is_finished(), "one still reads");
            assert_eq!(beside.release().await.unwrap(), Released::Confirmed);
        } else {
            arena.remove(beside.node()).await;
            assert_eq!(within("the loss", beside.lost()).await, Loss::NodeDeleted);
            assert!(write.is_held());
            let read = within("the down-grade", write.downgrade()).await.unwrap();
            assert!(read.is_held());
            read.release().await.unwrap();
            drop(beside);
        }
        got_write(writer).await.release().await.unwrap();
        arena.children_are(0).await;
    }
}
