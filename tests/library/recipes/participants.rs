//! Who holds and who waits, for each recipe.

use std::time::SystemTime;

use tokio::task::JoinSet;
use zookeeper_recipes::zookeeper_client::{Acl, Acls, AuthId, CreateMode, Permission};
use zookeeper_recipes::{
    ContenderFilter, ContenderKind, Curator, InterProcessMutex, InterProcessReadWriteLock,
    InterProcessSemaphore, InterProcessSemaphoreMutex, Participant,
};

use super::leases::{asks, asks_for};
use crate::harness::{Arena, Message, Operation, eventually, within};

async fn named(arena: &Arena, identity: &str) -> Curator {
    arena.connect(arena.builder().identity(identity)).await
}

/// Who they are, and whether they hold.
fn told(participants: &[Participant]) -> Vec<(&str, bool)> {
    let name = |data| std::str::from_utf8(data).unwrap();
    participants.iter().map(|one| (name(&one.data), one.holds)).collect()
}

#[tokio::test(start_paused = true)]
async fn nobody_is_at_a_path_that_is_not_there() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    let path = arena.path.as_str();
    let semaphore = InterProcessSemaphore::new(&curator, path, 3).unwrap();
    let all = [
        InterProcessMutex::new(&curator, path).unwrap().participants().await,
        InterProcessReadWriteLock::new(&curator, path).unwrap().participants().await,
        InterProcessSemaphoreMutex::new(&curator, path).unwrap().participants().await,
        semaphore.participants().await,
    ];
    for participants in all {
        assert_eq!(participants.unwrap(), []);
    }
    // Nor where it is there and nobody is.
    within("a lease", semaphore.acquire()).await.unwrap().release().await.unwrap();
    assert_eq!(semaphore.participants().await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn of_a_mutex_one_holds_and_the_others_wait() {
    let arena = Arena::new().await;
    let (one, two) = (named(&arena, "one").await, named(&arena, "two").await);
    let mutex = arena.mutex(&two);
    let guard = within("the lock", arena.mutex(&one).acquire()).await.unwrap();
    let mut waiting = JoinSet::new();
    for place in 2..4 {
        let mutex = mutex.clone();
        waiting.spawn(async move { mutex.acquire().await });
        arena.children_are(place).await;
    }
    let all = mutex.participants().await.unwrap();
    assert_eq!(told(&all), [("one", true), ("two", false), ("two", false)]);
    assert_eq!(all[0].path, guard.node());
    assert!(all.is_sorted_by(|one, next| one.sequence < next.sequence && one.since <= next.since));
    for (participant, curator) in all.iter().zip([&one, &two, &two]) {
        assert_eq!(participant.session, curator.session_id().unwrap());
        // By the servers' clock.
        let stat = arena.stat(&participant.path).await.unwrap();
        let since = participant.since.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(since.as_millis(), u128::try_from(stat.ctime).unwrap());
        // Simulated servers began in 1970.
        let age = participant.since.elapsed().unwrap();
        assert!(age < crate::harness::LONG || since < crate::harness::LONG, "{since:?}");
    }
    drop(waiting);
    guard.release().await.unwrap();
}

/// Who may queue may make a node that nobody reads. It holds all the same.
#[tokio::test(start_paused = true)]
async fn one_that_may_not_be_read_is_told_without_its_data() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    arena.create(&arena.path, CreateMode::Persistent).await;
    let name = format!("{}/_c_01234567-89ab-4def-8123-456789abcdef-lock-", arena.path);
    let mut nodes = Vec::new();
    for (data, may) in [("hidden", Permission::CREATE), ("open", Permission::ALL)] {
        let acls = [Acl::new(may, AuthId::anyone())];
        let node = arena
            .admin
            .create(&name, data.as_bytes(), CreateMode::EphemeralSequential, &acls)
            .await
            .unwrap();
        nodes.push(node);
    }
    let all = arena.mutex(&curator).participants().await.unwrap();
    assert_eq!(told(&all), [("", true), ("open", false)]);
    for (participant, node) in all.iter().zip(&nodes) {
        assert_eq!(&participant.path, node);
        let told = (participant.session, participant.fencing_token().value());
        // Servers from 3.9.5 on want READ for that: see `src/participants.rs`.
        if let Ok(stat) = arena.admin.check_stat(node).await {
            let stat = stat.unwrap();
            assert_eq!(told, (stat.ephemeral_owner, stat.czxid));
            assert!(participant.since > SystemTime::UNIX_EPOCH);
        }
    }
    for node in nodes {
        arena.admin.delete(&node, None).await.unwrap();
    }
    arena.admin.delete(&arena.path, None).await.unwrap();
}

