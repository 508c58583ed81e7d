//! A future or a guard that is dropped anywhere, or kept and not polled any more, leaves no node, and the next waiter
//! is served (invariant 3).

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use zookeeper_recipes::{
    AcquireError, Curator, InterProcessMutex, MutexGuard, ReleaseError, Released,
};
use zookeeper_testkit::{Message, Operation};

use crate::harness::{Arena, LONG, session_of, within};

/// How a future ended that was to be polled a number of times.
pub(crate) enum Polled<T> {
    Finished(T),
    /// Dropped right after its last poll.
    Dropped,
    /// Dropped after fewer polls: it waits for somebody else, and nothing wakes it.
    Quiet,
}

/// Polls `future` so many times, waiting for its wake-ups in between, then drops it.
pub(crate) async fn poll_times<F: Future>(times: usize, future: F) -> Polled<F::Output> {
    let mut future = pin!(future);
    let mut polled = 0;
    let polling = poll_fn(|context| {
        if polled == times {
            return Poll::Ready(Polled::Dropped);
        }
        polled += 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Polled::Finished(output)),
            Poll::Pending if polled == times => Poll::Ready(Polled::Dropped),
            Poll::Pending => Poll::Pending,
        }
    });
    tokio::time::timeout(Duration::from_secs(1), polling).await.unwrap_or(Polled::Quiet)
}

