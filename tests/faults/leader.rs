//! The latch, the selector and the observer under faults.

use std::time::Duration;

use tokio::sync::oneshot;
use zookeeper_recipes::{
    LeaderError, LeaderLatch, LeaderObserver, LeaderRun, LeaderSelector, Leadership, MutexGuard,
    ReleaseError, TermError,
};

use crate::product::{Told, product, product_twice};
use crate::stage::{Stage, retry};

const SOON: Duration = Duration::from_millis(500);

/// Starts, and comes to lead.
async fn start(latch: LeaderLatch) -> Told {
    latch.start().unwrap();
    match latch.await_leadership().await {
        Ok(leadership) => Told::Leads(leadership, Box::new(latch)),
        Err(error) => panic!("{error:?}"),
    }
}

/// With the path in place.
async fn warm(stage: &Stage) -> LeaderLatch {
    stage.rival_leads().await.close().await.unwrap();
    stage.latch()
}

/// Of a path that was used before: a create is all it takes.
async fn known(stage: &Stage) -> LeaderLatch {
    for _ in 0..2 {
        leads(stage).await.close().await.unwrap();
    }
    stage.latch()
}

async fn leads(stage: &Stage) -> LeaderLatch {
    let latch = stage.latch();
    latch.start().unwrap();
    latch.await_leadership().await.unwrap();
    latch
}

async fn behind(stage: &Stage) -> (LeaderLatch, LeaderLatch) {
    (stage.latch(), stage.rival_leads().await)
}

#[tokio::test]
async fn start_where_the_path_is_missing() {
    product_twice("latch: start, path missing", async |stage| stage.latch(), start).await;
}

#[tokio::test]
async fn start_where_nobody_leads() {
    product_twice("latch: start", warm, start).await;
}

#[tokio::test]
async fn start_again() {
    product_twice("latch: start, path known", known, start).await;
}

#[tokio::test]
async fn start_behind_a_leader() {
    product_twice("latch: start, behind a leader", behind, async |(latch, leader)| {
        let close = async {
            tokio::time::sleep(SOON).await;
            leader.close().await.unwrap();
        };
        tokio::join!(start(latch), close).0
    })
    .await;
}

#[tokio::test]
async fn await_leadership_timeout_behind_a_leader() {
    product("latch: await_leadership_timeout", behind, async |(latch, _leader)| {
        latch.start().unwrap();
        let led = latch.await_leadership_timeout(SOON).await.unwrap();
        assert!(led.is_none() && !latch.has_leadership(), "two lead");
        Told::Nothing
    })
    .await;
}

/// Closed on its way, whatever it has made by then.
#[tokio::test]
async fn close_of_a_latch_that_starts() {
    product("latch: start, and close", known, async |latch| {
        latch.start().unwrap();
        tokio::task::yield_now().await;
        closed(latch.close().await, None)
    })
    .await;
}

#[tokio::test]
async fn close_of_a_latch_that_leads() {
    product("latch: close", leads, async |latch| {
        let node = latch.leadership().map(|leadership| leadership.node().to_owned());
        closed(latch.close().await, node)
    })
    .await;
}

#[tokio::test]
async fn watch_of_a_latch() {
    product("latch: watch", known, async |latch| {
        let mut watch = latch.watch();
        assert!(!watch.state().is_leader());
        latch.start().unwrap();
        let state = watch.changed().await.unwrap();
        let leadership = state.leadership().expect("it did not lead before").clone();
        Told::Leads(leadership, Box::new(latch))
    })
    .await;
}

#[tokio::test]
async fn participants_of_an_election() {
    let ready = async |stage: &Stage| {
        let (latch, leader) = behind(stage).await;
        stage.heard_of(leader.leadership().unwrap().node()).await;
        (latch, leader)
    };
    product("latch: participants, leader", ready, async |(latch, leads)| {
        let node = leads.leadership().unwrap().node().to_owned();
        if let Ok(participants) = latch.participants().await {
            assert_eq!(participants[0].path, node);
        }
        if let Ok(leader) = latch.leader().await {
            assert_eq!(leader.unwrap().path, node);
        }
        Told::Nothing
    })
    .await;
}

/// On the nodes of a mutex, which the rivals use.
async fn selector(stage: &Stage) -> LeaderSelector {
    for _ in 0..2 {
        stage.mutex().acquire().await.unwrap().release().await.unwrap();
    }
    LeaderSelector::new(&stage.curator, &stage.path).unwrap().with_retry(retry())
}

