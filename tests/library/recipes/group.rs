//! `GroupMember` and `GroupObserver`: who is alive.

use zookeeper_recipes::group::{GroupObserver, Members, Membership};

use crate::prelude::*;

async fn join(testbed: &Testbed, curator: &Curator, id: &str) -> Membership {
    let member = curator.group_member(&testbed.path, id).unwrap();
    within("to join", member.with_data(format!("data of {id}")).join()).await.unwrap()
}

fn observer(testbed: &Testbed, curator: &Curator) -> GroupObserver {
    curator.observe_group(&testbed.path).unwrap()
}

async fn reported(observer: &mut GroupObserver) -> Members {
    within("a report", observer.changed()).await.unwrap()
}

fn ids(members: &Members) -> Vec<&str> {
    members.ids().collect()
}

/// Waits until these are reported.
async fn are(observer: &mut GroupObserver, wanted: &[&str]) -> Members {
    loop {
        let members = reported(observer).await;
        if ids(&members) == wanted {
            return members;
        }
    }
}

/// Nothing is reported without a change.
async fn is_quiet(observer: &mut GroupObserver) {
    let report = timeout(Duration::from_secs(20), observer.changed()).await;
    assert!(report.is_err(), "{report:?}");
}

async fn plain(testbed: &Testbed, name: &str) {
    let path = format!("{}/{name}", testbed.path);
    testbed.node(&path, name.as_bytes(), CreateMode::Ephemeral, Acls::anyone_all().as_ref()).await;
}

#[tokio::test(start_paused = true)]
async fn members_are_reported_in_the_order_of_their_ids() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let mut observer = observer(&testbed, &other);
    assert_eq!(observer.members(), None, "nothing is known yet");
    assert_eq!(ids(&reported(&mut observer).await), [""; 0], "the group does not exist");
    let b = join(&testbed, &curator, "b").await;
    assert_eq!(ids(&reported(&mut observer).await), ["b"]);
    // As names `%2F` comes before `-`, and as ids `-` before `/`.
    plain(&testbed, "a-").await;
    assert_eq!(ids(&reported(&mut observer).await), ["a-", "b"]);
    let a = join(&testbed, &other, "a/1").await;
    assert_eq!(ids(&reported(&mut observer).await), ["a-", "a/1", "b"]);
    testbed.remove(&format!("{}/a-", testbed.path)).await;
    let members = reported(&mut observer).await;
    assert_eq!(ids(&members), ["a/1", "b"]);
    let [first, second] = &members[..] else { panic!("{members:?}") };
    assert_eq!(first.node, format!("{}/a%2F1", testbed.path));
    assert_eq!(
        (first.data.as_slice(), second.data.as_slice()),
        (&b"data of a/1"[..], &b"data of b"[..])
    );
    assert_eq!(first.session_id, Some(other.session_id().unwrap()));
    assert_eq!(members.get("b"), Some(second));
    assert!(second.since.is_some());
    assert_eq!(observer.members(), Some(members));
    within("a write", b.set_data("other")).await.unwrap();
    let members = reported(&mut observer).await;
    assert_eq!(members.get("b").unwrap().data, b"other");
    within("to leave", a.leave()).await.unwrap();
    assert_eq!(ids(&reported(&mut observer).await), ["b"]);
    drop(b);
    assert_eq!(ids(&reported(&mut observer).await), [""; 0]);
    is_quiet(&mut observer).await;
}

#[tokio::test(start_paused = true)]
async fn a_member_leaves_with_its_last_handle_and_joins_again_in_the_next_session() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let mut observer = observer(&testbed, &other);
    let membership = join(&testbed, &curator, "a").await;
    let first = are(&mut observer, &["a"]).await;
    let hold = within("the hold", membership.joined()).await.unwrap();
    testbed.kill_session(&curator).await;
    within("the loss", membership.lost()).await;
    assert_eq!(membership.session_lease_left(), Duration::ZERO);
    let next = within("the next hold", membership.joined()).await.unwrap();
    assert!(next.fencing_token() > hold.fencing_token());
    loop {
        let members = are(&mut observer, &["a"]).await;
        if members[0].session_id != first[0].session_id {
            break;
        }
    }
    let second = membership.clone();
    drop(membership);
    is_quiet(&mut observer).await;
    drop(second);
    assert_eq!(ids(&reported(&mut observer).await), [""; 0]);
}

