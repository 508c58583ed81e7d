//! A multi-lock's future or guard that is dropped anywhere leaves no node at any member, and the next is served
//! (invariant 3).

use std::future::Future;
use std::time::Duration;

use zookeeper_recipes::{
    AcquireError, InterProcessMultiLock, InterProcessMutex, MultiGuard, MultiReleaseError,
};

use super::multi_lock::{contenders, contenders_are, multi, paths};
use super::mutex_dropped::{Polled, poll_times};
use crate::harness::{Arena, within};

/// Drops what `operation` makes after 0, 1, 2, … polls until it finishes; after each all members are free for the next
/// as soon as nobody holds them. Where it says so, the second member is busy.
async fn dropped_at_every_poll<F>(busy: bool, operation: impl Fn(InterProcessMultiLock) -> F)
where
    F: Future<Output = Result<Option<MultiGuard>, AcquireError>>,
{
    let arena = Arena::new().await;
    let (curator, other) = (arena.curator().await, arena.curator().await);
    let (both, rival) = (multi(&arena, &curator), multi(&arena, &other));
    let second = InterProcessMutex::new(&other, &paths(&arena)[1]).unwrap();
    for polls in 0.. {
        let holder = if busy { Some(second.acquire().await.unwrap()) } else { None };
        let finished = poll_times(polls, operation(both.clone())).await;
        let done = !matches!(finished, Polled::Dropped);
        if let Polled::Finished(Err(error)) = &finished {
            panic!("{error:?}");
        }
        drop(finished);
        contenders_are(&arena, [0, usize::from(busy)]).await;
        if let Some(holder) = holder {
            assert!(holder.is_held());
            holder.release().await.unwrap();
        }
        let next = within("the next", rival.acquire()).await.unwrap();
        assert_eq!(contenders(&arena).await, [1, 1], "after {polls} polls");
        next.release().await.unwrap();
        if done {
            assert!(polls > 0, "it was dropped at least before its first poll");
            break;
        }
        assert!(polls < 50, "it never finishes");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn acquire_of_free_members() {
    dropped_at_every_poll(false, |both| async move { both.acquire().await.map(Some) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acquire_with_a_busy_member() {
    dropped_at_every_poll(true, |both| async move { both.acquire().await.map(Some) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acquire_timeout() {
    let limit = Duration::from_millis(300);
    let acquire = |both: InterProcessMultiLock| async move {
        match both.acquire_timeout(limit).await {
            // On a busy machine the time may be up before anybody answered.
            Err(AcquireError::Member { .. }) => Ok(None),
            got => got,
        }
    };
    dropped_at_every_poll(false, acquire).await;
    dropped_at_every_poll(true, acquire).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn try_acquire() {
    dropped_at_every_poll(false, |both| async move { both.try_acquire().await }).await;
    dropped_at_every_poll(true, |both| async move { both.try_acquire().await }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with() {
    dropped_at_every_poll(false, |both| async move {
        let body = async |guard: &MultiGuard| {
            tokio::task::yield_now().await;
            assert!(guard.is_held());
        };
        both.with(body).await.unwrap();
        Ok(None)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn release_dropped_at_every_poll_releases_all() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    let both = multi(&arena, &curator);
    for polls in 0..50 {
        let guard = both.acquire().await.unwrap();
        let released: Polled<Result<_, MultiReleaseError>> =
            poll_times(polls, guard.release()).await;
        contenders_are(&arena, [0, 0]).await;
        if let Polled::Finished(released) = released {
            released.unwrap();
            // Both answers may come while this thread has no processor.
            if polls > 1 {
                return;
            }
        }
    }
    panic!("a release never finishes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_dropped_on_a_plain_thread_releases_all() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    let guard = multi(&arena, &curator).acquire().await.unwrap();
    let token = guard.cancellation_token();
    std::thread::spawn(move || drop(guard)).join().unwrap();
    assert!(token.is_cancelled());
    contenders_are(&arena, [0, 0]).await;
}

#[test]
fn a_guard_that_outlives_its_runtime_neither_panics_nor_blocks() {
    let watching = tokio::runtime::Runtime::new().unwrap();
    let arena = watching.block_on(Arena::new());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (guard, token) = runtime.block_on(async {
        let curator = arena.short_lived_curator().await;
        let guard = multi(&arena, &curator).acquire().await.unwrap();
        let token = guard.cancellation_token();
        (guard, token)
    });
    runtime.shutdown_timeout(Duration::from_secs(10));
    assert!(token.is_cancelled());
    let lost = watching.block_on(async { within("the loss", guard.lost()).await });
    assert_eq!(lost.loss, zookeeper_recipes::Loss::Closed);
    let report = watching.block_on(async { within("a release", guard.release()).await });
    assert_eq!(report.unwrap_err().failures().len(), 2, "nobody is left to release them");
    watching.block_on(contenders_are(&arena, [0, 0]));
}