/// Their looks are sent together, as all reads are.
#[tokio::test(start_paused = true)]
async fn all_that_may_not_be_read_are_looked_at_in_one_round_trip() {
    const HIDDEN: usize = 40;
    let arena = Arena::new().await;
    let (proxy, curator) = arena.linked(arena.builder()).await;
    arena.create(&arena.path, CreateMode::Persistent).await;
    let name = format!("{}/_c_01234567-89ab-4def-8123-456789abcdef-lock-", arena.path);
    let acls = [Acl::new(Permission::CREATE, AuthId::anyone())];
    let mut nodes = Vec::new();
    for _ in 0..HIDDEN {
        let node = arena
            .admin
            .create(&name, b"hidden", CreateMode::EphemeralSequential, &acls)
            .await
            .unwrap();
        nodes.push(node);
    }
    let first_answer = proxy.hold(Message::reply(Operation::Exists));
    let mutex = arena.mutex(&curator);
    let listing = tokio::spawn(async move { mutex.participants().await });
    let sent = async || proxy.requests(Operation::Exists) == HIDDEN;
    eventually("a look at each", sent).await;
    first_answer.heal();
    let all = within("all", listing).await.unwrap().unwrap();
    assert_eq!(all.iter().map(|one| &one.path).collect::<Vec<_>>(), Vec::from_iter(&nodes));
    for node in nodes {
        arena.admin.delete(&node, None).await.unwrap();
    }
    arena.admin.delete(&arena.path, None).await.unwrap();
}