/// With a thousand members, a change of one costs requests for that one.
#[tokio::test(start_paused = true)]
async fn a_change_of_one_of_a_thousand_costs_a_listing_and_a_read() {
    let (testbed, link, curator) = Testbed::with_link(Testbed::patient_builder).await;
    testbed.create(&testbed.path, CreateMode::Persistent).await;
    let names: Vec<_> = (0..1000).map(|number| format!("{number:03}")).collect();
    join_all(names.iter().map(|name| plain(&testbed, name))).await;
    let mut observer = observer(&testbed, &curator);
    assert_eq!(reported(&mut observer).await.len(), 1000);
    let requests = || (link.requests(Operation::List), link.requests(Operation::GetData));
    assert_eq!(requests(), (1, 1000));
    let path = |name: &str| format!("{}/{name}", testbed.path);

    testbed.admin.set_data(&path("500"), b"new", None).await.unwrap();
    assert_eq!(reported(&mut observer).await.get("500").unwrap().data, b"new");
    assert_eq!(requests(), (1, 1001), "a change of data: a read");
    plain(&testbed, "new").await;
    assert_eq!(reported(&mut observer).await.len(), 1001);
    assert_eq!(requests(), (2, 1002), "a member joins: a listing and a read");
    testbed.remove(&path("400")).await;
    assert_eq!(reported(&mut observer).await.len(), 1000);
    assert_eq!(requests(), (3, 1002), "a member leaves: a listing");
    is_quiet(&mut observer).await;
    assert_eq!(requests(), (3, 1002), "no change, no request");
}

/// Of all kinds, while the client hears nothing, and some while the others are read.
#[tokio::test(start_paused = true)]
async fn changes_of_all_kinds_that_come_together_are_one_report() {
    let (testbed, link, curator) = Testbed::with_link(Testbed::patient_builder).await;
    testbed.create(&testbed.path, CreateMode::Persistent).await;
    join_all(["a", "b", "c"].map(|name| plain(&testbed, name))).await;
    let mut observer = observer(&testbed, &curator);
    assert_eq!(reported(&mut observer).await.len(), 3);
    let stalled = link.stall(Direction::ToClient);
    testbed.remove(&format!("{}/a", testbed.path)).await;
    testbed.admin.set_data(&format!("{}/b", testbed.path), b"x", None).await.unwrap();
    plain(&testbed, "d").await;
    stalled.heal();
    let members = reported(&mut observer).await;
    assert_eq!(ids(&members), ["b", "c", "d"]);
    assert_eq!(members.get("b").unwrap().data, b"x");
    is_quiet(&mut observer).await;
}

/// A member of the listing leaves before it is read, and another one joins.
#[tokio::test(start_paused = true)]
async fn no_report_is_a_part_of_a_listing() {
    let (testbed, link, curator) = Testbed::with_link(Testbed::patient_builder).await;
    testbed.create(&testbed.path, CreateMode::Persistent).await;
    plain(&testbed, "a").await;
    let held = link.hold(Message::request(Operation::GetData));
    let mut observer = observer(&testbed, &curator);
    within("the read", held.struck()).await;
    testbed.remove(&format!("{}/a", testbed.path)).await;
    plain(&testbed, "b").await;
    held.heal();
    assert_eq!(ids(&reported(&mut observer).await), ["b"]);
}

/// In each round of requests, a member of the listing leaves before it is read, and another one joins.
#[tokio::test(start_paused = true)]
async fn members_that_come_and_go_all_the_time_hide_no_member_that_stays() {
    let (testbed, link, curator) = Testbed::with_link(Testbed::patient_builder).await;
    testbed.create(&testbed.path, CreateMode::Persistent).await;
    let mut observer = observer(&testbed, &curator);
    assert_eq!(reported(&mut observer).await.len(), 0);
    let mut held = link.hold(Message::request(Operation::GetData));
    plain(&testbed, "stays").await;
    plain(&testbed, "0").await;
    for round in 0..30 {
        within("a read", held.struck()).await;
        testbed.remove(&format!("{}/{round}", testbed.path)).await;
        plain(&testbed, &format!("{}", round + 1)).await;
        let next = link.hold(Message::request(Operation::GetData));
        held.heal();
        held = next;
    }
    assert!(observer.members().unwrap().get("stays").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_reconnect_and_a_new_session_miss_nothing() {
    let (testbed, link, curator) = Testbed::with_link(Testbed::patient_builder).await;
    let other = testbed.curator().await;
    let mut observer = observer(&testbed, &curator);
    let _a = join(&testbed, &other, "a").await;
    are(&mut observer, &["a"]).await;
    let refused = link.refuse();
    link.cut(Cut::Reset);
    let _b = join(&testbed, &other, "b").await;
    assert_eq!(ids(&observer.members().unwrap()), ["a"], "the last members stay");
    refused.heal();
    are(&mut observer, &["a", "b"]).await;
    testbed.kill_session(&curator).await;
    let c = join(&testbed, &other, "c").await;
    are(&mut observer, &["a", "b", "c"]).await;
    within("to leave", c.leave()).await.unwrap();
    are(&mut observer, &["a", "b"]).await;
    is_quiet(&mut observer).await;
}

#[tokio::test(start_paused = true)]
async fn a_group_is_deleted_and_created_again() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let mut observer = observer(&testbed, &other);
    for _ in 0..3 {
        let membership = join(&testbed, &curator, "a").await;
        are(&mut observer, &["a"]).await;
        within("to leave", membership.leave()).await.unwrap();
        are(&mut observer, &[]).await;
        testbed.remove(&testbed.path).await;
    }
}

/// Such as the nodes of a lock in a folder below.
#[tokio::test(start_paused = true)]
async fn children_that_are_not_ephemeral_are_no_members() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let mut observer = observer(&testbed, &other);
    let _membership = join(&testbed, &curator, "a").await;
    are(&mut observer, &["a"]).await;
    testbed.create(&format!("{}/folder", testbed.path), CreateMode::Persistent).await;
    is_quiet(&mut observer).await;
}

