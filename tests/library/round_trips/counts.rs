//! What goes over the wire, request by request, with each rule and without it.

use crate::harness::Operation::{Create, Delete, GetData, List};
use tokio::task::JoinSet;
use zookeeper_recipes::{InterProcessMultiLock, InterProcessMutex, Shortcuts};

use super::link::Recipe::{Mutex, Read, Write};
use super::link::{Linked, linked};
use crate::harness::{Arena, within};

const ALL: Shortcuts = Shortcuts::ALL;

#[tokio::test(start_paused = true)]
async fn the_first_acquire_learns_what_the_next_needs() {
    for (rules, first, again) in [
        (ALL, &[Create, GetData, List][..], &[Create][..]),
        (Shortcuts { gap: false, ..ALL }, &[Create, List], &[Create, List]),
        (Shortcuts::NONE, &[Create, List], &[Create, List]),
    ] {
        for recipe in [Mutex, Read, Write] {
            let arena = Arena::with_parent().await;
            let linked = Linked::new(&arena, rules).await;
            let lock = recipe.of(&linked, &arena);
            linked.took();
            for round in 0..4 {
                let guard = lock.acquire().await.unwrap();
                let expected = if round == 0 { first } else { again };
                assert_eq!(linked.took(), expected, "{recipe:?}, {rules:?}, {round}");
                guard.release().await.unwrap();
                assert_eq!(linked.took(), [Delete], "{recipe:?}, {rules:?}, {round}");
            }
        }
    }
}

/// A writer lists: the head rule does not hold for it.
#[tokio::test(start_paused = true)]
async fn a_hand_over_takes_no_request_of_the_next_one() {
    for (holder, next, head, listed) in [
        (Mutex, Mutex, true, &[][..]),
        (Mutex, Mutex, false, &[List][..]),
        (Write, Read, true, &[]),
        (Write, Read, false, &[List]),
        (Write, Write, true, &[List]),
        (Read, Write, true, &[List]),
    ] {
        let arena = Arena::with_parent().await;
        let [first, second] = linked(&arena, Shortcuts { head, ..ALL }).await;
        let hold = holder.of(&first, &arena).acquire().await.unwrap();
        // The parent, the own node, and the holder's.
        let waiting = second.enters(&arena, next, 3).await;
        assert_eq!(second.took(), [Create, GetData, List, GetData, GetData]);
        first.took();
        hold.release().await.unwrap();
        let guard = within("the next", waiting).await.unwrap().unwrap();
        assert_eq!(second.took(), listed, "{next:?} behind {holder:?}, head: {head}");
        assert_eq!(first.took(), [Delete]);
        guard.release().await.unwrap();
        assert_eq!(second.took(), [Delete]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_busy_lock_costs_one_read_and_no_write() {
    for (look_first, busy, free) in
        [(true, &[List][..], &[List, Create][..]), (false, &[Create, List, Delete], &[Create])]
    {
        for (holder, recipe) in [(Mutex, Mutex), (Write, Read), (Read, Write)] {
            let arena = Arena::with_parent().await;
            let [ours, theirs] = linked(&arena, Shortcuts { look_first, ..ALL }).await;
            let lock = recipe.of(&ours, &arena);
            let known = async || {
                lock.acquire().await.unwrap().release().await.unwrap();
                ours.took();
            };
            known().await;
            let hold = holder.of(&theirs, &arena).acquire().await.unwrap();
            assert!(lock.try_acquire().await.unwrap().is_none());
            assert_eq!(ours.took(), busy, "{recipe:?}, look first: {look_first}");
            hold.release().await.unwrap();
            known().await;
            let guard = lock.try_acquire().await.unwrap().unwrap();
            assert_eq!(ours.took(), free, "{recipe:?}, look first: {look_first}");
            guard.release().await.unwrap();
            assert_eq!(ours.took(), [Delete]);
        }
    }
}

/// The lock path is missing, and so are further levels above it.
#[tokio::test(start_paused = true)]
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

const TASKS: usize = 16;
const CYCLES: usize = 8;

/// Tasks of one client acquire and release some times each.
async fn contend(arena: &Arena, client: &Linked) {
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let mutex = arena.mutex(&client.curator);
        tasks.spawn(async move {
            for _ in 0..CYCLES {
                let guard = mutex.acquire().await.unwrap();
                tokio::task::yield_now().await;
                guard.release().await.unwrap();
            }
        });
    }
    within("all of them", tasks.join_all()).await;
    arena.children_are(0).await;
}

#[tokio::test(start_paused = true)]
async fn tasks_of_one_client_cost_one_create_and_one_delete_each() {
    for (local, gap) in [(true, true), (true, false), (false, true)] {
        let arena = Arena::with_parent().await;
        let linked = Linked::knowing(&arena, Shortcuts { local, gap, ..ALL }).await;
        contend(&arena, &linked).await;
        let log = linked.took();
        let count = |operation| log.iter().filter(|one| **one == operation).count();
        let holds = TASKS * CYCLES;
        assert_eq!((count(Create), count(Delete)), (holds, holds), "local: {local}, gap: {gap}");
        match (local, gap) {
            (true, true) => assert_eq!(log.len(), 2 * holds, "{log:?}"),
            // A listing can show a predecessor that was deleted meanwhile.
            (true, false) => assert!(count(List) >= holds, "{log:?}"),
            // They watch one another.
            (false, _) => assert!(count(GetData) > holds, "{log:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
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
