//! Which sets of two or three keep each other out at one path, and beside which recipes ours is refused.

use crate::pair::{Side, Stage};
use crate::peers::{CURATOR, KAZOO, OURS, curator, kazoo, ours, shared};
use crate::rows::{EXCLUDES, READS, REFUSED, shown};
use crate::rules::Rule;

/// Nothing where an implementation is missing; else how often each held.
async fn exclude(kinds: &[(&str, &str)]) -> Option<String> {
    let stage = Stage::of(kinds[0].1).await;
    let mut sides = Vec::new();
    for (whose, kind) in kinds {
        sides.push(Side::alone(stage.lock(&shared(whose)?, kind).await));
    }
    match sides.iter().map(|side| &side.lock).collect::<Vec<_>>()[..] {
        [one, other] => {
            stage.keeps_out(one, other).await;
            stage.keeps_out(other, one).await;
        }
        // Two safe pairs do not make a safe three. First come, first served: each waits for the one before it.
        [one, middle, other] => {
            for [first, last] in [[one, other], [other, one]] {
                first.acquire().await;
                let middle_waits = middle.begin_acquire();
                stage.queues_behind(1).await;
                let last_waits = last.begin_acquire();
                stage.queues_behind(2).await;
                assert!(!middle_waits.is_there());
                first.release().await;
                middle_waits.await;
                assert!(!last_waits.is_there());
                middle.release().await;
                last_waits.await;
                last.release().await;
                stage.nodes_are(0).await;
            }
        }
        _ => unreachable!("two or three"),
    }
    Some(stage.in_peace(Rule::ReadersTogether, &sides).await)
}

/// A test for each set: its row, and whose locks of which kind they are.
macro_rules! excludes {
    ($level:meta => $($name:ident: $recipe:literal, $who:literal, [$($kind:expr),+];)+) => {$(
        #[$level]
        #[tokio::test]
        async fn $name() {
            if let Some(holds) = exclude(&[$($kind),+]).await {
                shown($recipe, $who, EXCLUDES, &holds);
            }
        }
    )+};
}

excludes! { doc = "Of `make test`, too." =>
    mutex: "mutex", "ours, Curator", [(OURS, "mutex"), (CURATOR, "mutex")];
    mutex_and_kazoos_subclass: "mutex", "ours, kazoo's subclass", [(OURS, "mutex"), (KAZOO, "mutex")];
    latch: "leader latch", "ours, Curator", [(OURS, "latch"), (CURATOR, "latch")];
    selector: "leader selector", "ours, Curator", [(OURS, "selector"), (CURATOR, "selector")];
}

excludes! { ignore = "make test-all" =>
    mutex_of_all_three: "mutex", "ours, Curator and kazoo's subclass",
        [(OURS, "mutex"), (CURATOR, "mutex"), (KAZOO, "mutex")];
    mutex_and_curators_selector: "mutex", "ours, Curator's `LeaderSelector`",
        [(OURS, "mutex"), (CURATOR, "selector")];
    mutex_by_kazoos_names: "mutex", "ours `Kazoo`, kazoo as it is", [(OURS, "kazoo"), (KAZOO, "stock")];
    mutex_inclusive: "mutex", "ours `Inclusive`, kazoo with a pattern",
        [(OURS, "inclusive"), (KAZOO, "plus")];
    mutex_inclusive_of_all_three: "mutex",
        "ours `Inclusive`, Curator with a driver, kazoo with a pattern",
        [(OURS, "inclusive"), (CURATOR, "driver"), (KAZOO, "plus")];
    semaphore_mutex: "semaphore mutex", "ours, Curator",
        [(OURS, "semaphore-mutex"), (CURATOR, "semaphore-mutex")];
    three_latches: "leader latch", "two of ours, one of Curator's",
        [(OURS, "latch"), (CURATOR, "latch"), (OURS, "latch")];
    selector_and_curators_mutex: "leader selector, mutex", "our selector, Curator's mutex",
        [(OURS, "selector"), (CURATOR, "mutex")];
    selector_of_all_three: "leader selector", "ours, Curator, kazoo's `Election` with the subclass",
        [(OURS, "selector"), (CURATOR, "selector"), (KAZOO, "election")];
    selector_by_kazoos_names: "leader selector", "ours `Kazoo`, kazoo's `Election`",
        [(OURS, "selector-kazoo"), (KAZOO, "stock-election")];
    selector_inclusive: "leader selector", "ours `Inclusive`, kazoo's `Election` with a pattern",
        [(OURS, "selector-inclusive"), (KAZOO, "plus-election")];
}

