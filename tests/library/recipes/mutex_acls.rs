//! ACLs: what nodes get, and what happens to whoever may not.

use std::time::Duration;

use zookeeper_recipes::zookeeper_client::{Acl, Acls, AuthId, CreateMode, Permission};
use zookeeper_recipes::{
    AcquireError, Curator, InterProcessMutex, ReleaseError, Released, SessionError,
};

use crate::harness::{Arena, within};

fn anyone(permission: Permission) -> Vec<Acl> {
    vec![Acl::new(permission, AuthId::anyone())]
}

/// Curator: TestLockACLs#testLockACLs: the parent that is made carries the lock's ACLs.
#[tokio::test(start_paused = true)]
async fn parent_and_node_carry_the_acls() {
    let arena = Arena::new().await;
    let builder = arena.builder().namespace(&arena.path).auth("digest", b"ours:secret");
    let curator = arena.connect(builder).await;
    let mut acls = anyone(Permission::READ | Permission::ADMIN);
    acls.push(Acl::new(Permission::ALL, AuthId::authed()));
    let mutex = InterProcessMutex::new(&curator, "/bar").unwrap();
    let guard = mutex.with_acls(Acls::new(&acls)).unwrap().acquire().await.unwrap();
    for path in ["/bar", guard.node()] {
        let on_server = format!("{}{path}", arena.path);
        let (found, _) = arena.admin.get_acl(&on_server).await.unwrap();
        assert_eq!(found.len(), 2, "{path}: {found:?}");
        assert!(found.contains(&acls[0]), "{path}: {found:?}");
        // The server puts who we are in the place of "whoever creates it".
        let creator = found.iter().find(|acl| acl.scheme() == "digest").unwrap();
        assert!(creator.id().starts_with("ours:"), "{path}: {found:?}");
        assert_eq!(creator.permission(), Permission::ALL);
    }
    guard.release().await.unwrap();
}

/// Curator: TestLockACLs#testACLsCreatingParents: parent and child have their own ACLs.
#[tokio::test(start_paused = true)]
async fn a_parent_keeps_its_own_acls() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    let parents = anyone(Permission::CREATE | Permission::READ | Permission::DELETE);
    arena.admin.create(&arena.path, &[], CreateMode::Container, &parents).await.unwrap();
    let guard = arena.mutex(&curator).acquire().await.unwrap();
    assert_eq!(arena.admin.get_acl(&arena.path).await.unwrap().0, parents);
    let (acl, _) = arena.admin.get_acl(guard.node()).await.unwrap();
    assert_eq!(acl, anyone(Permission::ALL));
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn credentials_open_what_only_their_owner_may_use() {
    let arena = Arena::new().await;
    let builder = arena.builder().auth("digest", b"ours:secret").acls(Acls::creator_all());
    let curator = arena.connect(builder).await;
    let guard = arena.mutex(&curator).acquire().await.unwrap();
    let stranger = arena.curator().await;
    let error = within("the error", arena.mutex(&stranger).acquire()).await.unwrap_err();
    match error {
        AcquireError::NoAuth { path, operation, .. } => {
            assert_eq!((path.as_str(), operation), (arena.path.as_str(), "create"));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(guard.release().await.unwrap(), Released::Unlocked);
}

/// Curator: TestLockInternals#testNodeDeletedCleanlyWithFaults and #testAttemptLockFailedException:
/// when the listing fails, the original error is reported, and no node stays.
#[tokio::test(start_paused = true)]
async fn without_permission_to_list_nothing_is_left_and_the_error_says_so() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    parent(&arena, Permission::CREATE | Permission::DELETE).await;
    let error = within("the error", arena.mutex(&curator).acquire()).await.unwrap_err();
    expect_no_auth(error, "list", &arena.path);
    open(&arena).await;
    assert_eq!(arena.children().await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn without_permission_to_create_the_error_names_the_path() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    parent(&arena, Permission::READ | Permission::DELETE).await;
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
    let arena = Arena::new().await;
    let (curator, other) = (arena.curator().await, arena.curator().await);
    let unreadable = anyone(Permission::DELETE | Permission::WRITE | Permission::ADMIN);
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
async fn without_permission_to_delete_release_says_so_and_close_frees_the_lock() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    parent(&arena, Permission::CREATE | Permission::READ).await;
    let guard = within("the lock", arena.mutex(&curator).acquire()).await.unwrap();
    let node = guard.node().to_owned();
    match within("the release", guard.release()).await.unwrap_err() {
        ReleaseError::NoAuth { node: named, .. } => assert_eq!(named, node),
        other => panic!("{other:?}"),
    }
    assert_eq!(arena.children().await.len(), 1);
    within("the end", curator.close()).await.unwrap();
    assert_eq!(arena.children().await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_delete_that_is_allowed_later_happens_later() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    parent(&arena, Permission::CREATE | Permission::READ | Permission::ADMIN).await;
    let guard = within("the lock", arena.mutex(&curator).acquire()).await.unwrap();
    let error = within("the release", guard.release()).await.unwrap_err();
    assert!(matches!(error, ReleaseError::NoAuth { .. }), "{error:?}");
    open(&arena).await;
    arena.children_are(0).await;
}

#[tokio::test(start_paused = true)]
async fn acls_that_the_server_rejects_are_an_error() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
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
    let arena = Arena::new().await;
    let curator = arena.curator().await;
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

/// Makes the lock path, so that everybody has only `permission` on it.
async fn parent(arena: &Arena, permission: Permission) {
    // The administrator can always open it again.
    arena.admin.auth("admin:admin").await;
    let mut acls = anyone(permission);
    acls.push(Acl::new(Permission::ALL, AuthId::authed()));
    arena.admin.create(&arena.path, &[], CreateMode::Persistent, &acls).await.unwrap();
}

async fn open(arena: &Arena) {
    arena.admin.set_acl(&arena.path, &Acls::anyone_all()).await.unwrap();
}

fn expect_no_auth(error: AcquireError, expected: &str, named: &str) {
    match error {
        AcquireError::NoAuth { path, operation, .. } => {
            assert_eq!((operation, path.as_str()), (expected, named));
        }
        other => panic!("{other:?}"),
    }
}
