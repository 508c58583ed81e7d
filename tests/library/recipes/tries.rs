//! Tries and short limits of many callers at once.

use std::collections::BTreeMap;
use std::future::Future;

use crate::prelude::*;

/// Starts all calls at once, and counts the outcomes. The guards are kept until all have answered.
async fn at_once<T, F>(calls: impl IntoIterator<Item = F>) -> BTreeMap<String, usize>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Error>> + Send + 'static,
{
    let tasks: Vec<_> = calls.into_iter().map(tokio::spawn).collect();
    let mut outcomes = BTreeMap::new();
    let mut kept = Vec::new();
    for task in tasks {
        let answer = task.await.expect("a task that ends");
        let name =
            answer.as_ref().map_or_else(|error| format!("{:?}", error.kind()), |_| "held".into());
        *outcomes.entry(name).or_insert(0) += 1;
        kept.push(answer);
    }
    outcomes
}

/// Of twenty tries at sixteen permits, sixteen succeed.
#[tokio::test(start_paused = true)]
async fn twenty_processes_try_sixteen_free_permits() {
    let (testbed, all) = Testbed::with_curators::<20>().await;
    let outcomes = at_once(all.iter().map(|curator| {
        let semaphore = testbed.semaphore(curator, 16);
        async move { semaphore.try_acquire().await }
    }))
    .await;
    assert_eq!(outcomes, BTreeMap::from([("held".to_owned(), 16), ("Busy".to_owned(), 4)]));
}

/// The servers answer all the time, so no caller may say that they did not.
#[tokio::test(start_paused = true)]
async fn a_limit_that_ends_in_the_last_stage_is_busy() {
    if is_real() {
        return does_not_apply("a real server may take longer to answer than the shortest limit");
    }
    let (testbed, all) = Testbed::with_curators::<16>().await;
    for millis in (45..200).step_by(5) {
        let outcomes = at_once(all.iter().map(|curator| {
            let path = format!("{}/{millis}", testbed.path);
            let semaphore = curator.semaphore(path, 16).unwrap();
            async move { semaphore.acquire_timeout(Duration::from_millis(millis)).await }
        }))
        .await;
        assert!(!outcomes.contains_key("Unavailable"), "{millis} ms: {outcomes:?}");
    }
}

/// The tries of one process look again while they wait for each other, and each finds its permit.
#[tokio::test(start_paused = true)]
async fn two_hundred_tasks_try_two_hundred_free_permits() {
    let (testbed, [curator]) = Testbed::with_curators().await;
    let semaphore = testbed.semaphore(&curator, 200);
    let outcomes = at_once((0..200).map(|_| {
        let semaphore = semaphore.clone();
        async move { semaphore.try_acquire().await }
    }))
    .await;
    assert_eq!(outcomes, BTreeMap::from([("held".to_owned(), 200)]));
}

/// A caller that waits for a permit keeps the tries behind it out, and not for as long as it waits.
#[tokio::test(start_paused = true)]
async fn a_try_behind_a_caller_that_waits_is_busy_at_once() {
    let (testbed, [holder, waiter, other]) = Testbed::with_curators().await;
    let held = testbed.semaphore(&holder, 3).acquire_many(2).await.unwrap();
    let semaphore = testbed.semaphore(&waiter, 3);
    let waiting = tokio::spawn(async move { semaphore.acquire_many(2).await });
    eventually("the waiter", async || {
        children(&testbed.admin, &format!("{}/leases", testbed.path)).await.len() == 4
    })
    .await;
    let began = Instant::now();
    // One permit is free, and the waiter came before.
    fails(testbed.semaphore(&other, 3).try_acquire().await, ErrorKind::Busy);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    drop(held);
    let guards = within("the waiter", waiting).await.unwrap().unwrap();
    assert!(guards.is_held());
}

/// The answer of the second member comes too late.
#[tokio::test(start_paused = true)]
async fn a_limit_of_a_multi_lock_is_busy_if_the_call_waited_for_a_contender_of_an_earlier_member() {
    let testbed = Testbed::new().await;
    let (link, curator) = testbed.linked(testbed.builder()).await;
    let first = testbed.mutex(&testbed.curator().await);
    let second = format!("{}-second", testbed.path);
    let multi = curator.multi_lock([&testbed.path, &second]).unwrap();
    multi.acquire().await.unwrap().release().await.unwrap();
    for (is_busy, has_owner) in [(false, false), (true, false), (false, true), (true, true)] {
        let holder = if is_busy { Some(first.acquire().await.unwrap()) } else { None };
        let held = link.hold(Message::reply(Operation::Create).nth(2));
        let multi = multi.clone();
        let acquiring = async move { multi.acquire_timeout(BUSY).await };
        let calling = match has_owner {
            true => tokio::spawn(async move { Owner::new().scope(acquiring).await }),
            false => tokio::spawn(acquiring),
        };
        testbed.children_are(1 + usize::from(is_busy)).await;
        if let Some(holder) = holder {
            // By then the call knows that it has to wait.
            round_trip(&curator).await;
            holder.release().await.unwrap();
        }
        let error = within("the answer", calling).await.unwrap().unwrap_err();
        let kind = if is_busy { ErrorKind::Busy } else { ErrorKind::Unavailable };
        assert_eq!((error.kind(), error.path()), (kind, Some(second.as_str())), "{error}");
        held.heal();
        testbed.children_are(0).await;
    }
}

/// Each of them creates its node before it counts, because the path is known and the mutex passes on without a request.
#[tokio::test(start_paused = true)]
async fn twenty_tasks_try_sixteen_permits_of_a_known_path() {
    let (testbed, [curator]) = Testbed::with_curators().await;
    let semaphore = testbed.semaphore(&curator, 16);
    semaphore.acquire().await.unwrap().release().await.unwrap();
    for _ in 0..3 {
        let began = Instant::now();
        let outcomes = at_once((0..20).map(|_| {
            let semaphore = semaphore.clone();
            async move { semaphore.try_acquire().await }
        }))
        .await;
        assert_eq!(outcomes, BTreeMap::from([("held".to_owned(), 16), ("Busy".to_owned(), 4)]));
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
        testbed.nodes_are(0, 0).await;
    }
}
