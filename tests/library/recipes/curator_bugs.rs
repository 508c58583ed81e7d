//! Bugs of Apache Curator, by its ids, whose absence no other test shows.

use crate::prelude::*;
use crate::support::counted_client::settle;

/// With a session that a client gives up after a few seconds of silence.
async fn short_linked(testbed: &Testbed) -> (Link, Curator) {
    testbed.linked_with_parent(testbed.short_lived_builder()).await
}

#[tokio::test(start_paused = true)]
async fn curator_264_not_there_counts_only_behind_a_write_and_a_sync() {
    let testbed = Testbed::new().await;
    let (link, curator) = testbed.linked_with_parent(testbed.builder()).await;
    for lost in [Message::reply(Operation::Create), Message::request(Operation::Create)] {
        link.clear_log();
        let lost = link.lose(lost);
        let guard = within("the lock", testbed.mutex(&curator).acquire()).await.unwrap();
        struck_once(&lost).await;
        // The three requests of the search are sent together: so no probe, which is a `sync` too, is between them.
        let log = link.log();
        let search = [Operation::Delete, Operation::Sync, Operation::List];
        assert!(log.windows(3).any(|three| three == search), "{log:?}");
        // The number of creates tells whether the node was found.
        let creates = log.iter().filter(|one| **one == Operation::Create).count();
        assert!(creates <= 2, "{log:?}");
        guard.release().await.unwrap();
    }
    testbed.children_are(0).await;
}

