//! The read-write lock, and its down-grade.

use std::sync::Arc;

use crate::harness::eventually;
use crate::lock::{Lock, acquired};
use crate::matrix::{BREAKS, DOWNGRADES, EXCLUDES, READS, shown};
use crate::pair::{Side, Stage};
use crate::peer::Peer;
use crate::peers;
use crate::rules::{Mode, Rule};

/// All of them at one path, each with a session of its own.
async fn together(one: &Arc<Peer>, other: &Arc<Peer>) -> String {
    let stage = Stage::new().await;
    let mut sides = Vec::new();
    for peer in [one, other] {
        let (write, read) = stage.party(peer).await.halves(stage.path()).await;
        // An owner that writes could read, so the reader is another.
        drop(read);
        let (_, read) = stage.party(peer).await.halves(stage.path()).await;
        sides.extend([Side::alone(write), Side::reader(read)]);
    }
    let [one_writes, one_reads, other_writes, other_reads] = [0, 1, 2, 3].map(|i| &sides[i].lock);
    stage.keeps_out(one_writes, other_writes).await;
    stage.keeps_out(other_writes, one_writes).await;
    stage.keeps_out(one_writes, other_reads).await;
    stage.keeps_out(other_writes, one_reads).await;
    stage.keeps_out(one_reads, other_writes).await;
    stage.keeps_out(other_reads, one_writes).await;
    stage.lets_in(one_reads, other_reads).await;
    stage.lets_in(other_reads, one_reads).await;
    stage.in_peace(Rule::ReadersTogether, &sides).await
}

#[tokio::test]
async fn curators_and_kazoos_subclasses() {
    let (Some(curator), Some(kazoo)) = (peers::curator(), peers::kazoo()) else { return };
    let holds = together(&curator, &kazoo).await;
    shown(("read-write lock", "Curator, kazoo's subclasses", READS), holds);
}

/// A write hold becomes a read hold: the writer that waits goes on waiting, a reader gets in once nobody writes before it.
async fn downgrades(holder: &Arc<Peer>, other: &Arc<Peer>) {
    let stage = Stage::new().await;
    let (write, read) = stage.party(holder).await.halves(stage.path()).await;
    let (writer, _) = stage.party(other).await.halves(stage.path()).await;
    let (_, reader) = stage.party(other).await.halves(stage.path()).await;
    write.acquire().await;
    let writer_waits = writer.begin_acquire();
    stage.queues_behind(1).await;
    read.acquire().await;
    stage.nodes_are(3).await;
    write.release().await;
    // The writer looks again, and nothing shows that it has: somebody who came after it did, and waits.
    stage.keeps_out_while(&reader).await;
    assert!(!writer_waits.is_there(), "{} got in", writer.name);
    let left = read.release().await;
    let came = acquired(writer_waits).await.unwrap();
    assert!(left <= came, "{} got in {} ns before", writer.name, left - came);
    writer.release().await;
    stage.nodes_are(0).await;
    // With nobody waiting to write, readers get in beside it.
    write.acquire().await;
    read.acquire().await;
    write.release().await;
    reader.acquire().await;
    assert!(read.is_held().await);
    reader.release().await;
    stage.keeps_out_until(&writer, async || read.release().await).await;
    writer.release().await;
    stage.nodes_are(0).await;
}

/// Curator 5.4 puts the read node at the tail, behind the writer that waits.
async fn lets_a_writer_in(curator: &Arc<Peer>, other: &Arc<Peer>) {
    let stage = Stage::new().await;
    let (write, read) = stage.party(curator).await.halves(stage.path()).await;
    let (writer, _) = stage.party(other).await.halves(stage.path()).await;
    write.acquire().await;
    let writer_waits = writer.begin_acquire();
    stage.queues_behind(1).await;
    read.acquire().await;
    write.release().await;
    assert!(acquired(writer_waits).await.is_some());
    assert!(read.is_held().await);
    read.release().await;
    writer.release().await;
    stage.nodes_are(0).await;
}

#[tokio::test]
async fn curators_among_themselves() {
    let Some(curator) = peers::curator() else { return };
    println!("{}", together(&curator, &curator).await);
    lets_a_writer_in(&curator, &curator).await;
}
