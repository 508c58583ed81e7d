//! The promises of every recipe while nothing fails.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{ROWS, Waiting, each, nodes};
use crate::prelude::*;

/// Curator: TestInterProcessMutexBase#testContainerCleanup. And CURATOR-180: what was reaped is made again.
#[tokio::test(start_paused = true)]
async fn the_paths_are_reaped_when_nobody_uses_them() {
    let testbed = &Testbed::reaping(Duration::from_millis(10)).await;
    each(async |row| {
        let ours = row.ours(testbed, &testbed.curator().await);
        let mut last = None;
        for _ in 0..3 {
            let guard = row.holds(&ours).await;
            let guid = row.nodes(testbed).await[0].guid().to_owned();
            assert_ne!(last.replace(guid.clone()), Some(guid), "{row:?}");
            guard.release().await.unwrap();
            let reaped = async || testbed.stat(ours.path()).await.is_none();
            eventually(&format!("{row:?}: the path is reaped"), reaped).await;
        }
    })
    .await;
}

async fn exclude_each_other(testbed: &Testbed) {
    each(async |row| {
        let ours = row.ours(testbed, &testbed.curator().await);
        let inside = Arc::new(AtomicBool::new(false));
        let reads = row.name == "read";
        let mut tasks = JoinSet::new();
        for _ in 0..10 {
            let (ours, inside) = (ours.clone(), inside.clone());
            tasks.spawn(async move {
                let guard = ours.acquire().await.unwrap();
                assert!(reads || !inside.swap(true, Ordering::SeqCst), "two are inside: {ours:?}");
                tokio::task::yield_now().await;
                inside.store(false, Ordering::SeqCst);
                guard.release().await.unwrap();
            });
        }
        within(row.name, tasks.join_all()).await;
        row.nothing_is_left(testbed).await;
    })
    .await;
}

