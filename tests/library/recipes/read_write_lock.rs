//! A read-write lock: readers and writers, reading beside a write hold and after it, and who re-enters.

use crate::prelude::*;

/// What the servers had sent to this client, it has acted on.
pub(crate) async fn settled(curator: &Curator) {
    for _ in 0..2 {
        round_trip(curator).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// As Curator names it since 5.5 (CURATOR-621).
#[tokio::test(start_paused = true)]
async fn a_read_beside_a_write_has_its_number_and_its_token() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let lock = testbed.read_write(&curator.with_identity("me@here"));
    // So that the number is not the first.
    lock.read().await.unwrap().release().await.unwrap();
    let write = within("the writer", lock.write()).await.unwrap();
    let next = testbed.writes(&other).await;
    let read = within("a read beside it", write.read()).await.unwrap();
    let second = within("another read beside it", write.read()).await.unwrap();
    let told = lock.participants().await.unwrap();
    assert_eq!(told.iter().filter(|one| one.holds).count(), 3, "{told:?}");
    let digits = &write.node()[write.node().len() - 10..];
    for read in [&read, &second] {
        let name = read.node().strip_prefix(&format!("{}/", testbed.path)).unwrap();
        assert_eq!(name.len(), 58);
        assert!(name.starts_with("_c_"), "{name}");
        assert!(name.ends_with(&format!("-__READ__{digits}")), "{name}");
        let (data, stat) = testbed.admin.get_data(read.node()).await.unwrap();
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
    let next = held(next).await;
    assert!(next.fencing_token() > token, "invariant 4");
    next.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_nested_write_guard_keeps_the_write_lock_through_a_down_grade() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let rival = testbed.read_write(&other);
    let write = within("the writer", testbed.read_write(&curator).write()).await.unwrap();
    let nested = write.reenter();
    let read = within("the down-grade", write.downgrade()).await.unwrap();
    assert!(nested.is_held() && read.is_held());
    assert!(rival.try_read().await.unwrap_err().is_busy());
    let again = nested.read().await.unwrap();
    drop(nested);
    eventually("others read", async || acquired(rival.try_read().await).is_some()).await;
    drop((read, again));
    testbed.children_are(0).await;
}

/// Before it knows, and after.
#[tokio::test(start_paused = true)]
async fn a_read_beside_a_write_that_is_lost_is_refused() {
    for loss in [Loss::NodeDeleted, Loss::SessionExpired] {
        let testbed = Testbed::new().await;
        // So long that nobody looks for its node within a test's time.
        let curator = testbed.patient_curator().await;
        let write = testbed.read_write(&curator).write().await.unwrap();
        if loss == Loss::NodeDeleted {
            testbed.remove(write.node()).await;
            assert!(write.is_held(), "nobody has told it");
        } else {
            testbed.kill_session(&curator).await;
        }
        assert_eq!(lost_by(within("a read", write.read()).await), loss);
        assert_eq!(testbed.children().await.len(), 0, "invariant 3");
        assert_eq!(within("the loss", write.lost()).await, loss);
        assert_eq!(lost_by(within("again", write.read()).await), loss);
        assert_eq!(lost_by(within("a down-grade", write.downgrade()).await), loss);
        testbed.children_are(0).await;
    }
}

/// The two have nodes of their own: one that is lost does not take the other with it.
#[tokio::test(start_paused = true)]
async fn a_write_and_the_read_beside_it_are_lost_one_by_one() {
    for write_goes in [true, false] {
        let testbed = Testbed::new().await;
        let (curator, other) = (testbed.short_lived_curator().await, testbed.curator().await);
        let write = testbed.read_write(&curator).write().await.unwrap();
        let beside = within("a read beside it", write.read()).await.unwrap();
        let writer = testbed.writes(&other).await;
        if write_goes {
            testbed.remove(write.node()).await;
            assert_eq!(within("the loss", write.lost()).await, Loss::NodeDeleted);
            assert!(beside.is_held(), "{:?}", beside.loss());
            assert_eq!(lost_by(write.release().await), Loss::NodeDeleted);
            settled(&other).await;
            assert!(!writer.is_finished(), "one still reads");
            assert_eq!(beside.release().await.unwrap(), Released::Confirmed);
        } else {
            testbed.remove(beside.node()).await;
            assert_eq!(within("the loss", beside.lost()).await, Loss::NodeDeleted);
            assert!(write.is_held());
            let read = within("the down-grade", write.downgrade()).await.unwrap();
            assert!(read.is_held());
            read.release().await.unwrap();
            drop(beside);
        }
        held(writer).await.release().await.unwrap();
        testbed.children_are(0).await;
    }
}

#[track_caller]
fn is_upgrade<T: std::fmt::Debug>(testbed: &Testbed, acquired: Result<T, Error>) {
    let error = fails(acquired, ErrorKind::WouldDeadlock);
    assert_eq!(error.path(), Some(testbed.path.as_str()));
    assert!(error.to_string().contains(&testbed.path), "{error}");
}

/// As Curator's thread does (TestInterProcessReadWriteLock#testDowngrading), each way of acquiring.
#[tokio::test(start_paused = true)]
async fn an_owner_that_writes_reads_beside_it() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let lock = testbed.read_write(&curator);
    Owner::new()
        .scope(async {
            for way in 0..4 {
                let written = within("the writer", lock.write()).await.unwrap();
                let next = testbed.writes(&other).await;
                let limit = Duration::from_secs(50);
                let read = match way {
                    0 => within("a read", lock.read()).await.unwrap(),
                    1 => lock.try_read().await.expect("beside"),
                    2 => within("by the guard", written.read()).await.unwrap(),
                    _ => lock.read_timeout(limit).await.expect("beside"),
                };
                assert_eq!(read.fencing_token(), written.fencing_token());
                let digits = &written.node()[written.node().len() - 10..];
                assert!(read.node().ends_with(&format!("-__READ__{digits}")), "{}", read.node());
                let nested = within("nested", lock.read()).await.unwrap();
                assert_eq!(nested.node(), read.node());
                // It writes still.
                drop(within("nested", lock.write()).await.unwrap());
                written.release().await.unwrap();
                settled(&other).await;
                assert!(!next.is_finished());
                // From now on to write would be an upgrade.
                is_upgrade(&testbed, within("at once", lock.write()).await);
                drop((read, nested));
                held(next).await.release().await.unwrap();
            }
        })
        .await;
    testbed.children_are(0).await;
}

/// Curator: TestInterProcessReadWriteLock#testThatUpgradingIsDisallowed; there it waits until the time is up.
#[tokio::test(start_paused = true)]
async fn an_owner_that_reads_is_told_at_once_that_it_cannot_write() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let lock = testbed.read_write(&curator);
    Owner::new()
        .scope(async {
            let read = lock.read().await.unwrap();
            let rival = testbed.read_write(&other).read().await.unwrap();
            is_upgrade(&testbed, within("at once", lock.write()).await);
            is_upgrade(&testbed, within("at once", lock.try_write()).await);
            let limit = Duration::from_secs(3600);
            is_upgrade(&testbed, within("at once", lock.write_timeout(limit)).await);
            assert_eq!(testbed.children().await.len(), 2, "no node was made for it");
            drop((read, rival));
            testbed.children_are(0).await;
            // It reads no more.
            within("the writer", lock.write()).await.unwrap().release().await.unwrap();
        })
        .await;
}

