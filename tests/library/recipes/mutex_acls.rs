//! ACLs: what nodes get, and what happens to whoever may not.

use std::time::Duration;

use zookeeper_recipes::zookeeper_client::{Acls, CreateMode, Permission};
use zookeeper_recipes::{AcquireError, Curator, InterProcessMutex, ReleaseError, SessionError};

use crate::harness::{Arena, anyone, within};

/// Curator: TestLockACLs#testACLsCreatingParents: parent and child have their own ACLs.
#[tokio::test(start_paused = true)]
async fn a_parent_keeps_its_own_acls() {
    let (arena, curator) = Arena::with_curator().await;
    let parents = [anyone(Permission::CREATE | Permission::READ | Permission::DELETE)];
    arena.admin.create(&arena.path, &[], CreateMode::Container, &parents).await.unwrap();
    let guard = arena.mutex(&curator).acquire().await.unwrap();
    assert_eq!(arena.admin.get_acl(&arena.path).await.unwrap().0, parents);
    let (acl, _) = arena.admin.get_acl(guard.node()).await.unwrap();
    assert_eq!(acl, [anyone(Permission::ALL)]);
    guard.release().await.unwrap();
}

/// Curator: TestLockInternals#testNodeDeletedCleanlyWithFaults and #testAttemptLockFailedException:
/// when the listing fails, the original error is reported, and no node stays.
#[tokio::test(start_paused = true)]
async fn without_permission_to_list_nothing_is_left_and_the_error_says_so() {
    let (arena, curator) = Arena::with_curator().await;
    arena.restrict(Permission::CREATE | Permission::DELETE).await;
    let error = within("the error", arena.mutex(&curator).acquire()).await.unwrap_err();
    expect_no_auth(error, "list", &arena.path);
    arena.open().await;
    assert_eq!(arena.children().await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn without_permission_to_create_the_error_names_the_path() {
    let (arena, curator) = Arena::with_curator().await;
    arena.restrict(Permission::READ | Permission::DELETE).await;
    let error = within("the error", arena.mutex(&curator).acquire()).await.unwrap_err();
    expect_no_auth(error, "create", &arena.path);
    // The same for a parent that would have to be made below it.
    let below = format!("{}/a/b", arena.path);
    let mutex = InterProcessMutex::new(&curator, &below).unwrap();
    let error = within("the error", mutex.acquire()).await.unwrap_err();
    expect_no_auth(error, "create", &format!("{}/a", arena.path));
}

#[tokio::test(start_paused = true)]
async fn without_permission_to_read_the_predecessor_the_waiter_leaves_with_an_error() {
    let (arena, [curator, other]) = Arena::with_curators().await;
    let unreadable = [anyone(Permission::DELETE | Permission::WRITE | Permission::ADMIN)];
    let mutex = arena.mutex(&other).with_acls(Acls::new(&unreadable)).unwrap();
    arena.create(&arena.path, CreateMode::Container).await;
    let holder = mutex.acquire().await.unwrap();
    let error = within("the error", arena.mutex(&curator).acquire()).await.unwrap_err();
    expect_no_auth(error, "read", holder.node());
    assert_eq!(arena.children().await.len(), 1);
    // A hold that may not read its own node is looked after all the same.
    arena.admin.delete(holder.node(), None).await.unwrap();
    within("the loss", holder.lost()).await;
}

#[tokio::test(start_paused = true)]
async fn a_delete_that_is_allowed_later_happens_later() {
    let (arena, curator) = Arena::with_curator().await;
    arena.restrict(Permission::CREATE | Permission::READ | Permission::ADMIN).await;
    let guard = within("the lock", arena.mutex(&curator).acquire()).await.unwrap();
    let error = within("the release", guard.release()).await.unwrap_err();
    assert!(matches!(error, ReleaseError::NoAuth { .. }), "{error:?}");
    arena.open().await;
    arena.children_are(0).await;
}

#[tokio::test(start_paused = true)]
async fn acls_that_the_server_rejects_are_an_error() {
    let (arena, curator) = Arena::with_curator().await;
    for path in [arena.path.clone(), format!("{}/deep", arena.path)] {
        let mutex = InterProcessMutex::new(&curator, &path).unwrap();
        // There is nobody authenticated that could be the creator.
        let mutex = mutex.with_acls(Acls::creator_all()).unwrap();
        let error = within("the error", mutex.acquire()).await.unwrap_err();
        assert!(
            matches!(&error, AcquireError::InvalidAcl { path, .. } if path.starts_with(&arena.path)),
            "{error:?}"
        );
    }
    arena.create(&arena.path, CreateMode::Persistent).await;
    let mutex = arena.mutex(&curator).with_acls(Acls::creator_all()).unwrap();
    let error = within("the error", mutex.acquire()).await.unwrap_err();
    assert!(matches!(error, AcquireError::InvalidAcl { .. }), "{error:?}");
    assert_eq!(arena.children().await.len(), 0);
    let builder = Curator::builder().namespace(&format!("{}-ns", arena.path));
    let error =
        builder.acls(Acls::creator_all()).connect(arena.server.connect_string()).await.unwrap_err();
    assert!(matches!(error, SessionError::Namespace { .. }), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn an_ephemeral_parent_is_an_error() {
    let (arena, curator) = Arena::with_curator().await;
    arena.create(&arena.path, CreateMode::Ephemeral).await;
    let limit = Duration::from_secs(20);
    for path in [arena.path.clone(), format!("{}/below/it", arena.path)] {
        let mutex = InterProcessMutex::new(&curator, &path).unwrap();
        let error = within("the error", mutex.acquire_timeout(limit)).await.unwrap_err();
        match &error {
            AcquireError::EphemeralParent { path: named, .. } => {
                assert!(path.starts_with(&arena.path) && named.starts_with(&arena.path))
            }
            other => panic!("{other:?}"),
        }
    }
}

fn expect_no_auth(error: AcquireError, expected: &str, named: &str) {
    match error {
        AcquireError::NoAuth { path, operation, .. } => {
            assert_eq!((operation, path.as_str()), (expected, named));
        }
        other => panic!("{other:?}"),
    }
}
