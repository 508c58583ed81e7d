//! What a multi-lock does with its members, in which order, and what it says of them.

use std::future::pending;

use super::contract::plain_locks;
use crate::prelude::*;

fn path(testbed: &Testbed, name: &str) -> String {
    format!("{}/{name}", testbed.path)
}

/// Mutexes at these names, in this order.
fn multi(testbed: &Testbed, curator: &Curator, names: &str) -> InterProcessMultiLock {
    let member =
        |name: &str| -> Arc<dyn Lock> { curator.mutex(path(testbed, name)).unwrap().into() };
    InterProcessMultiLock::new(names.split(' ').map(member)).unwrap()
}

async fn holds(testbed: &Testbed, curator: &Curator, name: &str) -> Guard {
    within(name, curator.mutex(path(testbed, name)).unwrap().acquire()).await.unwrap()
}

/// How many contenders each has.
async fn contenders(testbed: &Testbed) -> [usize; 3] {
    let mut count = [0; 3];
    for (count, name) in count.iter_mut().zip(["a", "b", "c"]) {
        *count = children(&testbed.admin, &path(testbed, name)).await.len();
    }
    count
}

async fn contenders_are(testbed: &Testbed, expected: [usize; 3]) {
    eventually(&format!("{expected:?}"), async || contenders(testbed).await == expected).await;
}

#[tokio::test(start_paused = true)]
async fn bad_members_are_refused_and_only_paths_are_sorted() {
    let (testbed, curator) = Testbed::with_curator().await;
    let error = fails(InterProcessMultiLock::new([]), ErrorKind::InvalidInput);
    assert_eq!((error.option(), error.path()), (Some("members"), None));
    let lock = curator.read_write_lock(&testbed.path).unwrap();
    let mutex: Arc<dyn Lock> = testbed.mutex(&curator).into();
    // Both halves of one lock would wait for each other.
    for members in [[lock.read_half(), lock.write_half()], [mutex.clone(), mutex]] {
        let error = fails(InterProcessMultiLock::new(members), ErrorKind::InvalidInput);
        assert_eq!((error.option(), error.path()), (Some("member"), Some(testbed.path.as_str())));
    }
    fails(curator.multi_lock(["/b", "/a", "/b"]), ErrorKind::InvalidInput);
    assert_eq!(curator.multi_lock(["/b", "/c", "/a"]).unwrap().path(), "/a + /b + /c");
    let [b, a] = ["/b", "/a"].map(|path| curator.mutex(path).unwrap().into());
    let kept = InterProcessMultiLock::new([b, a]).unwrap();
    assert_eq!((kept.path(), kept.clone().sorted_by_path().path()), ("/b + /a", "/a + /b"));
}

#[tokio::test(start_paused = true)]
async fn every_lock_can_be_a_member() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let all = InterProcessMultiLock::new(plain_locks(&testbed, &curator)).unwrap();
    let guards = within("all", all.acquire()).await.unwrap();
    for (member, lock) in guards.iter().zip(plain_locks(&testbed, &other)) {
        assert!(member.is_held() && member.path() == lock.path());
        let shared = acquired(lock.try_acquire().await).is_some();
        assert_eq!(shared, lock.path().ends_with("/read"), "{lock:?}");
    }
    assert!(all.try_acquire().await.unwrap_err().is_busy());
    assert_eq!(guards.release().await.unwrap(), Released::Confirmed);
    let mut guards = all.acquire_timeout(BUSY).await.unwrap().into_iter();
    // Each goes on its own.
    drop(guards.next());
    assert!(guards.all(|guard| guard.is_held()));
}

#[tokio::test(start_paused = true)]
async fn members_are_acquired_in_order_and_released_in_reverse() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let all = multi(&testbed, &curator, "a b c");
    for drops in [false, true] {
        let holder = holds(&testbed, &other, "b").await;
        let (waits, waiting) = (all.clone(), all.clone());
        let waits = tokio::spawn(async move { waits.acquire().await });
        contenders_are(&testbed, [1, 2, 0]).await;
        // Those behind a busy one are not asked.
        assert!(waiting.try_acquire().await.unwrap_err().is_busy());
        holder.release().await.unwrap();
        let guards = within("all", waits).await.unwrap().unwrap();
        match drops {
            true => drop(guards),
            false => assert_eq!(guards.release().await.unwrap(), Released::Confirmed),
        }
        contenders_are(&testbed, [0; 3]).await;
        let mut last = Vec::new();
        for name in ["c", "b", "a"] {
            last.push(testbed.stat(&path(&testbed, name)).await.unwrap().pzxid);
        }
        assert!(last.is_sorted(), "the last member first: {last:?}");
    }
}

/// The first that fails or is busy stops, and what was acquired is released; the error names the member.
#[tokio::test(start_paused = true)]
async fn all_or_none() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let all = multi(&testbed, &curator, "a b c");
    let holder = holds(&testbed, &other, "b").await;
    assert!(all.try_acquire().await.unwrap_err().is_busy());
    assert_eq!(contenders(&testbed).await, [0, 1, 0]);
    assert!(all.acquire_timeout(BUSY).await.unwrap_err().is_busy());
    contenders_are(&testbed, [0, 1, 0]).await;
    holder.release().await.unwrap();
    testbed.admin.delete(&path(&testbed, "b"), None).await.unwrap();
    let unusable = [anyone(Permission::READ | Permission::DELETE)];
    testbed.node(&path(&testbed, "b"), &[], CreateMode::Persistent, &unusable).await;
    let refused = within("the error", all.acquire()).await;
    let error = fails(refused, ErrorKind::PermissionDenied);
    assert_eq!(error.path(), Some(path(&testbed, "b").as_str()));
    assert!(error.to_string().starts_with(&format!("member 1, {}/b: ", testbed.path)), "{error}");
    assert_eq!(contenders(&testbed).await, [0; 3]);
}

