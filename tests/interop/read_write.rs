//! Readers beside writers, and the downgrade. That writers exclude each other is in `excludes`.

use crate::lock::acquired;
use crate::peers::{CURATOR, KAZOO, OURS, shared};
use crate::stage::{Stage, each};

const OTHERS: [&str; 2] = [CURATOR, KAZOO];

/// Each side's writer keeps out the other's reader, and the reverse; readers hold together.
#[tokio::test]
async fn readers_hold_together_and_a_writer_alone() {
    each(&OTHERS, async |whose| {
        let (Some(ours), Some(other)) = (shared(OURS), shared(whose)) else { return };
        let stage = Stage::of("write").await;
        let mut sides = Vec::new();
        for peer in [&ours, &other] {
            sides.push((stage.lock(peer, "write").await, stage.lock(peer, "read").await));
        }
        for (one, other) in [(0, 1), (1, 0)] {
            let ((one_writes, one_reads), (other_writes, other_reads)) =
                (&sides[one], &sides[other]);
            stage.keeps_out(one_writes, other_reads).await;
            stage.keeps_out(one_reads, other_writes).await;
            one_reads.acquire().await;
            stage.lets_in_beside(one_reads, other_reads).await;
            one_reads.release().await;
            stage.nodes_are(0).await;
        }
    })
    .await;
}

/// A write hold of ours becomes a read hold: the writer that waits goes on waiting, a reader gets in once nobody writes
/// before it.
#[tokio::test]
#[ignore = "make test-all"]
async fn ours_downgrades() {
    each(&OTHERS, async |whose| {
        let (Some(ours), Some(other)) = (shared(OURS), shared(whose)) else { return };
        let stage = Stage::of("write").await;
        let (write, read) = stage.party(&ours).await.halves(stage.path()).await;
        let writer = stage.lock(&other, "write").await;
        let reader = stage.lock(&other, "read").await;
        write.acquire().await;
        let writer_waits = writer.begin_acquire();
        stage.queues_behind(1).await;
        read.acquire().await;
        stage.nodes_are(3).await;
        write.release().await;
        // The writer looks again, and nothing shows that it has: a reader that came after it did, and waits.
        stage.keeps_out_while(&reader).await;
        assert!(!writer_waits.is_there(), "{} got in", writer.name);
        let left = read.release().await;
        let came = acquired(writer_waits).await.unwrap();
        assert!(left <= came, "{} got in {} ns before", writer.name, left - came);
        writer.release().await;
        stage.nodes_are(0).await;
        // With nobody waiting to write, readers get in beside it, and not before.
        write.acquire().await;
        read.acquire().await;
        stage.keeps_out_while(&reader).await;
        write.release().await;
        stage.lets_in_beside(&read, &reader).await;
        stage.keeps_out_until(&writer, async || read.release().await).await;
        writer.release().await;
        stage.nodes_are(0).await;
    })
    .await;
}
