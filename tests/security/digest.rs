//! Digest credentials, and ACLs that let only their owner in: what a stranger gets.

use zookeeper_recipes::zookeeper_client::{Acls, Client, CreateMode, Error};
use zookeeper_recipes::{Curator, ErrorKind, Released};
use zookeeper_recipes_dev::{eventually, fails, is_before, within};
use zookeeper_testkit::{TestServer, random_path};

use crate::support::holder::options;

struct Scene {
    server: TestServer,
    path: String,
    ours: Curator,
    stranger: Curator,
}

/// A lock path with creator-only ACLs, and somebody with another password.
async fn scene() -> Scene {
    let server = TestServer::start().await.unwrap();
    let path = random_path("locks");
    let ours = options().auth("digest", b"ours:right").acls(Acls::creator_all());
    let ours = ours.connect(server.connect_string()).await.unwrap();
    let stranger = options().auth("digest", b"ours:wrong");
    let stranger = stranger.connect(server.connect_string()).await.unwrap();
    Scene { server, path, ours, stranger }
}

/// ZooKeeper accepts any digest, so the stranger's session has no error: the first operation has.
#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_can_neither_list_nor_queue_nor_read_nor_delete_nor_write() {
    let scene = scene().await;
    let mutex = scene.ours.mutex(&scene.path).unwrap();
    let guard = within("the lock", mutex.acquire()).await.unwrap();
    let node = guard.node().to_owned();

    let theirs = scene.stranger.mutex(&scene.path).unwrap();
    let acquired = within("acquire", theirs.acquire()).await.map(drop);
    let tried = within("try_acquire", theirs.try_acquire()).await.map(drop);
    let listed = within("participants", theirs.participants()).await.map(drop);
    for (outcome, operation) in [(acquired, "create"), (tried, "list"), (listed, "read")] {
        let error = fails(outcome, ErrorKind::PermissionDenied);
        assert_eq!(error.path(), Some(&*scene.path), "{error:?}");
        assert!(error.to_string().contains(operation), "{operation}: {error}");
    }

    let client = scene.stranger.client().unwrap();
    let anyone = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
    let sequential = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let queue = format!("{}/_c_{}-lock-", scene.path, "1b4e28ba-2fa1-41d2-883f-0016d3cca427");
    for (what, answer) in [
        ("list", client.list_children(&scene.path).await.map(drop)),
        ("queue", client.create(&queue, &[], &sequential).await.map(drop)),
        ("add", client.create(&format!("{}/x", scene.path), &[], &anyone).await.map(drop)),
        ("read who holds", client.get_data(&node).await.map(drop)),
        ("watch who holds", client.get_and_watch_data(&node).await.map(drop)),
        ("read the ACLs", client.get_acl(&node).await.map(drop)),
        ("revoke", client.set_data(&node, b"__REVOKE__", None).await.map(drop)),
        ("delete the node", client.delete(&node, None).await),
        ("open the node", client.set_acl(&node, &Acls::anyone_all(), None).await.map(drop)),
        ("open the path", client.set_acl(&scene.path, &Acls::anyone_all(), None).await.map(drop)),
    ] {
        assert_eq!(answer.unwrap_err(), Error::NoAuth, "{what}");
    }

    // The owner's credential opens from anywhere: the above can fail.
    let connector = Client::connector().with_auth("digest", b"ours:right");
    let client = connector.connect(scene.server.connect_string()).await.unwrap();
    assert_eq!(client.list_children(&scene.path).await.unwrap().len(), 1);
    client.get_data(&node).await.unwrap();

    assert!(guard.is_held());
    assert_eq!(within("the release", guard.release()).await.unwrap(), Released::Confirmed);
    assert_eq!(mutex.participants().await.unwrap(), []);
    within("the lock again", mutex.acquire()).await.unwrap().release().await.unwrap();
}

/// What ACLs do not hide: servers before 3.9 ask for no permission to learn whether a node of a known name exists, nor for its
/// numbers, and with all servers the *parent's* ACLs decide who may delete a node.
#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_who_knows_the_name_sees_that_it_is_there_and_a_parent_of_all_protects_nothing()
{
    let scene = scene().await;
    let mutex = scene.ours.mutex(&scene.path).unwrap();
    let guard = within("the lock", mutex.acquire()).await.unwrap();
    let client = scene.stranger.client().unwrap();
    let stat = client.check_stat(guard.node()).await;
    if is_before(&scene.server.four_letter_word("srvr").await.unwrap(), [3, 9]) {
        let stat = stat.unwrap().unwrap();
        assert_eq!(stat.ephemeral_owner, scene.ours.session_id().unwrap());
    } else {
        assert_eq!(stat.unwrap_err(), Error::NoAuth);
    }
    guard.release().await.unwrap();

    let open = random_path("open");
    let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
    client.create(&open, &[], &options).await.unwrap();
    let mutex = scene.ours.mutex(&open).unwrap();
    let guard = within("the lock", mutex.acquire()).await.unwrap();
    assert_eq!(client.get_data(guard.node()).await.map(drop).unwrap_err(), Error::NoAuth);
    client.delete(guard.node(), None).await.unwrap();
    within("the loss", guard.lost()).await;
}

/// A new password is a new identity. Processes that have both let each other in, whichever the others have.
#[tokio::test(flavor = "multi_thread")]
async fn a_password_is_changed_by_processes_that_have_both() {
    let Scene { server, path, ours: before, stranger } = scene().await;
    let after = stranger.with_acls(Acls::creator_all());
    let both = options().auth("digest", b"ours:right").auth("digest", b"ours:wrong");
    let both = both.acls(Acls::creator_all()).connect(server.connect_string()).await.unwrap();
    let is_passed_on = async |from: &Curator, to: &Curator| {
        let guard = within("the lock", from.mutex(&path).unwrap().acquire()).await.unwrap();
        let next = to.mutex(&path).unwrap();
        let waiter = next.clone();
        let waiting = tokio::spawn(async move { waiter.acquire().await });
        eventually("a waiter", async || next.participants().await.unwrap().len() == 2).await;
        guard.release().await.unwrap();
        within("the lock", waiting).await.unwrap().unwrap().release().await.unwrap();
    };
    is_passed_on(&before, &both).await;
    is_passed_on(&both, &before).await;
    fails(after.mutex(&path).unwrap().acquire().await, ErrorKind::PermissionDenied);
    let client = both.client().unwrap();
    client.set_acl(&path, &Acls::creator_all(), None).await.unwrap();
    is_passed_on(&both, &after).await;
    is_passed_on(&after, &both).await;
    is_passed_on(&before, &both).await;
}

/// Where the namespace is the owner's own, it shows when connecting, for there it is the first operation.
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_digest_cannot_make_what_is_missing_in_the_owners_namespace() {
    let server = TestServer::start().await.unwrap();
    let namespace = random_path("namespace");
    let ours = options().auth("digest", b"ours:right").acls(Acls::creator_all());
    let ours = ours.namespace(&namespace).connect(server.connect_string()).await.unwrap();
    let below = format!("{namespace}/below");
    let theirs = options().auth("digest", b"ours:wrong").namespace(&below);
    let connected = within("the error", theirs.connect(server.connect_string())).await;
    let error = fails(connected, ErrorKind::PermissionDenied);
    assert_eq!(error.path(), Some(&*below), "{error:?}");
    ours.close().await;
}
