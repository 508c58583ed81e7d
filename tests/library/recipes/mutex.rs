//! What a mutex and its guard do, and what ACLs forbid.

use std::future::pending;
use std::pin::pin;
use std::task::Poll;

use zookeeper_recipes::zookeeper_client::Error as ClientError;

use crate::prelude::*;

/// Curator: TestInterProcessMutexBase#testLocker.
#[tokio::test(start_paused = true)]
async fn run_and_with_release_before_they_return_what_the_body_gave() {
    let (testbed, curator) = Testbed::with_curator().await;
    let mutex = testbed.mutex(&curator);
    assert_eq!(mutex.run(async |_| Ok::<_, Error>(7)).await.unwrap(), 7);
    assert_eq!(testbed.children().await.len(), 0);
    assert!(mutex.with(async |hold| hold.is_held()).await.unwrap());
    assert_eq!(testbed.children().await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn run_releases_before_it_returns_the_error_of_the_body() {
    let (testbed, curator) = Testbed::with_curator().await;
    let mutex = testbed.mutex(&curator);
    let own = || fails(curator.mutex(""), ErrorKind::InvalidInput);
    fails(mutex.run(async |_| Err::<(), _>(own())).await, ErrorKind::InvalidInput);
    assert_eq!(testbed.children().await.len(), 0, "before `?` can leave the function");
}

#[tokio::test(start_paused = true)]
async fn run_returns_what_the_body_gave_although_the_release_is_refused() {
    let (testbed, curator) = Testbed::with_curator().await;
    testbed.restrict(Permission::CREATE | Permission::READ).await;
    let ran = testbed.mutex(&curator).run(async |_| Ok::<_, Error>(7)).await;
    assert_eq!(ran.unwrap(), 7);
    testbed.children_are(1).await;
    within("the end", curator.close()).await;
}

/// Also for a body that blocks the loss, and ends with an error that followed from it.
#[tokio::test(start_paused = true)]
async fn run_says_that_the_lock_was_lost_unless_the_body_said_more() {
    let (testbed, curator) = Testbed::with_curator().await;
    let mutex = testbed.mutex(&curator);
    let lost = mutex.run(async |_| {
        testbed.kill_session(&curator).await;
        pending::<Result<(), Error>>().await
    });
    assert_eq!(lost_by(within("the loss", lost).await), Loss::SessionExpired);
    let lost = mutex.with(async |hold| {
        testbed.remove(hold.node()).await;
        pending::<()>().await
    });
    let error = fails(within("the loss", lost).await, ErrorKind::Lost);
    assert_eq!((error.path(), error.loss()), (Some(&*testbed.path), Some(Loss::NodeDeleted)));
    for own in [None, Some(ErrorKind::InvalidInput)] {
        let ran = mutex.run(async |hold| {
            testbed.remove(hold.node()).await;
            // It learns of the loss by this, and returns in the same poll.
            lost_by(hold.fenced().set(&testbed.path, b"").await);
            own.map_or(Ok(()), |kind| Err(fails(curator.mutex(""), kind)))
        });
        fails(within("the end", ran).await, own.unwrap_or(ErrorKind::Lost));
    }
    let dynamic: Arc<dyn Lock> = mutex.into();
    assert_eq!(dynamic.run(async |_| Ok::<_, Error>(7)).await.unwrap(), 7);
}

/// The node of an `acquire` that was dropped is being created, or deleted, while the try lists.
#[tokio::test(start_paused = true)]
async fn a_try_is_not_busy_by_the_node_of_a_dropped_acquire() {
    let (testbed, curator) = Testbed::with_curator().await;
    let mutex = testbed.mutex(&curator);
    mutex.acquire().await.unwrap().release().await.unwrap();
    // An entry that finds no path creates it, and its own node once more, although its caller has left.
    for is_path_there in [true, false] {
        for (age, pause) in (0..10).flat_map(|age| (0..10).map(move |pause| (age, pause))) {
            if !is_path_there {
                testbed.wipe().await;
            }
            drop(timeout(Duration::from_millis(age), mutex.acquire()).await);
            tokio::time::sleep(Duration::from_millis(pause)).await;
            let tried = mutex.try_acquire().await;
            let what = format!("{pause} ms after {age} ms, the path is there: {is_path_there}");
            let guard = tried.unwrap_or_else(|error| panic!("{what}: {error}"));
            guard.release().await.unwrap();
        }
    }
}

/// The delete of an earlier hold is lost, and repeated after a reconnection.
#[tokio::test(start_paused = true)]
async fn a_try_is_not_busy_by_a_node_whose_delete_is_repeated() {
    let testbed = Testbed::new().await;
    let (link, curator) = testbed.linked(testbed.builder()).await;
    let mutex = testbed.mutex(&curator);
    for _ in 0..5 {
        let guard = mutex.acquire().await.unwrap();
        let lost = link.lose(Message::request(Operation::Delete));
        drop(guard);
        within("the delete", lost.struck()).await;
        let tried = within("the try", mutex.try_acquire()).await;
        tried.expect("nobody else is there").release().await.unwrap();
    }
}

/// The node shows in its name that it may be kept, so the try enters, and the keeper gives way. A keeper that takes longer than two
/// trips, as on a busy machine, is taken for a holder, and gives way to the next try.
#[tokio::test(start_paused = true)]
async fn a_try_gets_a_lock_whose_node_another_process_only_keeps() {
    let (testbed, [keeper, other]) = Testbed::with_curators().await;
    let kept = testbed.mutex(&keeper).with_retention(Duration::from_secs(3600));
    let tried = testbed.mutex(&other);
    for _ in 0..5 {
        kept.acquire().await.unwrap().release().await.unwrap();
        testbed.children_are(1).await;
        round_trip(&keeper).await;
        let mut guard = within("the try", tried.try_acquire()).await;
        if is_real() && guard.as_ref().is_err_and(Error::is_busy) {
            testbed.children_are(0).await;
            guard = tried.try_acquire().await;
        }
        guard.expect("nobody holds").release().await.unwrap();
        testbed.children_are(0).await;
        let held = kept.acquire().await.unwrap();
        let began = Instant::now();
        assert!(tried.try_acquire().await.unwrap_err().is_busy(), "the keeper holds");
        assert!(began.elapsed() < lateness() + Duration::from_secs(1), "{:?}", began.elapsed());
        assert!(held.is_held());
        held.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn guards_and_handles_are_short_in_a_log() {
    let (testbed, curator) = Testbed::with_curator().await;
    let guard = testbed.mutex(&curator).acquire().await.unwrap();
    let shown = format!("{guard:?} {:?}", testbed.mutex(&curator));
    assert!(shown.len() < 500 && shown.contains(guard.node()), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn nested_guards_share_one_hold_in_any_order() {
    let (testbed, curator) = Testbed::with_curator().await;
    let guard = testbed.mutex(&curator).acquire().await.unwrap();
    let nested = guard.reenter();
    assert_eq!(nested.fencing_token(), guard.fencing_token());
    let token = nested.cancellation_token();
    assert_eq!(guard.release().await.unwrap(), Released::StillHeld);
    assert!(nested.is_held() && !token.is_cancelled());
    assert_eq!(testbed.children().await.len(), 1);
    let view = nested.view();
    assert_eq!(nested.release().await.unwrap(), Released::Confirmed);
    assert!(token.is_cancelled() && !view.is_held());
    assert_eq!((view.loss(), futures_util::poll!(pin!(view.lost()))), (None, Poll::Pending));
    assert_eq!(testbed.children().await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_guard_alone_keeps_the_session_open() {
    let (testbed, curator) = Testbed::with_curator().await;
    let guard = testbed.mutex(&curator).acquire().await.unwrap();
    drop(curator);
    testbed.children_are(1).await;
    assert!(guard.is_held());
    assert_eq!(guard.release().await.unwrap(), Released::Confirmed);
}

#[tokio::test(start_paused = true)]
async fn a_lost_guard_that_is_kept_is_in_no_other_tasks_way() {
    let testbed = Testbed::new().await;
    let curator = testbed.attentive_curator().await;
    let mutex = testbed.mutex(&curator);
    for loss in [Loss::NodeDeleted, Loss::SessionExpired] {
        let guard = within("the lock", mutex.acquire()).await.unwrap();
        let next = mutex.clone();
        let next = tokio::spawn(async move { next.acquire().await });
        if loss == Loss::NodeDeleted {
            testbed.remove(guard.node()).await;
        } else {
            testbed.kill_session(&curator).await;
        }
        let next = held(next).await;
        assert_eq!(guard.loss(), Some(loss));
        next.release().await.unwrap();
        assert_eq!(lost_by(guard.release().await), loss);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_can_be_at_the_root_and_deep_below_a_chroot() {
    let testbed = Testbed::new().await;
    let chroot = format!("{}{}/deep/down", testbed.server.connect_string(), testbed.path);
    let curator = testbed.builder().namespace("/team/app").connect(&chroot).await.unwrap();
    let deep = "/a/b/c/d/e/f/g/h";
    for path in ["/", "/one", deep] {
        let mutex = curator.mutex(path).unwrap();
        let guard = within(path, mutex.acquire()).await.unwrap();
        let on_server = format!("{}/deep/down/team/app{}", testbed.path, guard.node());
        assert!(testbed.stat(&on_server).await.is_some(), "{on_server}");
        let rival = curator.mutex(path).unwrap();
        assert!(rival.try_acquire().await.unwrap_err().is_busy(), "{path}");
        assert_eq!(guard.release().await.unwrap(), Released::Confirmed, "{path}");
    }
    // And at the server's own root.
    let testbed = Testbed::own().await;
    let curator = testbed.curator().await;
    let mutex = curator.mutex("/").unwrap();
    let guard = within("the root", mutex.acquire()).await.unwrap();
    assert!(guard.node().starts_with("/_c_"), "{}", guard.node());
    guard.release().await.unwrap();
    curator.close().await;
}

/// Curator: TestLockACLs#testACLsCreatingParents: parent and child have their own ACLs.
#[tokio::test(start_paused = true)]
async fn a_parent_keeps_its_own_acls() {
    let (testbed, curator) = Testbed::with_curator().await;
    let parents = [anyone(Permission::CREATE | Permission::READ | Permission::DELETE)];
    testbed.admin.create(&testbed.path, &[], CreateMode::Container, &parents).await.unwrap();
    let guard = testbed.mutex(&curator).acquire().await.unwrap();
    assert_eq!(testbed.admin.get_acl(&testbed.path).await.unwrap().0, parents);
    let (acl, _) = testbed.admin.get_acl(guard.node()).await.unwrap();
    assert_eq!(acl, [anyone(Permission::ALL)]);
    guard.release().await.unwrap();
}

/// Curator: TestLockInternals#testNodeDeletedCleanlyWithFaults and #testAttemptLockFailedException: when the listing fails, the
/// original error is reported, and no node stays.
#[tokio::test(start_paused = true)]
async fn without_permission_the_error_says_what_may_not_be_done_and_nothing_is_left() {
    for (may, doing, below, named) in [
        (Permission::CREATE | Permission::DELETE, "list", "", ""),
        (Permission::READ | Permission::DELETE, "create", "", ""),
        // A parent that would have to be made below it.
        (Permission::READ | Permission::DELETE, "create", "/a/b", "/a"),
    ] {
        let (testbed, curator) = Testbed::with_curator().await;
        testbed.restrict(may).await;
        let mutex = curator.mutex(format!("{}{below}", testbed.path)).unwrap();
        let error = within("the error", mutex.acquire()).await.unwrap_err();
        expect_no_auth(error, doing, &format!("{}{named}", testbed.path));
        testbed.open().await;
        assert_eq!(testbed.children().await.len(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn without_permission_to_read_the_predecessor_the_waiter_leaves_with_an_error() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let unreadable = [anyone(Permission::DELETE | Permission::WRITE | Permission::ADMIN)];
    let mutex = testbed.mutex(&other.with_acls(Acls::new(&unreadable)));
    testbed.create(&testbed.path, CreateMode::Container).await;
    let holder = mutex.acquire().await.unwrap();
    let error = within("the error", testbed.mutex(&curator).acquire()).await.unwrap_err();
    expect_no_auth(error, "read", holder.node());
    testbed.children_are(1).await;
    // A hold that may not read its own node is looked after all the same.
    testbed.admin.delete(holder.node(), None).await.unwrap();
    within("the loss", holder.lost()).await;
}

/// There is no authenticated client that could be the creator.
#[tokio::test(start_paused = true)]
async fn acls_that_the_server_rejects_are_an_error() {
    let (testbed, curator) = Testbed::with_curator().await;
    let creators = curator.with_acls(Acls::creator_all());
    let rejected = async |path: &str| {
        let mutex = creators.mutex(path).unwrap();
        let error = fails(within("the error", mutex.acquire()).await, ErrorKind::InvalidInput);
        assert_eq!(error.option(), Some("acls"));
        assert!(error.path().unwrap().starts_with(&testbed.path), "{error:?}");
    };
    rejected(&testbed.path).await;
    rejected(&format!("{}/deep", testbed.path)).await;
    testbed.create(&testbed.path, CreateMode::Persistent).await;
    rejected(&testbed.path).await;
    assert_eq!(testbed.children().await.len(), 0);
    let builder = Curator::builder().namespace(&format!("{}-ns", testbed.path));
    let connecting = builder.acls(Acls::creator_all()).connect(testbed.server.connect_string());
    assert_eq!(fails(connecting.await, ErrorKind::InvalidInput).option(), Some("acls"));
}

#[tokio::test(start_paused = true)]
async fn an_ephemeral_parent_is_an_error() {
    let (testbed, curator) = Testbed::with_curator().await;
    testbed.create(&testbed.path, CreateMode::Ephemeral).await;
    for path in [testbed.path.clone(), format!("{}/below/it", testbed.path)] {
        let mutex = curator.mutex(&path).unwrap();
        let error = fails(within("the error", mutex.acquire()).await, ErrorKind::UnusablePath);
        assert!(error.path().unwrap().starts_with(&testbed.path), "{error:?}");
    }
}

/// The path is deleted between its create and ours, three times in a row. After that the policy counts.
#[tokio::test(start_paused = true)]
async fn a_path_that_is_deleted_as_fast_as_it_is_made_is_an_error_by_the_policy() {
    let testbed = Testbed::new().await;
    let (link, curator) = testbed.linked(testbed.builder()).await;
    let mutex = testbed.mutex(&curator.with_retry(RetryPolicy::never()));
    // The first node and the path come before it.
    let second = link.hold(Message::request(Operation::Create).nth(3));
    let acquiring = tokio::spawn(async move { mutex.acquire().await });
    within("the second node", second.struck()).await;
    testbed.remove(&testbed.path).await;
    let third = link.hold(Message::request(Operation::Create).nth(2));
    second.heal();
    within("the third node", third.struck()).await;
    testbed.remove(&testbed.path).await;
    third.heal();
    fails(within("the error", acquiring).await.unwrap(), ErrorKind::Unavailable);
}

/// It says what may not be done, and the source is the server's answer.
fn expect_no_auth(error: Error, doing: &str, named: &str) {
    assert_eq!((error.kind(), error.path()), (ErrorKind::PermissionDenied, Some(named)));
    assert!(error.to_string().contains(doing), "{error}");
    let source = std::error::Error::source(&error).unwrap();
    assert!(matches!(source.downcast_ref(), Some(ClientError::NoAuth)), "{source:?}");
}

/// Code under test that takes a guard needs no servers, and no paused clock.
#[tokio::test]
async fn a_simulated_guard_is_held_until_it_is_released_or_lost() {
    async fn bill(guard: Guard) -> Result<i64, Error> {
        guard.run(async |hold| Ok(hold.fencing_token().value())).await
    }
    let (guard, control) = Guard::simulated("/locks/orders", 7);
    assert_eq!((guard.path(), guard.loss()), ("/locks/orders", None));
    assert!(guard.session_lease_left() > Duration::from_secs(3600));
    assert_eq!(bill(guard).await.unwrap(), 7);
    assert!(control.is_released());
    let (guard, control) = Guard::simulated("/locks/orders", 8);
    let nested = guard.reenter();
    let lost =
        tokio::spawn(
            async move { guard.run(async |_| pending::<Result<(), Error>>().await).await },
        );
    control.lose(Loss::SessionExpired);
    assert_eq!(lost_by(within("the loss", lost).await.unwrap()), Loss::SessionExpired);
    assert_eq!(lost_by(nested.fenced().set("/data", b"").await), Loss::SessionExpired);
    drop(nested);
    assert!(!control.is_released());
    let (guard, control) = Guard::simulated("/locks/orders", 9);
    drop(guard);
    assert!(control.is_released());
}
