//! What goes over the wire, request by request, with each rule and without it.

use tokio::task::JoinSet;
use zookeeper_recipes::{InterProcessMultiLock, InterProcessMutex, Shortcuts};
use zookeeper_testkit::Operation::{Create, Delete, GetData, List};

use super::link::{Linked, held, settle};
use crate::harness::{Arena, within};

const ALL: Shortcuts = Shortcuts::ALL;

#[tokio::test(flavor = "multi_thread")]
async fn the_first_acquire_learns_what_the_next_needs() {
    for (rules, first, again) in [
        (ALL, &[Create, GetData, List][..], &[Create][..]),
        (Shortcuts { gap: false, ..ALL }, &[Create, List], &[Create, List]),
        (Shortcuts::NONE, &[Create, List], &[Create, List]),
    ] {
        let arena = Arena::with_parent().await;
        let linked = Linked::new(&arena, rules).await;
        let mutex = arena.mutex(&linked.curator);
        linked.proxy.clear_log();
        let guard = mutex.acquire().await.unwrap();
        assert_eq!(linked.took(), first, "{rules:?}");
        guard.release().await.unwrap();
        assert_eq!(linked.took(), [Delete], "{rules:?}");
        for _ in 0..3 {
            let guard = mutex.acquire().await.unwrap();
            assert_eq!(linked.took(), again, "{rules:?}");
            guard.release().await.unwrap();
            assert_eq!(linked.took(), [Delete], "{rules:?}");
        }
    }
}

/// The lock path is missing, and so are further levels above it.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_acquire_of_a_missing_path_makes_it_and_tries_again() {
    for (levels, made) in [("one", 1), ("two/levels", 3), ("as/many/as/four", 7)] {
        let arena = Arena::with_parent().await;
        let linked = Linked::new(&arena, ALL).await;
        let path = format!("{}/{levels}", arena.path);
        let mutex = InterProcessMutex::new(&linked.curator, &path).unwrap();
        linked.proxy.clear_log();
        let guard = mutex.acquire().await.unwrap();
        let first = [Create, GetData, List];
        assert_eq!(linked.took(), [&first[..], &vec![Create; made][..], &first[..]].concat());
        guard.release().await.unwrap();
    }
}

