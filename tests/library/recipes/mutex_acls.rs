//! ACLs: what nodes get, and what happens to whoever may not.

use zookeeper_recipes::zookeeper_client::{Acls, CreateMode, Error as ClientError, Permission};
use zookeeper_recipes::{Curator, Error, ErrorKind};

use crate::harness::{Arena, anyone, fails, within};

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
    let mutex = curator.mutex(&below).unwrap();
    let error = within("the error", mutex.acquire()).await.unwrap_err();
    expect_no_auth(error, "create", &format!("{}/a", arena.path));
}

#[tokio::test(start_paused = true)]
async fn without_permission_to_read_the_predecessor_the_waiter_leaves_with_an_error() {
    let (arena, [curator, other]) = Arena::with_curators().await;
    let unreadable = [anyone(Permission::DELETE | Permission::WRITE | Permission::ADMIN)];
    let mutex = arena.mutex(&other.with_acls(Acls::new(&unreadable)));
    arena.create(&arena.path, CreateMode::Container).await;
    let holder = mutex.acquire().await.unwrap();
    let error = within("the error", arena.mutex(&curator).acquire()).await.unwrap_err();
    expect_no_auth(error, "read", holder.node());
    arena.children_are(1).await;
    // A hold that may not read its own node is looked after all the same.
    arena.admin.delete(holder.node(), None).await.unwrap();
    within("the loss", holder.lost()).await;
}

#[tokio::test(start_paused = true)]
async fn a_delete_that_is_allowed_later_happens_later() {
    let (arena, curator) = Arena::with_curator().await;
    arena.restrict(Permission::CREATE | Permission::READ | Permission::ADMIN).await;
    let guard = within("the lock", arena.mutex(&curator).acquire()).await.unwrap();
    fails(within("the release", guard.release()).await, ErrorKind::PermissionDenied);
    arena.open().await;
    arena.children_are(0).await;
}

/// There is no authenticated client that could be the creator.
#[tokio::test(start_paused = true)]
async fn acls_that_the_server_rejects_are_an_error() {
    let (arena, curator) = Arena::with_curator().await;
    let creators = curator.with_acls(Acls::creator_all());
    let rejected = async |path: &str| {
        let mutex = creators.mutex(path).unwrap();
        let error = fails(within("the error", mutex.acquire()).await, ErrorKind::InvalidInput);
        assert_eq!(error.option(), Some("acls"));
        assert!(error.path().unwrap().starts_with(&arena.path), "{error:?}");
    };
    rejected(&arena.path).await;
    rejected(&format!("{}/deep", arena.path)).await;
    arena.create(&arena.path, CreateMode::Persistent).await;
    rejected(&arena.path).await;
    assert_eq!(arena.children().await.len(), 0);
    let builder = Curator::builder().namespace(&format!("{}-ns", arena.path));
    let connecting = builder.acls(Acls::creator_all()).connect(arena.server.connect_string());
    assert_eq!(fails(connecting.await, ErrorKind::InvalidInput).option(), Some("acls"));
}

#[tokio::test(start_paused = true)]
async fn an_ephemeral_parent_is_an_error() {
    let (arena, curator) = Arena::with_curator().await;
    arena.create(&arena.path, CreateMode::Ephemeral).await;
    for path in [arena.path.clone(), format!("{}/below/it", arena.path)] {
        let mutex = curator.mutex(&path).unwrap();
        let error = fails(within("the error", mutex.acquire()).await, ErrorKind::UnusablePath);
        assert!(error.path().unwrap().starts_with(&arena.path), "{error:?}");
    }
}

/// It says what may not be done, and the source is the server's answer.
fn expect_no_auth(error: Error, doing: &str, named: &str) {
    assert_eq!((error.kind(), error.path()), (ErrorKind::PermissionDenied, Some(named)));
    assert!(error.to_string().contains(doing), "{error}");
    let source = std::error::Error::source(&error).unwrap();
    assert!(matches!(source.downcast_ref(), Some(ClientError::NoAuth)), "{source:?}");
}