/// The leader has the create and no follower has. The leader answers reads all the same, without that node.
#[tokio::test(start_paused = true)]
async fn curator_264_a_create_that_has_no_quorum_yet_is_searched_until_it_has() {
    let testbed = Testbed::three(Duration::from_secs(3), 10).await;
    let leader = testbed.servers.leader().await;
    let link = testbed.servers.members()[leader].link().await;
    let curator = testbed.patient_builder().connect(link.connect_string()).await.unwrap();
    let mutex = testbed.mutex(&curator);
    within("the path", mutex.acquire()).await.unwrap().release().await.unwrap();
    link.clear_log();
    let parted = [1, 2].map(|next| testbed.servers.part(leader, (leader + next) % 3));
    let created = link.cut_at(Message::request(Operation::Create), Cut::Finish);
    let acquiring = tokio::spawn(async move { mutex.acquire().await });
    within("the create", created.struck()).await;
    // A real server keeps the requests of a session behind its create, which has no quorum.
    let asks_again = |one: &Operation| matches!(one, Operation::List | Operation::SetWatches);
    eventually("it asks again", async || link.log().iter().any(asks_again)).await;
    settle().await;
    drop(parted);
    let guard = held(acquiring).await;
    let creates = link.log().into_iter().filter(|one| *one == Operation::Create).count();
    assert_eq!((creates, testbed.children().await.len()), (1, 1), "it was found");
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn curator_45_a_create_of_unknown_outcome_is_removed_when_the_retries_ran_out() {
    let testbed = Testbed::new().await;
    let (link, curator) = testbed.linked_with_parent(testbed.builder()).await;
    let created = link.lose(Message::reply(Operation::Create));
    // That of the barrier: nobody learns whether the create took effect.
    let searched = link.lose(Message::reply(Operation::Delete));
    let mutex = testbed.mutex(&curator.with_retry(RetryPolicy::never()));
    fails(within("the error", mutex.acquire()).await, ErrorKind::Unavailable);
    struck_once(&created).await;
    struck_once(&searched).await;
    testbed.children_are(0).await;
    within("the lock", mutex.acquire()).await.unwrap().release().await.unwrap();
}

/// And CURATOR-486.
#[tokio::test(start_paused = true)]
async fn curator_678_a_release_that_nobody_confirmed_is_in_nobodys_way() {
    let testbed = Testbed::new().await;
    let patience = Duration::from_millis(300);
    let builder = testbed.patient_builder().connection_timeout(patience);
    let link = testbed.link().await;
    let curator = testbed.impatient(link.connect_string(), builder).await;
    let guard = testbed.mutex(&curator).acquire().await.unwrap();
    let silence = link.stall(Direction::Both);
    let began = Instant::now();
    assert_eq!(within("the release", guard.release()).await.unwrap(), Released::Pending);
    // By default it would be told after 15 s.
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert_eq!(testbed.children().await.len(), 1, "the server has not heard of it");
    // What waited for the link is lost with it.
    link.cut(Cut::Reset);
    drop(silence);
    let guard = within("the lock", testbed.mutex(&curator).acquire()).await.unwrap();
    assert_eq!(testbed.children().await.len(), 1);
    drop(guard);
    testbed.children_are(0).await;
}

/// A hostile client copies the name of our node, and deletes ours.
#[tokio::test(start_paused = true)]
async fn curator_604_a_node_of_another_session_is_never_adopted() {
    let testbed = Testbed::new().await;
    let (link, curator) = testbed.linked_with_parent(testbed.builder()).await;
    let refused = link.refuse();
    let lost = link.lose(Message::reply(Operation::Create));
    let acquiring = testbed.waits(&curator).await;
    struck_once(&lost).await;
    let own = testbed.newcomer(&[]).await;
    testbed.remove(&own).await;
    let prefix = &own[..own.len() - 10];
    let mode = CreateMode::EphemeralSequential;
    let copy = testbed.node(prefix, b"", mode, &Acls::anyone_all()).await;
    drop(refused);
    testbed.children_are(2).await;
    round_trip(&curator).await;
    settle().await;
    assert!(!acquiring.is_finished(), "the copy is ahead");
    testbed.remove(&copy).await;
    held(acquiring).await.release().await.unwrap();
}

/// While no server runs, only the client's clock counts. Afterwards the servers keep its old session for as long again.
#[tokio::test(start_paused = true)]
async fn curator_595_a_node_of_a_session_that_only_the_client_gave_up_is_deleted_in_the_next() {
    const T: Duration = Duration::from_secs(18);
    let testbed = Testbed::own().await;
    let curator = testbed.connect(testbed.builder().session_timeout(T)).await;
    let guard = testbed.mutex(&curator).acquire().await.unwrap();
    testbed.server.stop().await.unwrap();
    until(&curator, ConnectionState::Lost).await;
    testbed.server.start_again().await.unwrap();
    let restarted = Instant::now();
    // The test's own client may still pause, after so long an outage.
    let admin = testbed.server.admin().await;
    // The guard is not let go: nobody may have to wait for that.
    eventually("the delete", async || children(&admin, &testbed.path).await.is_empty()).await;
    assert!(restarted.elapsed() < T / 2, "the session expired: {:?}", restarted.elapsed());
    assert_eq!(guard.loss(), Some(Loss::LeaseEnded));
}

#[tokio::test(start_paused = true)]
async fn curator_106_a_delete_that_fails_for_ever_is_repeated_with_growing_pauses() {
    let testbed = Testbed::new().await;
    testbed.restrict(Permission::CREATE | Permission::READ).await;
    let (link, curator) = testbed.linked(testbed.builder()).await;
    let guard = testbed.mutex(&curator).acquire().await.unwrap();
    let began = Instant::now();
    fails(within("the release", guard.release()).await, ErrorKind::PermissionDenied);
    eventually("the fifth try", async || link.requests(Operation::Delete) >= 5).await;
    // At least 50, 100, 200 and 400 ms lie in between.
    assert!(began.elapsed() >= Duration::from_millis(750), "{:?}", began.elapsed());
    within("the end", curator.close()).await;
    testbed.children_are(0).await;
}

/// And CURATOR-436.
#[tokio::test(start_paused = true)]
async fn curator_358_a_participant_that_vanishes_while_it_is_read_is_left_out() {
    let testbed = Testbed::new().await;
    let (link, curator) = testbed.linked_with_parent(testbed.builder()).await;
    let [other, third] = testbed.curators().await;
    let goes = testbed.mutex(&other).acquire().await.unwrap();
    let stays = testbed.waits(&third).await;
    let listed = link.hold(Message::request(Operation::GetData));
    let mutex = testbed.mutex(&curator);
    let asking = tokio::spawn(async move { mutex.participants().await });
    within("the listing", listed.struck()).await;
    goes.release().await.unwrap();
    listed.heal();
    let told = within("the answer", asking).await.unwrap().unwrap();
    let stays = within("the other", stays).await.unwrap().unwrap();
    assert_eq!(told.iter().map(|one| one.node.as_str()).collect::<Vec<_>>(), [stays.node()]);
}

mod real {
    use super::*;
    use zookeeper_recipes::zookeeper_client::Client;
    use zookeeper_recipes_dev::Fault;

    /// A task that acquires, its node of a session that was given up before the reply came, the fault that strikes its next
    /// create, so that a search meets the old node, and the client that keeps the old session alive.
    async fn creates_unheard(
        link: &Link,
        curator: &Curator,
        testbed: &Testbed,
    ) -> (Waiting, String, Fault, Client) {
        let lost = link.hold(Message::reply(Operation::Create));
        let acquiring = testbed.waits(curator).await;
        within("the create", lost.struck()).await;
        let old = format!("{}/{}", testbed.path, testbed.children().await[0]);
        let lost_again = link.lose(Message::request(Operation::Create));
        let keeper = give_the_session_up(link, curator, testbed).await;
        (acquiring, old, lost_again, keeper)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn curator_604_a_node_of_the_old_session_is_never_adopted() {
        let testbed = Testbed::real().await;
        let (link, curator) = short_linked(&testbed).await;
        let (acquiring, old, lost_again, keeper) = creates_unheard(&link, &curator, &testbed).await;
        let guard = within("the lock", acquiring).await.unwrap().unwrap();
        struck_once(&lost_again).await;
        assert_ne!(guard.node(), old);
        let owner = testbed.stat(guard.node()).await.unwrap().ephemeral_owner;
        assert_eq!(owner, curator.session_id().unwrap());
        assert_ne!(owner, keeper.session_id().0);
        // The old node was in the way, and we deleted it.
        testbed.children_are(1).await;
        assert!(guard.is_held());
        within("an answer", keeper.sync("/"))
            .await
            .expect("the session lives: no server deleted it");
        guard.release().await.unwrap();
    }

    /// The same where nobody may delete the old node: it is found for certain, and waited for.
    #[tokio::test(flavor = "multi_thread")]
    async fn curator_604_a_node_of_the_old_session_that_stays_is_waited_for() {
        let testbed = Testbed::real().await;
        testbed.restrict(Permission::CREATE | Permission::READ).await;
        let (link, curator) = testbed.linked(testbed.short_lived_builder()).await;
        let (acquiring, old, lost_again, keeper) = creates_unheard(&link, &curator, &testbed).await;
        eventually("another node, or the lock", async || {
            acquiring.is_finished() || testbed.children().await.len() > 1
        })
        .await;
        struck_once(&lost_again).await;
        let queue = testbed.mutex(&curator).participants().await.unwrap();
        assert_eq!(queue[0].node, old);
        assert!(!acquiring.is_finished(), "{:?}", acquiring.await);
        drop(keeper);
        let guard = within("the lock", acquiring).await.unwrap().unwrap();
        let owner = testbed.stat(guard.node()).await.unwrap().ephemeral_owner;
        assert_eq!(owner, curator.session_id().unwrap());
        assert!(testbed.stat(&old).await.is_none());
    }

    /// `curator` hears nothing until it calls its session expired; the server hears it until then, and has the
    /// session kept alive by a client that this gives back. So a node of it goes only if somebody deletes it.
    async fn give_the_session_up(link: &Link, curator: &Curator, testbed: &Testbed) -> Client {
        let session = curator.client().unwrap().session().clone();
        let silence = link.stall(Direction::ToClient);
        until(curator, ConnectionState::Lost).await;
        let resumed = Client::connector().with_session(session);
        let keeper = resumed.connect(testbed.server.connect_string()).await;
        let keeper = keeper.expect("the session, which the server still has");
        drop(silence);
        keeper
    }
}