/// Drops what `operation` makes after 0, 1, 2, … polls until it finishes; after each the lock is free
/// for the next as soon as nobody holds it.
async fn dropped_at_every_poll<F>(
    busy: bool,
    operation: impl Fn(zookeeper_recipes::InterProcessMutex) -> F,
) where
    F: Future<Output = Result<Option<MutexGuard>, AcquireError>>,
{
    let arena = Arena::new().await;
    let (curator, other) = (arena.curator().await, arena.curator().await);
    let rival = arena.mutex(&other);
    for polls in 0.. {
        let holder = if busy { Some(rival.acquire().await.unwrap()) } else { None };
        let finished = poll_times(polls, operation(arena.mutex(&curator))).await;
        let done = !matches!(finished, Polled::Dropped);
        if let Polled::Finished(Err(error)) = &finished {
            panic!("{error:?}");
        }
        drop(finished);
        arena.children_are(usize::from(busy)).await;
        if let Some(holder) = holder {
            assert!(holder.is_held());
            holder.release().await.unwrap();
        }
        let next = within("the next", rival.acquire()).await.unwrap();
        assert_eq!(arena.children().await.len(), 1, "after {polls} polls");
        next.release().await.unwrap();
        if done {
            assert!(polls > 0, "it was dropped at least before its first poll");
            break;
        }
        assert!(polls < 50, "it never finishes");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn acquire_of_a_free_lock() {
    dropped_at_every_poll(false, |mutex| async move { mutex.acquire().await.map(Some) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acquire_of_a_busy_lock() {
    dropped_at_every_poll(true, |mutex| async move { mutex.acquire().await.map(Some) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acquire_timeout() {
    dropped_at_every_poll(false, |mutex| async move { mutex.acquire_timeout(LONG).await }).await;
    let limit = Duration::from_millis(200);
    dropped_at_every_poll(true, |mutex| async move {
        match mutex.acquire_timeout(limit).await {
            // On a busy machine the time may be up before anybody answered.
            Err(AcquireError::TimedOut { .. }) => Ok(None),
            acquired => acquired,
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn try_acquire() {
    dropped_at_every_poll(false, |mutex| async move { mutex.try_acquire().await }).await;
    dropped_at_every_poll(true, |mutex| async move { mutex.try_acquire().await }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn with() {
    dropped_at_every_poll(false, |mutex| async move {
        let body = async |hold: &MutexGuard| {
            tokio::task::yield_now().await;
            assert!(hold.is_held());
        };
        mutex.with(body).await.unwrap();
        Ok(None)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn release_dropped_at_every_poll_releases() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    for polls in 0..50 {
        let guard = arena.mutex(&curator).acquire().await.unwrap();
        let released = poll_times(polls, guard.release()).await;
        arena.children_are(0).await;
        if let Polled::Finished(released) = released {
            released.unwrap();
            return;
        }
    }
    panic!("a release never finishes");
}

type Releasing = Pin<Box<dyn Future<Output = Result<Released, ReleaseError>>>>;

/// A release that was polled once, and the node that it is of.
async fn begun(mutex: &InterProcessMutex) -> (Releasing, String) {
    loop {
        let guard = mutex.acquire().await.unwrap();
        let node = guard.node().to_owned();
        let mut releasing: Releasing = Box::pin(guard.release());
        match futures_util::poll!(releasing.as_mut()) {
            Poll::Pending => return (releasing, node),
            // The answer came while this thread had no processor.
            Poll::Ready(released) => drop(released.unwrap()),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_is_not_polled_any_more_goes_on() {
    let arena = Arena::new().await;
    let (link, curator) = arena.linked(arena.short_lived_builder()).await;
    let rival = arena.curator().await;
    let session = session_of(&curator).id();
    for message in [Message::request, Message::reply] {
        let lost = link.lose(message(Operation::Delete));
        let (releasing, _) = begun(&arena.mutex(&curator)).await;
        within("the loss", lost.struck()).await;
        let next = within("the next", arena.mutex(&rival).acquire()).await.unwrap();
        // It was deleted, and did not go with its session.
        assert_eq!(session_of(&curator).id(), session);
        next.release().await.unwrap();
        assert_eq!(within("the answer", releasing).await.unwrap(), Released::Unlocked);
    }
    arena.children_are(0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_is_not_polled_any_more_does_not_keep_close() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    let (releasing, node) = begun(&arena.mutex(&curator)).await;
    within("the end", curator.close()).await.unwrap();
    assert!(arena.stat(&node).await.is_none());
    assert_eq!(within("the answer", releasing).await.unwrap(), Released::Unlocked);
}

/// Its node does not go with the session, which is somebody else's.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_is_not_polled_any_more_is_done_before_close() {
    let arena = Arena::new().await;
    let (link, client) = arena.linked_client().await;
    let curator = Curator::from_client(client.clone()).unwrap();
    let lost = link.lose(Message::request(Operation::Delete));
    let (releasing, node) = begun(&arena.mutex(&curator)).await;
    within("the loss", lost.struck()).await;
    within("the end", curator.close()).await.unwrap();
    assert!(arena.stat(&node).await.is_none());
    assert!(client.check_stat("/").await.unwrap().is_some(), "the session goes on");
    assert_eq!(within("the answer", releasing).await.unwrap(), Released::Unlocked);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_goes_lets_the_one_behind_it_move_up() {
    let arena = Arena::new().await;
    let curators = [arena.curator().await, arena.curator().await, arena.curator().await];
    let holder = arena.mutex(&curators[0]).acquire().await.unwrap();
    let spawn = |curator| {
        let mutex = arena.mutex(curator);
        tokio::spawn(async move { mutex.acquire().await })
    };
    let goes = spawn(&curators[1]);
    arena.children_are(2).await;
    let stays = spawn(&curators[2]);
    arena.children_are(3).await;
    goes.abort();
    arena.children_are(2).await;
    holder.release().await.unwrap();
    within("the one behind", stays).await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_dropped_on_a_plain_thread_releases() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    let guard = arena.mutex(&curator).acquire().await.unwrap();
    std::thread::spawn(move || drop(guard)).join().unwrap();
    arena.children_are(0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_dropped_by_a_panic_releases() {
    let arena = Arena::new().await;
    let curator = arena.curator().await;
    let guard = arena.mutex(&curator).acquire().await.unwrap();
    let panicked = tokio::spawn(async move {
        let _guard = guard;
        panic!("as the test wants");
    });
    assert!(panicked.await.unwrap_err().is_panic());
    arena.children_are(0).await;
    // On a plain thread, while it unwinds.
    let guard = arena.mutex(&curator).acquire().await.unwrap();
    let panicked = std::thread::spawn(move || {
        let _guard = guard;
        panic!("as the test wants");
    });
    assert!(panicked.join().is_err());
    arena.children_are(0).await;
}

#[test]
fn a_guard_that_outlives_its_runtime_neither_panics_nor_blocks() {
    let watching = tokio::runtime::Runtime::new().unwrap();
    let arena = watching.block_on(Arena::new());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (guard, waiting) = runtime.block_on(async {
        let curator = arena.short_lived_curator().await;
        let mutex = arena.mutex(&curator);
        let guard = mutex.acquire().await.unwrap();
        let waiting = tokio::spawn({
            let mutex = mutex.clone();
            async move { mutex.acquire().await }
        });
        arena.children_are(2).await;
        (guard, waiting)
    });
    drop(waiting);
    runtime.shutdown_timeout(Duration::from_secs(10));
    // Nobody renews the lease any more.
    let lost = watching.block_on(async { within("the loss", guard.lost()).await });
    assert_eq!(lost, zookeeper_recipes::Loss::Closed);
    assert!(guard.cancellation_token().is_cancelled());
    drop(guard.reenter());
    let report = watching.block_on(async { within("a release", guard.release()).await });
    assert!(report.is_err(), "nobody is left to release it: {report:?}");
    // The servers expire the session, which nobody keeps alive any more.
    watching.block_on(arena.children_are(0));
}

#[test]
fn guards_work_on_a_current_thread_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (arena, guard) = runtime.block_on(async {
        let arena = Arena::new().await;
        let curator = arena.curator().await;
        let guard = arena.mutex(&curator).acquire().await.unwrap();
        (arena, guard)
    });
    // Dropped while nothing runs: the node goes when the runtime runs again.
    drop(guard);
    runtime.block_on(arena.children_are(0));
}