/// Also of a member whose servers do not answer when it is released.
#[tokio::test(start_paused = true)]
async fn one_deadline_covers_all_members_and_what_is_rolled_back() {
    let (testbed, link, curator) = Testbed::with_link(Testbed::patient_builder).await;
    let other = testbed.curator().await;
    let members = [(&curator, "a"), (&other, "b"), (&other, "c")];
    let members =
        members.map(|(curator, name)| curator.mutex(path(&testbed, name)).unwrap().into());
    let all = InterProcessMultiLock::new(members).unwrap();
    let third = testbed.curator().await;
    let (first, last) = (holds(&testbed, &third, "b").await, holds(&testbed, &third, "c").await);
    let began = Instant::now();
    let acquiring = tokio::spawn(async move { all.acquire_timeout(BUSY).await });
    contenders_are(&testbed, [1, 2, 1]).await;
    let silence = link.stall(Direction::Both);
    tokio::time::sleep(BUSY / 2).await;
    first.release().await.unwrap();
    assert!(within("busy", acquiring).await.unwrap().unwrap_err().is_busy());
    assert!((BUSY..BUSY * 3 / 2).contains(&began.elapsed()), "{:?}", began.elapsed());
    drop((silence, last));
    contenders_are(&testbed, [0; 3]).await;
}

#[tokio::test(start_paused = true)]
async fn the_loss_of_one_is_told_and_a_release_names_all_that_were_lost() {
    let (testbed, curator) = Testbed::with_curator().await;
    let guards = multi(&testbed, &curator, "a b c").acquire().await.unwrap();
    let nodes: Vec<_> = guards.iter().map(|guard| guard.node().to_owned()).collect();
    testbed.remove(&nodes[1]).await;
    assert_eq!(within("the loss", guards.lost()).await, Loss::NodeDeleted);
    let held: Vec<_> = (&guards).into_iter().map(|guard| guard.is_held()).collect();
    assert_eq!((held, guards.is_held()), (vec![true, false, true], false));
    testbed.remove(&nodes[2]).await;
    within("the loss", guards.iter().last().unwrap().lost()).await;
    let error = fails(guards.release().await, ErrorKind::Lost);
    assert_eq!(error.loss(), Some(Loss::NodeDeleted));
    for (name, is_named) in [("a", false), ("b", true), ("c", true)] {
        assert_eq!(error.to_string().contains(&path(&testbed, name)), is_named, "{error}");
    }
    contenders_are(&testbed, [0; 3]).await;
}

#[tokio::test(start_paused = true)]
async fn one_that_is_lost_while_the_next_is_waited_for_ends_the_attempt() {
    let (testbed, [curator, other]) = Testbed::with_curators().await;
    let holder = holds(&testbed, &other, "b").await;
    let all = multi(&testbed, &curator, "a b c");
    let waiting = tokio::spawn(async move { all.acquire().await });
    contenders_are(&testbed, [1, 2, 0]).await;
    let first = children(&testbed.admin, &path(&testbed, "a")).await.remove(0);
    testbed.remove(&path(&testbed, &format!("a/{first}"))).await;
    let error = fails(within("the loss", waiting).await.unwrap(), ErrorKind::Lost);
    assert_eq!(
        (error.path(), error.loss()),
        (Some(&*path(&testbed, "a")), Some(Loss::NodeDeleted))
    );
    contenders_are(&testbed, [0, 1, 0]).await;
    assert!(holder.is_held());
}

#[tokio::test(start_paused = true)]
async fn run_gives_a_hold_of_each_and_says_which_was_lost() {
    let (testbed, curator) = Testbed::with_curator().await;
    let all = multi(&testbed, &curator, "b a");
    let paths = all.with(async |holds| {
        assert_eq!(contenders(&testbed).await, [1, 1, 0]);
        holds.iter().map(|hold| hold.path().to_owned()).collect::<Vec<_>>()
    });
    assert_eq!(paths.await.unwrap(), ["b", "a"].map(|name| path(&testbed, name)));
    assert_eq!(contenders(&testbed).await, [0; 3]);
    let lost = all.run(async |holds| {
        testbed.remove(holds[1].node()).await;
        pending::<Result<(), Error>>().await
    });
    let error = fails(within("the loss", lost).await, ErrorKind::Lost);
    assert_eq!(error.path(), Some(path(&testbed, "a").as_str()));
    let own = all.run(async |_| Err::<(), _>(fails(curator.mutex(""), ErrorKind::InvalidInput)));
    fails(own.await, ErrorKind::InvalidInput);
    contenders_are(&testbed, [0; 3]).await;
    assert_eq!(Guards::default().release().await.unwrap(), Released::Confirmed);
}
