//! The read-write lock, and its down-grade.

use std::sync::Arc;

use crate::lock::acquired;
use crate::pair::{LONGEST_HOLD, Side, Stage, TIME};
use crate::peer::Peer;
use crate::peers;
use crate::rows::{DOWNGRADES, READS, shown};
use crate::rules::{Mode, Rule, judge};

/// All of them at one path, each with a session of its own: in both roles, and at random.
async fn together(other: &Arc<Peer>, who: &str) {
    let stage = Stage::new().await;
    let mut sides = Vec::new();
    for peer in [&peers::ours(), other] {
        let write = stage.lock(peer, "write").await;
        let read = stage.lock(peer, "read").await;
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
    let holds = stage.in_peace(Rule::ReadersTogether, &sides).await;
    shown("read-write lock", who, READS, &holds);
}

#[tokio::test]
async fn ours_and_curators() {
    let Some(curator) = peers::curator() else { return };
    together(&curator, "ours, Curator").await;
}

#[tokio::test]
#[ignore = "make test-all"]
async fn ours_and_kazoos_subclasses() {
    let Some(kazoo) = peers::kazoo() else { return };
    together(&kazoo, "ours, kazoo's subclasses").await;
}

#[tokio::test]
#[ignore = "make test-all"]
async fn all_three_at_random() {
    let (Some(curator), Some(kazoo)) = (peers::curator(), peers::kazoo()) else { return };
    let stage = Stage::new().await;
    let mut sides = Vec::new();
    for peer in [peers::ours(), curator, kazoo] {
        sides.push(Side::alone(stage.lock(&peer, "write").await));
        sides.push(Side::reader(stage.lock(&peer, "read").await));
    }
    let holds = stage.in_peace(Rule::ReadersTogether, &sides).await;
    shown("read-write lock", "ours, Curator and kazoo's subclasses", READS, &holds);
}

/// A write hold of ours becomes a read hold: the writer that waits goes on waiting, a reader gets in once nobody writes
/// before it.
async fn downgrades(other: &Arc<Peer>) {
    let stage = Stage::new().await;
    let (write, read) = stage.party(&peers::ours()).await.halves(stage.path()).await;
    let writer = stage.lock(other, "write").await;
    let reader = stage.lock(other, "read").await;
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
}

/// Down-grades of ours, and whoever writes and reads of the other.
async fn downgrades_at_random(other: &Arc<Peer>) -> String {
    let stage = Stage::new().await;
    let (write, read) = stage.party(&peers::ours()).await.halves(stage.path()).await;
    let writer = stage.lock(other, "write").await;
    let reader = stage.lock(other, "read").await;
    let (downgraded, wrote, reads) = tokio::join!(
        write.downgrades(&read, TIME, LONGEST_HOLD),
        writer.holds(Mode::Write, TIME, LONGEST_HOLD),
        reader.holds(Mode::Read, TIME, LONGEST_HOLD),
    );
    stage.nodes_are(0).await;
    let counts = format!("{} + {} + {}", downgraded.len() / 2, wrote.len(), reads.len());
    assert_eq!(judge(Rule::ReadersTogether, &[downgraded, wrote, reads]), [], "of {counts}");
    counts
}

#[tokio::test]
#[ignore = "make test-all"]
async fn ours_down_grades() {
    for (other, who) in [
        (peers::curator(), "ours down-grades, Curator"),
        (peers::kazoo(), "ours down-grades, kazoo's subclasses"),
    ] {
        let Some(other) = other else { continue };
        downgrades(&other).await;
        shown("read-write lock", who, DOWNGRADES, &downgrades_at_random(&other).await);
    }
}