/// Runs until it is told to step down; returns when it leads.
async fn run(selector: LeaderSelector) -> (Leadership, LeaderRun<()>) {
    let (began, leads) = oneshot::channel();
    let mut began = Some(began);
    let run = selector.run(move |leadership: Leadership| {
        if let Some(began) = began.take() {
            // Who waited for it may have gone.
            let _ = began.send(leadership.clone());
        }
        async move { leadership.cancellation_token().cancelled().await }
    });
    (leads.await.expect("retries for longer than a case lasts"), run)
}

async fn leading(stage: &Stage) -> (Leadership, LeaderRun<()>) {
    run(selector(stage).await).await
}

#[tokio::test]
async fn run_where_nobody_leads() {
    product_twice("selector: run", selector, async |selector| {
        let (leadership, run) = run(selector).await;
        Told::Leads(leadership, Box::new(run))
    })
    .await;
}

async fn behind_a_holder(stage: &Stage) -> (LeaderSelector, MutexGuard) {
    (selector(stage).await, stage.rival_guard().await)
}

#[tokio::test]
async fn run_behind_a_holder() {
    product("selector: run, behind a holder", behind_a_holder, async |(selector, holder)| {
        let release = async {
            tokio::time::sleep(SOON).await;
            holder.release().await.unwrap();
        };
        let ((leadership, run), ()) = tokio::join!(run(selector), release);
        Told::Leads(leadership, Box::new(run))
    })
    .await;
}

/// To its end: the node is gone, or the report says that it was lost, or the session goes on deleting.
#[tokio::test]
async fn run_that_is_awaited() {
    product("selector: run, awaited", selector, async |selector| {
        let led = selector.run(async |leadership: Leadership| leadership.node().to_owned());
        match led.await {
            Ok(_) | Err(TermError::Lost { .. }) => Told::Nothing,
            Err(other) => panic!("{other:?}"),
        }
    })
    .await;
}

#[tokio::test]
async fn close_of_a_run_that_leads() {
    product("selector: close", leading, async |(leadership, run)| {
        closed(run.close().await, Some(leadership.node().to_owned()))
    })
    .await;
}

#[tokio::test]
async fn close_of_a_run_that_waits() {
    product("selector: close, behind a holder", behind_a_holder, async |(selector, _holder)| {
        let run = selector.run(async |_| panic!("two lead"));
        tokio::task::yield_now().await;
        let told = closed(run.close().await, None);
        assert!(run.next().await.is_none(), "it never led");
        told
    })
    .await;
}

#[tokio::test]
async fn report_of_an_interrupted_term() {
    product("selector: interrupt, next", leading, async |(leadership, run)| {
        assert!(run.interrupt_leadership());
        match run.next().await {
            Some(Ok(()) | Err(TermError::Lost { .. })) => assert!(!leadership.is_held()),
            other => panic!("{other:?}"),
        }
        assert!(run.requeue().unwrap());
        Told::Nothing
    })
    .await;
}

/// What an observer is told, up to the end of this leader.
async fn observed(mut observer: LeaderObserver, holder: MutexGuard) -> Told {
    let node = holder.node().to_owned();
    let first = observer.changed().await.unwrap();
    assert_eq!(first.map(|leader| leader.path), Some(node.clone()));
    let release = async {
        holder.release().await.unwrap();
        // Of others that lead meanwhile, for a moment.
        while observer.leader().is_some_and(|leader| leader.path == node) {
            match observer.changed().await {
                Ok(Some(leader)) => assert_ne!(leader.path, node, "it has gone"),
                Ok(None) => {}
                Err(error @ LeaderError::Ended(_)) => panic!("{error:?}"),
                Err(error) => panic!("{error}"),
            }
        }
    };
    release.await;
    Told::Nothing
}

#[tokio::test]
async fn changed_of_an_observer() {
    let ready = async |stage: &Stage| {
        let guard = stage.rival_guard().await;
        stage.heard_of(guard.node()).await;
        (stage.curator.clone(), stage.path.clone(), guard)
    };
    product("observer: changed", ready, async |(curator, path, holder)| {
        observed(LeaderObserver::of_selector(&curator, &path).unwrap(), holder).await
    })
    .await;
}

/// A latch or a run was closed.
fn closed(closed: Result<(), ReleaseError>, node: Option<String>) -> Told {
    match (closed, node) {
        (Ok(()), Some(node)) => Told::Deleted(node),
        (Ok(()), None) => Told::Nothing,
        (Err(ReleaseError::Lost { .. } | ReleaseError::Unconfirmed { .. }), _) => Told::Nothing,
        (Err(other), _) => panic!("{other:?}"),
    }
}