/// Curator: TestLeaderLatch#testBasic. (There in the order of the starts as well, as one client is slow enough.) Each with its queue
/// of three clients; readers are served together, with tokens in that order.
#[tokio::test(start_paused = true)]
async fn all_are_served_in_the_order_they_came() {
    let testbed = &Testbed::new().await;
    each(async |row| {
        let curators: [_; 10] = testbed.curators().await;
        let holder = row.holds(&row.rival(testbed, &curators[9])).await;
        let mut last = holder.fencing_token();
        let mut waiting = Vec::new();
        for curator in &curators[..9] {
            let before = row.nodes(testbed).await.len();
            waiting.push(Waiting::new(&row.ours(testbed, curator)));
            let queued = async || row.nodes(testbed).await.len() > before;
            eventually(&format!("{row:?}: it is queued"), queued).await;
        }
        holder.release().await.unwrap();
        for next in waiting {
            let next = next.served(row).await;
            assert!(
                next.fencing_token() > last,
                "{row:?}: invariant 4, and first come first served"
            );
            last = next.fencing_token();
            next.release().await.unwrap();
        }
        row.nothing_is_left(testbed).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_curator_that_closes_ends_hold_and_wait() {
    let testbed = &Testbed::new().await;
    each(async |row| {
        let [curator, other] = testbed.curators().await;
        let ours = row.ours(testbed, &curator);
        let guard = row.holds(&ours).await;
        let waiting = row.queues(testbed, &other, &row.rival(testbed, &other)).await;
        within(row.name, other.close()).await;
        fails(within(row.name, waiting.0).await.unwrap(), ErrorKind::Closed);
        assert!(guard.is_held(), "{row:?}");
        within(row.name, curator.close()).await;
        // The body of a selector ends first, and its hold is released.
        let loss = (row.name != "selector").then_some(Loss::Closed);
        assert_eq!((guard.is_held(), guard.loss()), (false, loss), "{row:?}");
        assert_eq!(curator.state(), ConnectionState::Closed);
        assert_eq!(row.nodes(testbed).await, [], "{row:?}: the session is over when close returns");
        // Closing again changes nothing, and nothing can be acquired any more.
        assert_eq!(curator.close().await, Released::Confirmed);
        let again = fails(ours.acquire().await, ErrorKind::Closed);
        assert!(again.path().unwrap().starts_with(&row.path(testbed)), "{again}");
        fails(curator.session_id(), ErrorKind::Closed);
    })
    .await;
}

/// Curator: TestInterProcessMutexBase#testWithNamespace and TestLockACLs#testLockACLs.
#[tokio::test(start_paused = true)]
async fn with_a_namespace_and_acls_the_nodes_are_under_it_and_carry_them() {
    let testbed = &Testbed::new().await;
    testbed.admin.auth("ours:secret").await;
    let builder = testbed.builder().auth("digest", b"ours:secret").acls(Acls::creator_all());
    let curator = &testbed.connect(builder.namespace(&testbed.path)).await;
    each(async |row| {
        let path = format!("/locks/{}", row.name);
        let guard = row.holds(&(row.ours)(curator, &path)).await;
        let first = if row.name == "multi" { "/one" } else { "" };
        assert_eq!(guard.path(), format!("{path}{first}"));
        assert!(guard.node().starts_with(&path), "{row:?}: {}", guard.node());
        let held = nodes(testbed, &format!("{}{path}", testbed.path)).await;
        assert!(held[0].path.ends_with(guard.node()), "{row:?}: {held:?}");
        for node in held {
            let mut path = node.path.as_str();
            while path != testbed.path {
                let (acls, _) = testbed.admin.get_acl(path).await.unwrap();
                let schemes: Vec<_> = acls.iter().map(|acl| acl.scheme()).collect();
                assert_eq!(schemes, ["digest"], "{row:?}: {path}");
                path = path.rsplit_once('/').unwrap().0;
            }
        }
        guard.release().await.unwrap();
    })
    .await;
}

/// Curator: TestInterProcessMutex#testWithSchema, TestInterProcessReadWriteLock#testSetNodeData: names, modes and data are the
/// documented ones.
#[tokio::test(start_paused = true)]
async fn the_nodes_are_curators() {
    let testbed = &Testbed::new().await;
    each(async |row| {
        let curator = testbed.connect(testbed.builder().identity("me@here")).await;
        let guard = row.holds(&row.ours(testbed, &curator)).await;
        let nodes = row.nodes_of(testbed, &curator).await;
        assert!(nodes.iter().any(|one| one.path == guard.node()), "{row:?}: {nodes:?}");
        let name = guard.node().rsplit('/').next().unwrap();
        assert!(name.starts_with("_c_"), "{row:?}: {name}");
        assert_eq!(name[39..], format!("{}0000000000", row.infix), "{row:?}");
        let (data, stat) = testbed.admin.get_data(guard.node()).await.unwrap();
        assert_eq!(data, b"me@here", "{row:?}");
        assert_eq!(stat.ephemeral_owner, curator.session_id().unwrap(), "{row:?}");
        assert_eq!(stat.czxid, guard.fencing_token().value(), "{row:?}");
        guard.release().await.unwrap();
    })
    .await;
}

mod real {
    use super::*;
    use tokio::runtime::{Builder, Runtime};

    #[test]
    fn what_outlives_its_runtime_neither_panics_nor_blocks() {
        let watching = Runtime::new().unwrap();
        let testbed = &watching.block_on(Testbed::real());
        let runtime = Runtime::new().unwrap();
        let held = runtime.block_on(async {
            let curator = &testbed.short_lived_curator().await;
            join_all(ROWS.map(async |row| {
                let ours = row.ours(testbed, curator);
                (row, row.holds(&ours).await, Waiting::new(&row.rival(testbed, curator)), ours)
            }))
            .await
        });
        runtime.shutdown_timeout(Duration::from_secs(10));
        watching.block_on(async {
            for (row, guard, waiting, ours) in held {
                within(row.name, guard.cancellation_token().cancelled()).await;
                let is_over = !row.is_lock && guard.loss().is_none();
                assert!(is_over || guard.loss() == Some(Loss::Closed), "{row:?}: {guard:?}");
                drop(waiting);
                let report = within(row.name, guard.release()).await;
                assert!(report.is_err() || !row.is_lock, "{row:?}: nobody is left: {report:?}");
                if row.is_lock {
                    within(row.name, ours.acquire()).await.unwrap_err();
                    within(row.name, ours.try_acquire()).await.unwrap_err();
                }
            }
            // The servers expire the session, which nobody keeps alive any more.
            each(|row| row.nothing_is_left(testbed)).await;
        });
    }

    #[test]
    fn a_guard_dropped_while_its_runtime_stands_still_is_released_when_that_runs() {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let testbed = &runtime.block_on(Testbed::real());
        let held = runtime.block_on(async {
            let curator = &testbed.curator().await;
            join_all(ROWS.map(async |row| row.holds(&row.ours(testbed, curator)).await)).await
        });
        drop(held);
        runtime.block_on(each(|row| row.nothing_is_left(testbed)));
    }

    /// A simulation has one thread, and shows no data race. Curator: TestInterProcessMutexBase#testReentrantSingleLock.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn tasks_on_several_threads_exclude_each_other() {
        exclude_each_other(&Testbed::real().await).await;
    }

    /// Where there is no runtime, also while it unwinds.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_guard_that_is_dropped_on_a_plain_thread_serves_the_next() {
        let testbed = &Testbed::real().await;
        each(async |row| {
            let [curator, other] = testbed.curators().await;
            let guard = row.holds(&row.rival(testbed, &curator)).await;
            let next = row.queues(testbed, &other, &row.ours(testbed, &other)).await;
            let panicked = std::thread::spawn(move || {
                let _guard = guard;
                panic!("as the test wants");
            });
            panicked.join().unwrap_err();
            next.served(row).await.release().await.unwrap();
            row.nothing_is_left(testbed).await;
        })
        .await;
    }
}
