//! Trying: it waits for nobody.

use tokio::runtime::Runtime;
use zookeeper_recipes::zookeeper_client::{Acls, Client, CreateMode};
use zookeeper_recipes::{Attempt, Curator, Guards, InterProcessSemaphore};

use super::leases::Waiting;
use super::mutex_dropped::{Polled, poll_times};
use crate::harness::{Arena, LONG, Message, Operation, acquired, eventually, within};

fn tries(semaphore: &InterProcessSemaphore, count: usize) -> Waiting<Attempt<Guards>> {
    let semaphore = semaphore.clone();
    Waiting::new(async move { semaphore.try_acquire_many(count).await })
}

/// A node of somebody else's in a folder, as Curator makes it.
async fn stranger(arena: &Arena, folder: &str, kind: &str) -> String {
    let prefix = arena.below(folder, &format!("_c_1b4e28ba-2fa1-41d2-883f-0016d3cca427-{kind}-"));
    arena.node(&prefix, &[], CreateMode::EphemeralSequential, &Acls::anyone_all()).await
}

/// As Curator's: a lease may be free a moment later. However many a try asks for, it goes by what it sees itself.
#[tokio::test(start_paused = true)]
async fn it_does_not_wait_for_one_who_passes_through() {
    let (arena, curator) = Arena::with_curator().await;
    let semaphore = arena.semaphore(&curator, 4);
    within("once", semaphore.acquire()).await.unwrap().release().await.unwrap();
    // Somebody is about to take a lease: three are left, or two.
    let lock = stranger(&arena, "locks", "lock").await;
    let lease = stranger(&arena, "leases", "lease").await;
    for _ in 0..5 {
        // A greater count is refused by the leases, a smaller one by the lock.
        for trying in [1, 3, 4].map(|count| tries(&semaphore, count)) {
            assert!(matches!(trying.served().await, Attempt::Busy));
        }
    }
    arena.nodes_are(1, 1).await;
    arena.remove(&lock).await;
    let ours = within("three", semaphore.try_acquire_many(3)).await.unwrap();
    assert_eq!(acquired(ours).expect("three are free").iter().count(), 3);
    arena.remove(&lease).await;
}

/// Of one semaphore and its clones.
#[tokio::test(start_paused = true)]
async fn a_try_that_is_not_polled_any_more_does_not_stop_another() {
    let (arena, curator) = Arena::with_curator().await;
    let semaphore = arena.semaphore(&curator, 2);
    for passing in [false, true] {
        for polls in 0.. {
            let lock = if passing { Some(stranger(&arena, "locks", "lock").await) } else { None };
            let mut kept = Box::pin(semaphore.try_acquire());
            let done = !matches!(poll_times(polls, &mut kept).await, Polled::Dropped);
            if let Some(lock) = lock {
                assert!(matches!(tries(&semaphore, 1).served().await, Attempt::Busy));
                arena.delete(&[lock]).await;
            }
            let taken = async || acquired(tries(&semaphore, 1).served().await).is_some();
            eventually("the other lease", taken).await;
            drop(kept);
            arena.nodes_are(0, 0).await;
            if done {
                break;
            }
            assert!(polls < 50, "it never finishes");
        }
    }
}

mod real {
    use super::*;

    /// Its future reads the leases itself, without a task, so it may run on another runtime than the client does.
    #[test]
    fn a_client_whose_runtime_has_ended_is_an_error_and_no_panic() {
        // It polls what is woken, and then ends.
        let of_caller = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (of_client, of_curator) = (Runtime::new().unwrap(), Runtime::new().unwrap());
        let (_arena, _link, _held, trying) = of_caller.block_on(async {
            let arena = Arena::real().await;
            let link = arena.link().await;
            let connect_string = link.connect_string().to_owned();
            let connecting = async move { Client::connect(&connect_string).await };
            let client = of_client.spawn(connecting).await.unwrap().unwrap();
            let starting = async { Curator::builder().from_client(client) };
            let curator = of_curator.spawn(starting).await.unwrap().unwrap();
            let semaphore = curator.semaphore(&arena.path, 2).unwrap();
            within("once", semaphore.acquire()).await.unwrap().release().await.unwrap();
            let held = link.hold(Message::reply(Operation::List));
            let trying = tokio::spawn(async move { semaphore.try_acquire().await });
            within("the listing of the leases", held.struck()).await;
            (arena, link, held, trying)
        });
        of_client.shutdown_timeout(LONG);
        of_caller.block_on(async {
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
        });
        of_curator.shutdown_timeout(LONG);
        of_caller.block_on(async {
            let tried = within("an answer", trying).await;
            tried.expect("no panic").expect_err("no server can be asked any more");
        });
    }
}