#[tokio::test(start_paused = true)]
async fn without_permission_to_list_it_ends_and_a_hidden_member_has_no_data() {
    let (testbed, curator) = Testbed::with_curator().await;
    testbed.create(&testbed.path, CreateMode::Persistent).await;
    let hidden = format!("{}/hidden", testbed.path);
    let acls = [anyone(Permission::WRITE)];
    testbed.node(&hidden, b"secret", CreateMode::Ephemeral, &acls).await;
    let mut observer = observer(&testbed, &curator);
    let members = reported(&mut observer).await;
    assert_eq!((ids(&members), members[0].data.as_slice()), (vec!["hidden"], &b""[..]));
    let closed = format!("{}-closed", testbed.path);
    testbed.node(&closed, &[], CreateMode::Persistent, &[anyone(Permission::CREATE)]).await;
    let mut observer = curator.observe_group(&closed).unwrap();
    fails(within("the end", observer.changed()).await, ErrorKind::PermissionDenied);
}

async fn joins(testbed: &Testbed, name: &str, data: &str) -> String {
    let node = format!("{}/{name}", testbed.path);
    testbed.node(&node, data.as_bytes(), CreateMode::Ephemeral, &Acls::anyone_all()).await
}

async fn writes(testbed: &Testbed, node: &str, data: &str) {
    testbed.admin.set_data(node, data.as_bytes(), None).await.unwrap();
}

/// The data of a change while others are read are in the report, if a later change is.
#[tokio::test(start_paused = true)]
async fn a_report_is_of_one_moment() {
    let testbed = Testbed::with_parent().await;
    let (link, curator) = testbed.linked(testbed.builder()).await;
    let a = joins(&testbed, "a", "0").await;
    let b = joins(&testbed, "b", "0").await;
    let mut observer = curator.observe_group(&testbed.path).unwrap();
    within("members", observer.changed()).await.unwrap();
    let held = link.hold(Message::request(Operation::GetData));
    writes(&testbed, &b, "1").await;
    within("a read", held.struck()).await;
    let events = link.replies(Operation::Event);
    writes(&testbed, &a, "1").await;
    writes(&testbed, &b, "2").await;
    eventually("the event", async || link.replies(Operation::Event) > events).await;
    held.heal();
    let members = within("members", observer.changed()).await.unwrap();
    let data = |id| String::from_utf8_lossy(&members.get(id).unwrap().data).into_owned();
    assert_eq!((data("a"), data("b")), ("1".to_owned(), "2".to_owned()));
}

/// One member with a watch changes each second, and one without a watch once.
#[tokio::test(start_paused = true)]
async fn members_without_a_watch_are_read_in_turn_also_if_others_change_all_the_time() {
    let mut testbed = Testbed::new().await;
    testbed.create(&testbed.path, CreateMode::Persistent).await;
    testbed.path = format!("{}/{}", testbed.path, "x".repeat(900));
    testbed.create(&testbed.path, CreateMode::Persistent).await;
    let builder = testbed.builder().session_timeout(Duration::from_secs(12));
    let curator = testbed.connect(builder).await;
    let mut nodes = Vec::new();
    for number in 0..100 {
        nodes.push(joins(&testbed, &format!("{number:03}"), "").await);
    }
    let mut observer = curator.observe_group(&testbed.path).unwrap();
    while within("members", observer.changed()).await.unwrap().len() < 100 {}
    writes(&testbed, &nodes[99], "x").await;
    for second in 0..60 {
        writes(&testbed, &nodes[0], &format!("{second}")).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        if observer.members().unwrap()[99].data == b"x" {
            return;
        }
    }
    panic!("not seen in five session timeouts");
}
