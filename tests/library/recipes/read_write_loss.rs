//! How a read, a write, or a place in the queue is lost, and who learns of it.

use zookeeper_recipes::Loss;

use super::read_write_lock::{got_read, got_write, settled};
use crate::harness::{Arena, within};

#[tokio::test(start_paused = true)]
async fn a_writer_and_the_read_beside_it_are_lost_with_their_session() {
    let arena = Arena::new().await;
    let [curator, other, _] = arena.three_curators().await;
    let held = within("the writer", arena.read_write(&curator).write().acquire()).await.unwrap();
    let beside = within("a read beside it", held.read()).await.unwrap();
    let next = arena.writes(&other).await;
    arena.kill_session(&curator).await;
    let next = got_write(next).await;
    assert_eq!(within("the loss", held.lost()).await, Loss::SessionExpired);
    assert_eq!(within("the loss", beside.lost()).await, Loss::SessionExpired);
    assert!(next.fencing_token() > beside.fencing_token(), "invariant 4");
    drop((held, beside));
    next.release().await.unwrap();
    arena.children_are(0).await;
}

#[tokio::test(start_paused = true)]
async fn a_writer_whose_node_is_deleted_while_it_waits_lets_readers_pass() {
    let arena = Arena::new().await;
    let [curator, other, third] = arena.three_curators().await;
    let held = within("a reader", arena.read_write(&curator).read().acquire()).await.unwrap();
    let writer = arena.writes(&other).await;
    let reader = arena.reads(&third).await;
    let queue = arena.read_write(&curator).participants().await.unwrap();
    assert_eq!(queue.iter().map(|one| one.holds).collect::<Vec<_>>(), [true, false, false]);
    arena.admin.delete(&queue[1].path, None).await.unwrap();
    let reader = got_read(reader).await;
    // It is behind them now.
    arena.children_are(3).await;
    settled(&other).await;
    assert!(!writer.is_finished());
    held.release().await.unwrap();
    reader.release().await.unwrap();
    got_write(writer).await.release().await.unwrap();
    arena.children_are(0).await;
}

/// Of several readers only the last before a writer is watched by it; the others may go before and after.
#[tokio::test(start_paused = true)]
async fn a_writer_behind_readers_is_served_in_whatever_order_they_go() {
    let arena = Arena::new().await;
    let [curator, other, third] = arena.three_curators().await;
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let mut readers = Vec::new();
        for curator in [&curator, &other, &third] {
            let reader = arena.read_write(curator).read().acquire().await.unwrap();
            readers.push(Some(reader));
        }
        let writer = arena.writes(&third).await;
        for (gone, place) in order.into_iter().enumerate() {
            settled(&third).await;
            assert!(!writer.is_finished(), "after {gone} of {order:?}");
            readers[place].take().unwrap().release().await.unwrap();
        }
        got_write(writer).await.release().await.unwrap();
    }
    arena.children_are(0).await;
}
