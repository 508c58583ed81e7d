//! A release that is kept and not polled any more releases, and so does a guard that is dropped by a panic (invariant 3).
//! What is dropped at each poll, and on which thread: `conformance`.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use zookeeper_recipes::{Error, InterProcessMutex, Released};

use crate::harness::{Arena, Message, Operation, within};

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

type Releasing = Pin<Box<dyn Future<Output = Result<Released, Error>>>>;

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

#[tokio::test(start_paused = true)]
async fn a_release_that_is_not_polled_any_more_goes_on() {
    let (arena, link, curator) = Arena::with_link(Arena::short_lived_builder).await;
    let rival = arena.curator().await;
    let session = curator.session_id().unwrap();
    for message in [Message::request, Message::reply] {
        let lost = link.lose(message(Operation::Delete));
        let (releasing, _) = begun(&arena.mutex(&curator)).await;
        within("the loss", lost.struck()).await;
        let next = within("the next", arena.mutex(&rival).acquire()).await.unwrap();
        // It was deleted, and did not go with its session.
        assert_eq!(curator.session_id().unwrap(), session);
        next.release().await.unwrap();
        assert_eq!(within("the answer", releasing).await.unwrap(), Released::Confirmed);
    }
    arena.children_are(0).await;
}

#[tokio::test(start_paused = true)]
async fn a_release_that_is_not_polled_any_more_does_not_keep_close() {
    let (arena, curator) = Arena::with_curator().await;
    let (releasing, node) = begun(&arena.mutex(&curator)).await;
    within("the end", curator.close()).await;
    assert!(arena.stat(&node).await.is_none());
    assert_eq!(within("the answer", releasing).await.unwrap(), Released::Confirmed);
}

mod real {
    use super::*;
    use zookeeper_recipes::Curator;

    /// Its node does not go with the session, which is somebody else's.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_release_that_is_not_polled_any_more_is_done_before_close() {
        let arena = Arena::real().await;
        let (link, client) = arena.linked_client().await;
        let curator = Curator::builder().from_client(client.clone()).unwrap();
        let lost = link.lose(Message::request(Operation::Delete));
        let (releasing, node) = begun(&arena.mutex(&curator)).await;
        within("the loss", lost.struck()).await;
        within("the end", curator.close()).await;
        assert!(arena.stat(&node).await.is_none());
        assert!(client.check_stat("/").await.unwrap().is_some(), "the session goes on");
        assert_eq!(within("the answer", releasing).await.unwrap(), Released::Confirmed);
    }
}
