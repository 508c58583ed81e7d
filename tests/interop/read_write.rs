//! Readers beside writers, and the downgrade. That writers exclude each other is in `mutual_exclusion`.

use crate::support::commands::acquired;
use crate::support::mixed_path::{MixedPath, each};
use crate::support::peers::{CURATOR, KAZOO, OURS, shared};

const OTHERS: [&str; 2] = [CURATOR, KAZOO];

/// Each side's writer keeps out the other's reader, and the reverse; readers hold together.
#[tokio::test]
async fn readers_hold_together_and_a_writer_alone() {
    each(&OTHERS, async |whose| {
        let (Some(ours), Some(other)) = (shared(OURS), shared(whose)) else { return };
        let mixed_path = MixedPath::of("write").await;
        let mut sides = Vec::new();
        for peer in [&ours, &other] {
            sides.push((mixed_path.lock(peer, "write").await, mixed_path.lock(peer, "read").await));
        }
        for (one, other) in [(0, 1), (1, 0)] {
            let ((one_writes, one_reads), (other_writes, other_reads)) =
                (&sides[one], &sides[other]);
            mixed_path.keeps_out(one_writes, other_reads).await;
            mixed_path.keeps_out(one_reads, other_writes).await;
            one_reads.acquire().await;
            mixed_path.lets_in_beside(one_reads, other_reads).await;
            one_reads.release().await;
            mixed_path.nodes_are(0).await;
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
        let mixed_path = MixedPath::of("write").await;
        let (write, read) = mixed_path.party(&ours).await.halves(mixed_path.path()).await;
        let writer = mixed_path.lock(&other, "write").await;
        let reader = mixed_path.lock(&other, "read").await;
        write.acquire().await;
        let writer_waits = writer.begin_acquire();
        mixed_path.queues_behind(1).await;
        read.acquire().await;
        mixed_path.nodes_are(3).await;
        write.release().await;
        // The writer looks again, and nothing shows that it has: a reader that came after it did, and waits.
        mixed_path.keeps_out_while(&reader).await;
        assert!(!writer_waits.is_there(), "{} got in", writer.name);
        let left = read.release().await;
        let came = acquired(writer_waits).await.unwrap();
        assert!(left <= came, "{} got in {} ns before", writer.name, left - came);
        writer.release().await;
        mixed_path.nodes_are(0).await;
        // With nobody waiting to write, readers get in beside it, and not before.
        write.acquire().await;
        read.acquire().await;
        mixed_path.keeps_out_while(&reader).await;
        write.release().await;
        mixed_path.lets_in_beside(&read, &reader).await;
        mixed_path.keeps_out_until(&writer, async || read.release().await).await;
        writer.release().await;
        mixed_path.nodes_are(0).await;
    })
    .await;
}
