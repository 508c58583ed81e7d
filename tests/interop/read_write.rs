//! The read-write lock, and its down-grade.

use std::sync::Arc;

use crate::lock::acquired;
use crate::matrix::{BREAKS, DOWNGRADES, READS, shown};
use crate::pair::{LONGEST_HOLD, Side, Stage, TIME};
use crate::peer::Peer;
use crate::peers;
use crate::rules::{Mode, Rule, judge};

/// All of them at one path, each with a session of its own.
async fn together(one: &Arc<Peer>, other: &Arc<Peer>) -> String {
    let stage = Stage::new().await;
    let mut sides = Vec::new();
    for peer in [one, other] {
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
    let writer = stage.lock(other, "write").await;
    let reader = stage.lock(other, "read").await;
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

/// Down-grades of the one, and whoever writes and reads of the other.
async fn downgrades_at_random(one: &Arc<Peer>, other: &Arc<Peer>) -> String {
    let stage = Stage::new().await;
    let (write, read) = stage.party(one).await.halves(stage.path()).await;
    let writer = stage.lock(other, "write").await;
    let reader = stage.lock(other, "read").await;
    let (downgraded, wrote, reads) = tokio::join!(
        write.downgrades(&read, TIME, LONGEST_HOLD),
        writer.holds(Mode::Write, TIME, LONGEST_HOLD),
        reader.holds(Mode::Read, TIME, LONGEST_HOLD),
    );
    stage.nodes_are(0).await;
    let counts = [downgraded.len() / 2, wrote.len(), reads.len()];
    let counts = counts.map(|count| count.to_string()).join(" + ");
    assert_eq!(judge(Rule::ReadersTogether, &[downgraded, wrote, reads]), [], "of {counts}");
    counts
}

/// Curator 5.4 puts the read node at the tail, behind the writer that waits.
async fn lets_a_writer_in(curator: &Arc<Peer>, other: &Arc<Peer>) {
    let stage = Stage::new().await;
    let (write, read) = stage.party(curator).await.halves(stage.path()).await;
    let writer = stage.lock(other, "write").await;
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
async fn ours_and_curators() {
    let Some(curator) = peers::curator() else { return };
    let holds = together(&peers::ours(), &curator).await;
    shown(("read-write lock", "ours, Curator", READS), holds);
}

#[tokio::test]
async fn ours_and_kazoos_subclasses() {
    let Some(kazoo) = peers::kazoo() else { return };
    let holds = together(&peers::ours(), &kazoo).await;
    shown(("read-write lock", "ours, kazoo's subclasses", READS), holds);
}

#[tokio::test]
async fn all_three_at_random() {
    let (Some(curator), Some(kazoo)) = (peers::curator(), peers::kazoo()) else { return };
    let stage = Stage::new().await;
    let mut sides = Vec::new();
    for peer in [peers::ours(), curator, kazoo] {
        sides.push(Side::alone(stage.lock(&peer, "write").await));
        sides.push(Side::reader(stage.lock(&peer, "read").await));
    }
    let holds = stage.in_peace(Rule::ReadersTogether, &sides).await;
    shown(("read-write lock", "ours, Curator and kazoo's subclasses", READS), holds);
}

#[tokio::test]
async fn ours_down_grades_beside_curators() {
    let Some(curator) = peers::curator() else { return };
    downgrades(&peers::ours(), &curator).await;
    let holds = downgrades_at_random(&peers::ours(), &curator).await;
    shown(("read-write lock", "ours down-grades, Curator", DOWNGRADES), holds);
}

#[tokio::test]
async fn ours_down_grades_beside_kazoos_subclasses() {
    let Some(kazoo) = peers::kazoo() else { return };
    downgrades(&peers::ours(), &kazoo).await;
    let holds = downgrades_at_random(&peers::ours(), &kazoo).await;
    shown(("read-write lock", "ours down-grades, kazoo's subclasses", DOWNGRADES), holds);
}

#[tokio::test]
async fn curators_down_grade_lets_a_writer_in_that_waits() {
    let Some(curator) = peers::curator() else { return };
    lets_a_writer_in(&curator, &peers::ours()).await;
    shown(("read-write lock", "Curator down-grades, our writer waits", BREAKS), "");
    // It is Curator's own affair.
    lets_a_writer_in(&curator, &curator).await;
    shown(("read-write lock", "Curator down-grades, Curator's writer waits", BREAKS), "");
}

/// With nobody who waits its read node at the tail is good enough.
#[tokio::test]
async fn curators_down_grade_keeps_out_who_comes_later() {
    let Some(curator) = peers::curator() else { return };
    let stage = Stage::new().await;
    let (write, read) = stage.party(&curator).await.halves(stage.path()).await;
    let writer = stage.lock(&peers::ours(), "write").await;
    let reader = stage.lock(&peers::ours(), "read").await;
    write.acquire().await;
    read.acquire().await;
    stage.keeps_out_while(&reader).await;
    write.release().await;
    stage.lets_in_beside(&read, &reader).await;
    stage.keeps_out_until(&writer, async || read.release().await).await;
    writer.release().await;
    stage.nodes_are(0).await;
    shown(("read-write lock", "Curator down-grades, ours comes later", DOWNGRADES), "");
}
