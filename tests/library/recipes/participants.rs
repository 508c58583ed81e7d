//! Who holds and who waits, for each recipe.

use std::time::SystemTime;

use crate::prelude::*;
use crate::support::leases::{asks, asks_for, served};

async fn named(testbed: &Testbed, identity: &str) -> Curator {
    testbed.connect(testbed.builder().identity(identity)).await
}

/// Who they are, and whether they hold.
fn told(participants: &[Participant]) -> Vec<(&str, bool)> {
    participants.iter().map(|one| (one.identity.as_deref().unwrap_or(""), one.holds)).collect()
}

/// CURATOR-436. Curator: `TestLeaderLatch#testUncreatedPathGetLeader`, by a selector: a latch is a candidate at once.
#[tokio::test(start_paused = true)]
async fn nobody_is_at_a_path_that_is_not_there() {
    let (testbed, curator) = Testbed::with_curator().await;
    let (semaphore, selector) = (testbed.semaphore(&curator, 3), testbed.selector(&curator));
    assert_eq!(testbed.mutex(&curator).participants().await.unwrap(), []);
    assert_eq!(testbed.read_write(&curator).participants().await.unwrap(), []);
    assert_eq!(semaphore.participants().await.unwrap(), []);
    assert_eq!(selector.participants().await.unwrap(), []);
    assert_eq!(selector.leader().await.unwrap(), None);
    assert!(testbed.stat(&testbed.path).await.is_none(), "to look makes nothing");
    // Nor where it is there and nobody is.
    within("a lease", semaphore.acquire()).await.unwrap().release().await.unwrap();
    assert_eq!(semaphore.participants().await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn of_a_mutex_one_holds_and_the_others_wait() {
    let testbed = Testbed::new().await;
    let (one, two) = (named(&testbed, "one").await, named(&testbed, "two").await);
    let three = named(&testbed, "three").await;
    let guard = within("the lock", testbed.mutex(&one).acquire()).await.unwrap();
    let waiting = [testbed.waits(&two).await, testbed.waits(&three).await];
    let all = testbed.mutex(&two).participants().await.unwrap();
    assert_eq!(told(&all), [("one", true), ("two", false), ("three", false)]);
    assert_eq!(all[0].node, guard.node());
    assert!(all.is_sorted_by(|one, next| one.sequence < next.sequence && one.since <= next.since));
    for (participant, curator) in all.iter().zip([&one, &two, &three]) {
        assert_eq!(participant.session_id, curator.session_id().ok());
        // By the servers' clock.
        let stat = testbed.stat(&participant.node).await.unwrap();
        let began = participant.since.unwrap();
        let since = began.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(since.as_millis(), u128::try_from(stat.ctime).unwrap());
        // Simulated servers began in 1970.
        let age = began.elapsed().unwrap();
        assert!(age < LONG || since < LONG, "{since:?}");
    }
    waiting.iter().for_each(JoinHandle::abort);
    guard.release().await.unwrap();
}

/// Those of this session that wait under our own node, after it. Another client sees its node alone.
#[tokio::test(start_paused = true)]
async fn our_own_waiting_tasks_are_told_after_our_node() {
    let testbed = Testbed::new().await;
    let (one, two) = (named(&testbed, "one").await, named(&testbed, "two").await);
    let mutex = testbed.mutex(&one);
    let guard = within("the lock", mutex.acquire()).await.unwrap();
    let _other = testbed.waits(&two).await;
    let mut waiting = [(); 2].map(|()| Box::pin(mutex.acquire()));
    for acquiring in &mut waiting {
        assert!(futures_util::poll!(acquiring).is_pending());
    }
    let all = mutex.participants().await.unwrap();
    assert_eq!(told(&all), [("one", true), ("one", false), ("one", false), ("two", false)]);
    assert!(all[..3].iter().all(|one| one.node == guard.node()));
    let seen = testbed.mutex(&two).participants().await.unwrap();
    assert_eq!(told(&seen), [("one", true), ("two", false)]);
}

/// Who may queue may make a node that nobody reads. It is told without its data; looks at all such are sent together, as all
/// reads are.
#[tokio::test(start_paused = true)]
async fn those_that_may_not_be_read_are_told_without_their_data_after_one_round_trip() {
    const HIDDEN: usize = 40;
    let (testbed, proxy, curator) = Testbed::with_link(Testbed::builder).await;
    testbed.create(&testbed.path, CreateMode::Persistent).await;
    let name = format!("{}/_c_01234567-89ab-4def-8123-456789abcdef-lock-", testbed.path);
    let mut nodes = Vec::new();
    for number in 0..=HIDDEN {
        let (data, may) = if number < HIDDEN {
            (&b"hidden"[..], Permission::CREATE)
        } else {
            (&b"open"[..], Permission::ALL)
        };
        let mode = CreateMode::EphemeralSequential;
        nodes.push(testbed.node(&name, data, mode, &[anyone(may)]).await);
    }
    let first_answer = proxy.hold(Message::reply(Operation::Exists));
    let mutex = testbed.mutex(&curator);
    let listing = tokio::spawn(async move { mutex.participants().await });
    let sent = async || proxy.requests(Operation::Exists) == HIDDEN;
    eventually("a look at each", sent).await;
    first_answer.heal();
    let all = within("all", listing).await.unwrap().unwrap();
    assert_eq!(all.iter().map(|one| &one.node).collect::<Vec<_>>(), Vec::from_iter(&nodes));
    let hidden = told(&all[..HIDDEN]);
    assert_eq!(hidden[0], ("", true));
    assert!(hidden[1..].iter().all(|one| *one == ("", false)), "{hidden:?}");
    assert_eq!(told(&all[HIDDEN..]), [("open", false)]);
    for (participant, node) in all.iter().zip(&nodes) {
        // Servers from 3.8.4 and 3.9.2 on want READ for that: see `src/recipes/shared/participants.rs`.
        if let Ok(stat) = testbed.admin.check_stat(node).await {
            let (stat, token) = (stat.unwrap(), participant.fencing_token.unwrap().value());
            let session = participant.session_id.unwrap();
            assert_eq!((session, token), (stat.ephemeral_owner, stat.czxid));
            assert!(participant.since > Some(SystemTime::UNIX_EPOCH));
        }
    }
    testbed.wipe().await;
}

/// Curator: TestInterProcessSemaphore#testGetParticipantNodes. kazoo: test_holders. Whoever is first has leases that are not
/// granted; the others wait in `locks`.
#[tokio::test(start_paused = true)]
async fn of_a_semaphore_who_waits_is_told_wherever_it_waits() {
    let testbed = Testbed::new().await;
    let mut semaphores = Vec::new();
    for name in ["one", "two", "three"] {
        let curator = named(&testbed, name).await;
        semaphores.push(curator.semaphore(&testbed.path, 3).unwrap());
    }
    let held = within("two", semaphores[0].acquire_many(2)).await.unwrap();
    let all_three = asks_for(&semaphores[1], 3);
    testbed.nodes_are(1, 5).await;
    let last = asks(&semaphores[2]);
    testbed.nodes_are(2, 5).await;
    let all = semaphores[2].participants().await.unwrap();
    let one = ("one", true);
    let two = ("two", false);
    // There is room for one of its three.
    assert_eq!(told(&all), [one, one, ("two", true), two, two, ("three", false)]);
    // By its leases, once it has some; by its node in `locks` before.
    assert!(all[..5].iter().all(|one| one.node.contains("/leases/")), "{all:?}");
    assert_eq!(all[5].node, testbed.locks().await[1]);
    held.release().await.unwrap();
    let granted = served(all_three).await;
    testbed.nodes_are(1, 4).await;
    let all = semaphores[0].participants().await.unwrap();
    let two = ("two", true);
    assert_eq!(told(&all), [two, two, two, ("three", false)]);
    granted.release().await.unwrap();
    served(last).await.release().await.unwrap();
}

/// All of one session, whose later ones queued before the earlier had their leases.
#[tokio::test(start_paused = true)]
async fn of_a_semaphore_a_lease_holds_whoever_of_its_session_waits() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let semaphore = curator.semaphore(&testbed.path, 2).unwrap();
    let rival = other.semaphore(&testbed.path, 2).unwrap();
    let blocker = within("both", semaphore.acquire_many(2)).await.unwrap();
    let mut waiting = Vec::new();
    for _ in 0..4 {
        waiting.push(asks(&semaphore));
    }
    testbed.nodes_are(1, 3).await;
    blocker.release().await.unwrap();
    // Two of the four hold, the third has a lease that is not granted, and the fourth waits for the node of that in `locks`.
    testbed.nodes_are(1, 3).await;
    for asked in [&semaphore, &rival] {
        let all = asked.participants().await.unwrap();
        let holds: Vec<_> = all.iter().map(|one| one.holds).collect();
        assert_eq!(holds, [true, true, false], "{all:?}");
        let leases = testbed.leases().await;
        assert!(all.iter().map(|one| &one.node).take(3).eq(&leases), "{all:?}");
    }
    drop(waiting);
    testbed.nodes_are(0, 0).await;
}