/// Whatever else stands in the name, and whether or not the recipe is for such.
#[tokio::test(start_paused = true)]
async fn what_each_is_is_told_by_the_name_of_its_node() {
    const GUID: &str = "_c_01234567-89ab-4def-8123-456789abcdef-";
    let rows = [
        (format!("{GUID}lock-"), Some(ContenderKind::Lock)),
        (format!("{GUID}__READ__"), Some(ContenderKind::Read)),
        (format!("{GUID}__WRIT__"), Some(ContenderKind::Write)),
        (format!("{GUID}lease-"), Some(ContenderKind::Lease)),
        (format!("{GUID}latch-"), Some(ContenderKind::Latch)),
        ("0123__lock__".to_owned(), Some(ContenderKind::KazooLock)),
        ("0123__rlock__".to_owned(), Some(ContenderKind::KazooRead)),
        ("__READ__lock-".to_owned(), Some(ContenderKind::Lock)),
        ("7-core-n_".to_owned(), None),
    ];
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    arena.create(&arena.path, CreateMode::Persistent).await;
    let mut expected = Vec::new();
    for (name, kind) in rows {
        let path = format!("{}/{name}", arena.path);
        let node = arena
            .admin
            .create(&path, b"", CreateMode::EphemeralSequential, &Acls::anyone_all())
            .await
            .unwrap();
        expected.push((node[arena.path.len() + 1..].to_owned(), kind));
    }
    let all = ContenderFilter::custom("all", |_| true);
    let all = arena.mutex(&curator).with_filter(all).unwrap().participants().await.unwrap();
    let told: Vec<_> = all.iter().map(|one| (one.node_name().to_owned(), one.kind())).collect();
    assert_eq!(told, expected);
    for one in all {
        arena.admin.delete(&one.path, None).await.unwrap();
    }
    arena.admin.delete(&arena.path, None).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn of_a_read_write_lock_readers_hold_together() {
    let arena = Arena::new().await;
    let (one, two) = (named(&arena, "one").await, named(&arena, "two").await);
    let lock = InterProcessReadWriteLock::new(&one, &arena.path).unwrap();
    let rival = InterProcessReadWriteLock::new(&two, &arena.path).unwrap();
    let first = within("a read", lock.read().acquire()).await.unwrap();
    let second = within("a read", rival.read().acquire()).await.unwrap();
    let write = rival.write();
    let writes = tokio::spawn(async move { write.acquire().await });
    arena.children_are(3).await;
    let read = lock.read();
    let reads = tokio::spawn(async move { read.acquire().await });
    arena.children_are(4).await;
    let all = lock.participants().await.unwrap();
    assert_eq!(told(&all), [("one", true), ("two", true), ("two", false), ("one", false)]);
    assert_eq!((all[0].path.as_str(), all[1].path.as_str()), (first.node(), second.node()));
    first.release().await.unwrap();
    second.release().await.unwrap();
    let write = within("the write", writes).await.unwrap().unwrap();
    assert_eq!(told(&rival.participants().await.unwrap()), [("two", true), ("one", false)]);
    write.release().await.unwrap();
    within("the read", reads).await.unwrap().unwrap().release().await.unwrap();
}

/// Curator: TestInterProcessSemaphore#testGetParticipantNodes. kazoo: test_holders.
#[tokio::test(start_paused = true)]
async fn of_a_semaphore_all_leases_are_told() {
    let arena = Arena::new().await;
    let curators = [named(&arena, "fred").await, named(&arena, "george").await];
    let mut leases = Vec::new();
    for curator in [&curators[0], &curators[1], &curators[0]] {
        let semaphore = InterProcessSemaphore::new(curator, &arena.path, 3).unwrap();
        leases.push(within("a lease", semaphore.acquire()).await.unwrap());
    }
    let semaphore = InterProcessSemaphore::new(&curators[1], &arena.path, 3).unwrap();
    let all = semaphore.participants().await.unwrap();
    assert_eq!(told(&all), [("fred", true), ("george", true), ("fred", true)]);
    for (participant, lease) in all.iter().zip(&leases) {
        assert_eq!(participant.path, lease.node());
    }
    leases.remove(0).release().await.unwrap();
    let all = semaphore.participants().await.unwrap();
    assert_eq!(told(&all), [("george", true), ("fred", true)]);
}

/// Whoever is first has leases that are not granted; the others wait in `locks`.
#[tokio::test(start_paused = true)]
async fn of_a_semaphore_who_waits_is_told_wherever_it_waits() {
    let arena = Arena::new().await;
    let mut semaphores = Vec::new();
    for name in ["one", "two", "three"] {
        let curator = named(&arena, name).await;
        semaphores.push(InterProcessSemaphore::new(&curator, &arena.path, 3).unwrap());
    }
    let held = within("two", semaphores[0].acquire_many(2)).await.unwrap();
    let all_three = asks_for(&semaphores[1], 3);
    arena.nodes_are(1, 5).await;
    let last = asks(&semaphores[2]);
    arena.nodes_are(2, 5).await;
    let all = semaphores[2].participants().await.unwrap();
    let one = ("one", true);
    let two = ("two", false);
    // There is room for one of its three.
    assert_eq!(told(&all), [one, one, ("two", true), two, two, ("three", false)]);
    // By its leases, once it has some; by its node in `locks` before.
    assert!(all[..5].iter().all(|one| one.path.contains("/leases/")), "{all:?}");
    assert_eq!(all[5].path, arena.locks().await[1]);
    held.release().await.unwrap();
    let granted = all_three.served().await;
    arena.nodes_are(1, 4).await;
    let all = semaphores[0].participants().await.unwrap();
    let two = ("two", true);
    assert_eq!(told(&all), [two, two, two, ("three", false)]);
    granted.release().await.unwrap();
    last.served().await.release().await.unwrap();
}

/// All of one session, whose later ones queued before the earlier had their leases.
#[tokio::test(start_paused = true)]
async fn of_a_semaphore_a_lease_holds_whoever_of_its_session_waits() {
    let arena = Arena::new().await;
    let (curator, other) = (arena.curator().await, arena.curator().await);
    let semaphore = InterProcessSemaphore::new(&curator, &arena.path, 2).unwrap();
    let rival = InterProcessSemaphore::new(&other, &arena.path, 2).unwrap();
    let blocker = within("both", semaphore.acquire_many(2)).await.unwrap();
    let mut waiting = Vec::new();
    for place in 1..=4 {
        waiting.push(asks(&semaphore));
        arena.nodes_are(place, 3).await;
    }
    blocker.release().await.unwrap();
    // Two of the four hold, the third has a lease that is not granted, and the fourth is in `locks`.
    arena.nodes_are(2, 3).await;
    for asked in [&semaphore, &rival] {
        let all = asked.participants().await.unwrap();
        let holds: Vec<_> = all.iter().map(|one| one.holds).collect();
        assert_eq!(holds, [true, true, false, false], "{all:?}");
        let leases = arena.leases().await;
        assert!(all.iter().map(|one| &one.path).take(3).eq(&leases), "{all:?}");
    }
    drop(waiting);
    arena.nodes_are(0, 0).await;
}