/// Also of a waiter that had to wait: what its listings told is enough.
#[tokio::test(flavor = "multi_thread")]
async fn a_hand_over_takes_no_request_of_the_next_one() {
    for (head, listed) in [(true, &[][..]), (false, &[List][..])] {
        let arena = Arena::with_parent().await;
        let rules = Shortcuts { head, ..ALL };
        let (first, second) = (Linked::new(&arena, rules).await, Linked::new(&arena, rules).await);
        let holder = arena.mutex(&first.curator).acquire().await.unwrap();
        // The parent, the own node, and the holder's.
        let next = second.waits(&arena, 3).await;
        assert_eq!(second.took(), [Create, GetData, List, GetData, GetData]);
        first.proxy.clear_log();
        holder.release().await.unwrap();
        let next = held(next).await;
        assert_eq!(second.took(), listed, "head: {head}");
        assert_eq!(first.took(), [Delete]);
        next.release().await.unwrap();
        assert_eq!(second.took(), [Delete]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_third_lists_while_the_second_holds() {
    for (stand_by, early, late) in [(true, &[List][..], &[][..]), (false, &[][..], &[List][..])] {
        let arena = Arena::with_parent().await;
        let rules = Shortcuts { stand_by, ..ALL };
        let (first, second) = (Linked::new(&arena, rules).await, Linked::new(&arena, rules).await);
        let third = Linked::new(&arena, rules).await;
        let holder = arena.mutex(&first.curator).acquire().await.unwrap();
        let next = second.waits(&arena, 3).await;
        let last = third.waits(&arena, if stand_by { 4 } else { 3 }).await;
        third.proxy.clear_log();
        holder.release().await.unwrap();
        let next = held(next).await;
        third.round_trip().await;
        settle().await;
        third.round_trip().await;
        settle().await;
        assert_eq!(third.took(), early, "stand-by: {stand_by}");
        next.release().await.unwrap();
        let last = held(last).await;
        assert_eq!(third.took(), late, "stand-by: {stand_by}");
        last.release().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_lock_costs_one_read_and_no_write() {
    for (look_first, busy, free) in
        [(true, &[List][..], &[List, Create][..]), (false, &[Create, List, Delete], &[Create])]
    {
        let arena = Arena::with_parent().await;
        let rules = Shortcuts { look_first, ..ALL };
        let (first, second) =
            (Linked::new(&arena, rules).await, Linked::knowing(&arena, rules).await);
        let mutex = arena.mutex(&second.curator);
        let holder = arena.mutex(&first.curator).acquire().await.unwrap();
        assert!(mutex.try_acquire().await.unwrap().is_none());
        assert_eq!(second.took(), busy, "look first: {look_first}");
        holder.release().await.unwrap();
        mutex.acquire().await.unwrap().release().await.unwrap();
        second.took();
        let guard = mutex.try_acquire().await.unwrap().unwrap();
        assert_eq!(second.took(), free, "look first: {look_first}");
        guard.release().await.unwrap();
        assert_eq!(second.took(), [Delete]);
    }
}

/// So many tasks of one client.
const TASKS: usize = 16;
const CYCLES: usize = 8;

/// Each of them acquires and releases some times; the nodes of their holds, in the order in which they held.
async fn contend(arena: &Arena, mutex: &InterProcessMutex) -> Vec<(i64, String)> {
    let (holds, mut held) = tokio::sync::mpsc::unbounded_channel();
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let (mutex, holds) = (mutex.clone(), holds.clone());
        tasks.spawn(async move {
            for _ in 0..CYCLES {
                let guard = mutex.acquire().await.unwrap();
                holds.send((guard.fencing_token().value(), guard.node().to_owned())).unwrap();
                assert!(guard.is_held());
                guard.release().await.unwrap();
            }
        });
    }
    within("all of them", tasks.join_all()).await;
    drop(holds);
    let mut nodes = Vec::new();
    while let Some(node) = held.recv().await {
        nodes.push(node);
    }
    arena.children_are(0).await;
    nodes
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_one_client_cost_one_create_and_one_delete_each() {
    for (local, gap) in [(true, true), (true, false), (false, true)] {
        let arena = Arena::with_parent().await;
        let linked = Linked::knowing(&arena, Shortcuts { local, gap, ..ALL }).await;
        let nodes = contend(&arena, &arena.mutex(&linked.curator)).await;
        let mut names: Vec<_> = nodes.iter().map(|(_, name)| name.clone()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), TASKS * CYCLES, "each hold has a node of its own");
        assert!(nodes.is_sorted_by(|(one, _), (next, _)| one < next), "first come, first served");
        let log = linked.took();
        let count = |operation| log.iter().filter(|one| **one == operation).count();
        assert_eq!(
            (count(Create), count(Delete)),
            (TASKS * CYCLES, TASKS * CYCLES),
            "local: {local}, gap: {gap}"
        );
        let others = log.len() - 2 * TASKS * CYCLES;
        match (local, gap) {
            (true, true) => assert_eq!(others, 0, "{log:?}"),
            // A listing can show a predecessor that has gone meanwhile.
            (true, false) => assert!(count(List) >= TASKS * CYCLES, "{log:?}"),
            // They watch one another.
            (false, _) => assert!(count(GetData) > TASKS * CYCLES, "{log:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_multi_lock_takes_what_its_members_take() {
    let arena = Arena::with_parent().await;
    let linked = Linked::new(&arena, ALL).await;
    let paths = ["a", "b", "c"].map(|name| format!("{}/{name}", arena.path));
    let all = InterProcessMultiLock::from_paths(&linked.curator, &paths).unwrap();
    all.acquire().await.unwrap().release().await.unwrap();
    linked.proxy.clear_log();
    let guard = all.acquire().await.unwrap();
    assert_eq!(linked.took(), [Create; 3]);
    guard.release().await.unwrap();
    assert_eq!(linked.took(), [Delete; 3]);
    // The third is busy: it is looked at, and the two before it go.
    let holder = InterProcessMutex::new(&linked.curator, &paths[2]).unwrap();
    let holder = holder.acquire().await.unwrap();
    linked.proxy.clear_log();
    assert!(all.try_acquire().await.unwrap().is_none());
    assert_eq!(linked.took(), [List, Create, List, Create, List, Delete, Delete]);
    holder.release().await.unwrap();
}