/// Whatever else it reads, and wherever the write guard is: else it would wait for a writer that waits for itself.
#[tokio::test(start_paused = true)]
async fn what_an_owner_down_grades_is_the_owners() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let lock = testbed.read_write(&curator);
    let owner = Owner::new();
    let (write, first) = owner
        .scope(async {
            let write = lock.write().await.unwrap();
            let first = lock.read().await.unwrap();
            (write, first)
        })
        .await;
    // Outside the scope.
    let down = within("the down-grade", write.downgrade()).await.unwrap();
    assert_eq!(down.node(), first.node(), "it reads already");
    drop(first);
    let writer = testbed.writes(&other).await;
    owner
        .scope(async {
            let again = within("nested", lock.read()).await.unwrap();
            assert_eq!(again.node(), down.node());
            is_upgrade(&testbed, within("at once", lock.write()).await);
        })
        .await;
    assert_eq!(down.release().await.unwrap(), Released::Confirmed);
    held(writer).await.release().await.unwrap();
}

/// The node of a `write` that was dropped is being created, or deleted, while the try lists.
#[tokio::test(start_paused = true)]
async fn a_try_is_not_busy_by_the_node_of_a_dropped_write() {
    let (testbed, curator) = Testbed::with_curator().await;
    let lock = testbed.read_write(&curator);
    lock.write().await.unwrap().release().await.unwrap();
    for age in (0..10).map(Duration::from_millis) {
        let dropped = timeout(age, lock.write()).await;
        drop(dropped);
        let tried = lock.try_read().await;
        let guard = tried.unwrap_or_else(|error| panic!("after {age:?}: {error}"));
        guard.release().await.unwrap();
    }
}

/// The process reads, so the try lists nothing first; but its node would differ, so it creates one.
#[tokio::test(start_paused = true)]
async fn a_try_with_a_node_of_its_own_is_not_busy_by_the_node_of_a_dropped_write() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let lock = testbed.read_write(&curator);
    let named = testbed.read_write(&curator.with_identity("another"));
    // A reader of another process, so that the answer to a create alone does not tell the place.
    let stranger = testbed.read_write(&other).read().await.unwrap();
    for age in (0..10).map(Duration::from_millis) {
        // The second one asks for the listing that shows no writer.
        let read = (lock.read().await.unwrap(), lock.read().await.unwrap());
        settled(&curator).await;
        drop(timeout(age, lock.write()).await);
        let tried = named.try_read().await;
        let guard = tried.unwrap_or_else(|error| panic!("after {age:?}: {error}"));
        drop((read, guard));
        testbed.children_are(1).await;
    }
    drop(stranger);
}

/// A reader of the same process waits behind the writer, and the news that the writer's node is deleted is on its way.
#[tokio::test(start_paused = true)]
async fn a_try_to_read_right_after_its_own_writer_released_is_not_busy() {
    let (testbed, [curator]) = Testbed::with_curators().await;
    let lock = testbed.read_write(&curator);
    let write = lock.write().await.unwrap();
    let reader = testbed.reads(&curator).await;
    settled(&curator).await;
    drop(write);
    let read = lock.try_read().await.expect("no other contender");
    drop((held(reader).await, read));
    testbed.children_are(0).await;
}

/// A reader of the same process begins to wait for the writer between the look of the try and its place in the queue.
#[tokio::test(start_paused = true)]
async fn a_try_to_read_waits_for_no_writer_that_comes_meanwhile() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let lock = testbed.read_write(&curator);
    drop(lock.write().await.unwrap());
    let mut tries = Box::pin(lock.try_read());
    assert!(futures_util::poll!(&mut tries).is_pending());
    settled(&curator).await;
    let write = testbed.read_write(&other).write().await.unwrap();
    let reader = testbed.reads(&curator).await;
    settled(&curator).await;
    let began = Instant::now();
    fails(within("the answer", tries).await, ErrorKind::Busy);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    drop(write);
    drop(held(reader).await);
    testbed.children_are(0).await;
}
