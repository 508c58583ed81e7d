//! `PersistentNode` keeps a znode, session after session, and two processes never hold one at once.

use zookeeper_recipes::{PersistentNode, PersistentNodeState};

use crate::prelude::*;

/// A node at a path below one that does not exist.
fn node(testbed: &Testbed, curator: &Curator, data: &str) -> PersistentNode {
    curator.persistent_node(format!("{}/a/b", testbed.path), data).unwrap()
}

async fn started(node: &PersistentNode) -> Hold {
    within("the znode", node.start()).await.unwrap()
}

async fn data(testbed: &Testbed, node: &PersistentNode) -> Option<String> {
    let data = testbed.data(node.path()).await;
    data.map(|data| String::from_utf8(data).unwrap())
}

async fn owner(testbed: &Testbed, node: &PersistentNode) -> Option<i64> {
    testbed.stat(node.path()).await.map(|stat| stat.ephemeral_owner)
}

async fn is_deleted(testbed: &Testbed, node: &PersistentNode) {
    eventually("the delete", async || owner(testbed, node).await.is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn it_is_there_from_the_start_until_the_close() {
    let (testbed, curator) = Testbed::with_curator().await;
    let node = node(&testbed, &curator, "here");
    assert_eq!(node.state(), PersistentNodeState::Absent);
    assert_eq!(owner(&testbed, &node).await, None, "it is not started");
    let hold = started(&node).await;
    assert_eq!(node.state(), PersistentNodeState::Ours);
    assert_eq!(data(&testbed, &node).await.as_deref(), Some("here"));
    assert_eq!(owner(&testbed, &node).await, Some(curator.session_id().unwrap()));
    let stat = testbed.stat(node.path()).await.unwrap();
    assert_eq!(hold.fencing_token().value(), stat.czxid);
    assert_eq!((hold.path(), hold.node()), (node.path(), node.path()));
    assert!(node.session_lease_left() > Duration::ZERO);
    assert_eq!(started(&node).await.fencing_token(), hold.fencing_token(), "the same znode");

    assert_eq!(within("the close", node.close()).await.unwrap(), Released::Confirmed);
    assert_eq!(owner(&testbed, &node).await, None);
    assert_eq!(node.state(), PersistentNodeState::Closed);
    assert_eq!((hold.is_held(), hold.loss()), (false, None), "released, not lost");
    assert_eq!(node.session_lease_left(), Duration::ZERO);
    assert_eq!(within("the close", node.close()).await.unwrap(), Released::Confirmed);
    fails(node.start().await, ErrorKind::Closed);
    fails(node.set_data("late").await, ErrorKind::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_not_started_closes() {
    let (testbed, curator) = Testbed::with_curator().await;
    let node = node(&testbed, &curator, "here");
    assert_eq!(within("the close", node.close()).await.unwrap(), Released::Confirmed);
    fails(node.start().await, ErrorKind::Closed);
    assert_eq!(owner(&testbed, &node).await, None);
}

#[tokio::test(start_paused = true)]
async fn the_last_handle_deletes_it() {
    let (testbed, curator) = Testbed::with_curator().await;
    let other = node(&testbed, &curator, "other");
    let first = node(&testbed, &curator, "here");
    let second = first.clone();
    started(&first).await;
    drop(first);
    round_trip(&curator).await;
    assert_eq!(data(&testbed, &second).await.as_deref(), Some("here"));
    drop(second);
    is_deleted(&testbed, &other).await;
}

#[tokio::test(start_paused = true)]
async fn a_close_of_the_curator_deletes_it_and_ends_the_node() {
    let (testbed, curator) = Testbed::with_curator().await;
    let node = node(&testbed, &curator, "here");
    let hold = started(&node).await;
    within("the close", curator.close()).await;
    assert_eq!(hold.loss(), Some(Loss::Closed));
    assert_eq!(owner(&testbed, &node).await, None);
    fails(within("the end", node.start()).await, ErrorKind::Closed);
    within("the close", node.close()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn it_is_created_again_after_a_delete_also_with_its_parents() {
    let (testbed, curator) = Testbed::with_curator().await;
    let node = node(&testbed, &curator, "here");
    let parent = format!("{}/a", testbed.path);
    for wiped in [vec![node.path()], vec![node.path(), &parent, &testbed.path]] {
        let hold = started(&node).await;
        let wiped: Vec<_> = wiped.into_iter().map(str::to_owned).collect();
        testbed.admin.delete_all(&wiped).await;
        assert_eq!(within("the loss", hold.lost()).await, Loss::NodeDeleted);
        let next = started(&node).await;
        assert!(next.fencing_token() > hold.fencing_token());
        assert_eq!(data(&testbed, &node).await.as_deref(), Some("here"));
    }
}

/// The client takes the session for ended before the servers do, which still have the old znode.
#[tokio::test(start_paused = true)]
async fn a_cut_ends_the_hold_before_the_servers_delete_the_znode() {
    let (testbed, link, curator) = Testbed::with_link(Testbed::short_lived_builder).await;
    let node = node(&testbed, &curator, "here");
    let hold = started(&node).await;
    let cut = cut_off(&link).await;
    assert_eq!(within("the loss", hold.lost()).await, Loss::LeaseEnded);
    assert!(owner(&testbed, &node).await.is_some(), "the servers still have it");
    assert_eq!(node.state(), PersistentNodeState::Absent);
    is_deleted(&testbed, &node).await;
    cut.heal();
    let next = started(&node).await;
    assert!(next.is_held() && !hold.is_held());
    assert_eq!(owner(&testbed, &node).await, Some(curator.session_id().unwrap()));
}

/// The lease has ended, and the session has not: the znode is still ours.
#[tokio::test(start_paused = true)]
async fn the_same_znode_is_held_again_after_a_lost_lease() {
    let (testbed, link, curator) = Testbed::with_link(Testbed::short_lived_builder).await;
    let node = node(&testbed, &curator, "here");
    let hold = started(&node).await;
    let cut = cut_off(&link).await;
    assert_eq!(within("the loss", hold.lost()).await, Loss::LeaseEnded);
    cut.heal();
    let next = started(&node).await;
    assert_eq!(next.fencing_token(), hold.fencing_token());
}

#[tokio::test(start_paused = true)]
async fn another_session_keeps_it_out_until_its_znode_is_deleted() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let first = node(&testbed, &curator, "first");
    started(&first).await;
    let second = node(&testbed, &other, "second");
    let start = {
        let second = second.clone();
        tokio::spawn(async move { second.start().await })
    };
    let session_id = curator.session_id().unwrap();
    let taken = PersistentNodeState::Taken { session_id };
    eventually("the other one", async || second.state() == taken).await;
    let write = {
        let second = second.clone();
        tokio::spawn(async move { second.set_data("changed").await })
    };
    round_trip(&other).await;
    assert_eq!(data(&testbed, &first).await.as_deref(), Some("first"), "the other's data");
    within("the close", first.close()).await.unwrap();
    assert!(within("its turn", start).await.unwrap().unwrap().is_held());
    assert_eq!(second.state(), PersistentNodeState::Ours);
    within("the write", write).await.unwrap().unwrap();
    assert_eq!(data(&testbed, &second).await.as_deref(), Some("changed"));
}

/// Two nodes of one session are told apart as those of two.
#[tokio::test(start_paused = true)]
async fn another_node_of_the_same_curator_keeps_it_out() {
    let (testbed, curator) = Testbed::with_curator().await;
    let first = node(&testbed, &curator, "first");
    started(&first).await;
    let second = node(&testbed, &curator, "second");
    assert!(timeout(LONG, second.start()).await.is_err());
    let session_id = curator.session_id().unwrap();
    assert_eq!(second.state(), PersistentNodeState::Taken { session_id });
    drop(first);
    started(&second).await;
    assert_eq!(data(&testbed, &second).await.as_deref(), Some("second"));
}

mod real {
    use super::*;

    /// It has the same session. `from_client` is not simulated.
    #[tokio::test]
    async fn another_curator_of_the_same_client_keeps_it_out() {
        let testbed = Testbed::real().await;
        let client = testbed.client().await;
        let curator = || Curator::builder().from_client(client.clone()).unwrap();
        let (one, other) = (curator(), curator());
        let first = node(&testbed, &one, "first");
        started(&first).await;
        let second = node(&testbed, &other, "second");
        let starting = second.clone();
        let starting = tokio::spawn(async move { starting.start().await });
        let session_id = one.session_id().unwrap();
        let taken = PersistentNodeState::Taken { session_id };
        eventually("its wait", async || second.state() == taken).await;
        assert_eq!(testbed.stat(first.path()).await.unwrap().version, 0, "no write");
        drop(first);
        within("its turn", starting).await.unwrap().unwrap();
        assert_eq!(data(&testbed, &second).await.as_deref(), Some("second"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_znode_that_is_not_ephemeral_is_an_error_until_it_is_deleted() {
    let (testbed, curator) = Testbed::with_curator().await;
    let node = curator.persistent_node(&testbed.path, "here").unwrap();
    testbed.create(&testbed.path, CreateMode::Persistent).await;
    fails(within("the error", node.start()).await, ErrorKind::UnusablePath);
    assert_eq!(node.state(), PersistentNodeState::Taken { session_id: 0 });
    testbed.remove(&testbed.path).await;
    started(&node).await;
}

#[tokio::test(start_paused = true)]
async fn a_refusal_goes_to_the_caller_and_the_node_tries_again() {
    let (testbed, curator) = Testbed::with_curator().await;
    testbed.restrict(Permission::READ).await;
    let node = curator.persistent_node(format!("{}/x", testbed.path), "here").unwrap();
    let error = within("the error", node.start()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert!(error.to_string().contains(node.path()), "{error}");
    testbed.open().await;
    // A try that began before may still fail.
    let is_there = async || node.start().await.is_ok();
    eventually("the znode", is_there).await;
}

/// Also if no next one can be created.
#[tokio::test(start_paused = true)]
async fn the_hold_ends_with_the_znode() {
    let (testbed, curator) = Testbed::with_curator().await;
    let node = curator.persistent_node(format!("{}/x", testbed.path), "here").unwrap();
    let hold = started(&node).await;
    let no_create = [anyone(Permission::READ | Permission::DELETE)];
    testbed.admin.set_acl(&testbed.path, &no_create).await.unwrap();
    testbed.remove(node.path()).await;
    let began = Instant::now();
    assert_eq!(within("the loss", hold.lost()).await, Loss::NodeDeleted);
    assert!(began.elapsed() < Duration::from_secs(1), "the watch tells: {:?}", began.elapsed());
    fails(within("the error", node.start()).await, ErrorKind::PermissionDenied);
    assert_eq!(node.state(), PersistentNodeState::Absent);
}

/// A create whose answer was lost may have made the znode, but not that of another session.
#[tokio::test(start_paused = true)]
async fn a_lost_create_does_not_make_the_znode_of_another_process_ours() {
    let (testbed, link, curator) = Testbed::with_link(Testbed::patient_builder).await;
    let other = testbed.curator().await;
    let theirs = node(&testbed, &other, "theirs");
    let hold = started(&theirs).await;
    let lost = link.lose(Message::reply(Operation::Create));
    let ours = node(&testbed, &curator, "ours");
    let start = {
        let ours = ours.clone();
        tokio::spawn(async move { ours.start().await })
    };
    struck_once(&lost).await;
    link.cut(Cut::Reset);
    let session_id = other.session_id().unwrap();
    let taken = PersistentNodeState::Taken { session_id };
    eventually("the other one", async || ours.state() == taken).await;
    assert!(!start.is_finished() && hold.is_held());
    assert_eq!(data(&testbed, &theirs).await.as_deref(), Some("theirs"));
}

#[tokio::test(start_paused = true)]
async fn data_are_replaced_and_are_kept() {
    let (testbed, curator) = Testbed::with_curator().await;
    let node = node(&testbed, &curator, "first");
    started(&node).await;
    within("the write", node.set_data("second")).await.unwrap();
    assert_eq!(data(&testbed, &node).await.as_deref(), Some("second"));
    // Twenty at once: the last one counts.
    let writes = (0..20).map(|number| node.set_data(format!("at once {number}")));
    for written in within("the writes", join_all(writes)).await {
        written.unwrap();
    }
    assert_eq!(data(&testbed, &node).await.as_deref(), Some("at once 19"));
    testbed.kill_session(&curator).await;
    within("the loss", node.lost()).await;
    started(&node).await;
    assert_eq!(data(&testbed, &node).await.as_deref(), Some("at once 19"));
}

/// The event of the deleted znode, which came meanwhile, says nothing of the next one.
#[tokio::test(start_paused = true)]
async fn a_write_that_meets_a_deletion_is_made_on_the_next_znode() {
    let (testbed, link, curator) = Testbed::with_link(Testbed::patient_builder).await;
    let node = node(&testbed, &curator, "first");
    let hold = started(&node).await;
    let late = link.hold(Message::request(Operation::SetData));
    let written = {
        let node = node.clone();
        tokio::spawn(async move { node.set_data("second").await })
    };
    struck_once(&late).await;
    testbed.remove(node.path()).await;
    late.heal();
    within("the write", written).await.unwrap().unwrap();
    assert_eq!(hold.loss(), Some(Loss::NodeDeleted));
    let next = started(&node).await;
    round_trip(&curator).await;
    assert!(next.is_held());
    assert_eq!(node.state(), PersistentNodeState::Ours);
    assert_eq!(data(&testbed, &node).await.as_deref(), Some("second"));
}

/// As Curator's class does.
#[tokio::test(start_paused = true)]
async fn data_that_another_client_writes_are_replaced() {
    let (testbed, curator) = Testbed::with_curator().await;
    let node = node(&testbed, &curator, "ours");
    let hold = started(&node).await;
    for _ in 0..3 {
        testbed.admin.set_data(node.path(), b"theirs", None).await.unwrap();
        let ours = async || data(&testbed, &node).await.as_deref() == Some("ours");
        eventually("our data", ours).await;
    }
    assert!(hold.is_held());
}

#[tokio::test(start_paused = true)]
async fn data_of_more_than_a_mebibyte_are_refused() {
    let (testbed, curator) = Testbed::with_curator().await;
    let large = vec![0; 1 << 20];
    let error = curator.persistent_node(&testbed.path, large.clone()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("data") && error.path() == Some(&testbed.path), "{error}");
    let node = node(&testbed, &curator, "here");
    started(&node).await;
    fails(node.set_data(large).await, ErrorKind::InvalidInput);
    within("a write", node.set_data("small")).await.unwrap();
}

/// Create and read are one trip.
#[tokio::test(start_paused = true)]
async fn the_requests_are_counted() {
    let (testbed, link, curator) = Testbed::with_link(Testbed::patient_builder).await;
    testbed.create(&testbed.path, CreateMode::Container).await;
    let node = curator.persistent_node(format!("{}/x", testbed.path), "here").unwrap();
    let asked = |operation| link.requests(operation);
    started(&node).await;
    let counted = || (asked(Operation::Create), asked(Operation::GetData));
    assert_eq!(counted(), (1, 1));
    within("a write", node.set_data("next")).await.unwrap();
    round_trip(&curator).await;
    // Before the write, and because the watch fires.
    assert_eq!((counted(), asked(Operation::SetData)), ((1, 3), 1));
    within("the close", node.close()).await.unwrap();
    assert_eq!((counted(), asked(Operation::Delete)), ((1, 3), 1));
}

/// The first delete has an answer that is lost, and then another process has the path.
#[tokio::test(start_paused = true)]
async fn a_delete_is_not_repeated_on_the_znode_of_another_process() {
    let (testbed, link, curator) = Testbed::with_link(Testbed::patient_builder).await;
    let ours = node(&testbed, &curator, "ours");
    started(&ours).await;
    let other = testbed.curator().await;
    let theirs = node(&testbed, &other, "theirs");
    let start = {
        let theirs = theirs.clone();
        tokio::spawn(async move { theirs.start().await })
    };
    eventually("their wait", async || theirs.state() != PersistentNodeState::Absent).await;
    let lost = link.lose(Message::reply(Operation::Delete));
    let close = tokio::spawn(async move { ours.close().await });
    let hold = within("their turn", start).await.unwrap().unwrap();
    struck_once(&lost).await;
    let refused = link.refuse();
    link.cut(Cut::Reset);
    round_trip(&other).await;
    refused.heal();
    within("the close", close).await.unwrap().unwrap();
    round_trip(&curator).await;
    round_trip(&other).await;
    assert!(hold.is_held());
    assert_eq!(data(&testbed, &theirs).await.as_deref(), Some("theirs"));
}

/// A node whose znode the servers refuse to delete, so it goes with the session.
async fn closed_and_not_deleted() -> (Testbed, Curator, PersistentNode) {
    let (testbed, curator) = Testbed::with_curator().await;
    let node = curator.persistent_node(format!("{}/x", testbed.path), "here").unwrap();
    started(&node).await;
    let no_delete = [anyone(Permission::READ | Permission::CREATE)];
    testbed.admin.set_acl(&testbed.path, &no_delete).await.unwrap();
    fails(within("the error", node.close()).await, ErrorKind::PermissionDenied);
    (testbed, curator, node)
}

#[tokio::test(start_paused = true)]
async fn a_delete_that_is_refused_does_not_delay_the_close_of_the_session() {
    let (testbed, curator, _node) = closed_and_not_deleted().await;
    // By now it waits for ten seconds before each try.
    tokio::time::sleep(Duration::from_secs(61)).await;
    let began = Instant::now();
    assert_eq!(within("the close", curator.close()).await, Released::Confirmed);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    testbed.children_are(0).await;
}

#[tokio::test(start_paused = true)]
async fn a_delete_that_is_refused_does_not_keep_the_session_open() {
    let (testbed, curator, node) = closed_and_not_deleted().await;
    drop((node, curator));
    testbed.children_are(0).await;
}

/// Its data cannot be written, and the next try is ten seconds away.
#[tokio::test(start_paused = true)]
async fn a_refused_write_does_not_hide_the_deletion() {
    let (testbed, curator) = Testbed::with_curator().await;
    let acls = [anyone(Permission::READ | Permission::CREATE | Permission::DELETE)];
    let curator = curator.with_acls(Acls::new(&acls));
    let node = curator.persistent_node(format!("{}/x", testbed.path), "here").unwrap();
    let hold = started(&node).await;
    fails(within("the error", node.set_data("there")).await, ErrorKind::PermissionDenied);
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert!(hold.is_held());
    testbed.remove(node.path()).await;
    let began = Instant::now();
    assert_eq!(within("the loss", hold.lost()).await, Loss::NodeDeleted);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    let next = started(&node).await;
    assert_eq!(data(&testbed, &node).await.as_deref(), Some("there"));
    assert!(next.is_held());
}