/// kazoo's read lock waits for its write locks, and ours is as one.
#[tokio::test]
#[ignore = "make test-all"]
async fn mutex_by_kazoos_names_and_its_read_write_lock() {
    let Some(kazoo) = kazoo() else { return };
    let stage = Stage::new().await;
    let ours = stage.lock(&ours(), "kazoo").await;
    let write = stage.lock(&kazoo, "stock-write").await;
    let read = stage.lock(&kazoo, "stock-read").await;
    let other_read = stage.lock(&kazoo, "stock-read").await;
    for theirs in [&write, &read] {
        stage.keeps_out(&ours, theirs).await;
        stage.keeps_out(theirs, &ours).await;
    }
    stage.lets_in(&read, &other_read).await;
    let sides =
        [Side::alone(ours), Side::alone(write), Side::reader(read), Side::reader(other_read)];
    let holds = stage.in_peace(Rule::ReadersTogether, &sides).await;
    shown("mutex", "ours `Kazoo`, kazoo's `ReadLock` and `WriteLock`", READS, &holds);
}

/// Names of two recipes on one path do not keep each other out.
#[tokio::test]
#[ignore = "make test-all"]
async fn ours_is_refused_beside_curators_other_recipe() {
    let Some(curator) = curator() else { return };
    for (theirs, ours_kind) in [
        ("write", "mutex"),
        ("read", "mutex"),
        ("mutex", "write"),
        ("mutex", "read"),
        ("mutex", "latch"),
        ("selector", "latch"),
        ("write", "latch"),
        ("latch", "mutex"),
        ("latch", "selector"),
        ("latch", "write"),
    ] {
        let stage = Stage::new().await;
        let theirs = stage.lock(&curator, theirs).await;
        let ours = stage.lock(&ours(), ours_kind).await;
        theirs.acquire().await;
        stage.refuses(&ours).await;
        if ours_kind == "latch" {
            let error = ours.begin_acquire().error().await;
            assert!(error.starts_with("Ended(OtherRecipe"), "{error}");
        }
        theirs.release().await;
        stage.nodes_are(0).await;
    }
    let who = "ours of the one, Curator's of the other";
    shown("mutex, read-write lock", who, REFUSED, "");
    shown("leader latch, any other", who, REFUSED, "");
}

/// Whoever of kazoo's comes later is not seen, and sees nobody.
#[tokio::test]
#[ignore = "make test-all"]
async fn ours_is_refused_beside_kazoo_as_it_is() {
    let Some(kazoo) = kazoo() else { return };
    for (recipe, who, ours_kind, theirs) in [
        ("mutex", "ours, kazoo as it is", "mutex", "stock"),
        ("leader selector", "ours, kazoo's `Election`", "selector", "stock-election"),
    ] {
        let stage = Stage::new().await;
        let ours = stage.lock(&ours(), ours_kind).await;
        let theirs = stage.lock(&kazoo, theirs).await;
        theirs.acquire().await;
        stage.refuses(&ours).await;
        theirs.release().await;
        stage.lets_in(&ours, &theirs).await;
        shown(recipe, who, "ours is refused, **kazoo is let in**", "");
    }
}

/// The pattern is half of it: kazoo sees our names, and we do not count its.
#[tokio::test]
#[ignore = "make test-all"]
async fn ours_is_refused_beside_kazoo_with_a_pattern() {
    let Some(kazoo) = kazoo() else { return };
    let stage = Stage::new().await;
    let ours = stage.lock(&ours(), "mutex").await;
    let plus = stage.lock(&kazoo, "plus").await;
    stage.keeps_out(&ours, &plus).await;
    plus.acquire().await;
    stage.refuses(&ours).await;
    plus.release().await;
    stage.nodes_are(0).await;
    shown("mutex", "ours, kazoo with a pattern", "kazoo waits, ours is refused", "");
}
