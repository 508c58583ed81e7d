//! The latch, the selector and the observer under faults. A latch that starts makes the requests of a mutex that acquires, so
//! [`mutex`](super::mutex) has its cases on a path that is missing, new or busy.

use tokio::sync::oneshot;
use zookeeper_recipes::{
    LeaderError, LeaderLatch, LeaderObserver, LeaderRun, LeaderSelector, Leadership, MutexGuard,
    TermError,
};

use crate::product::{SOON, Told, meanwhile, products};
use crate::stage::{Stage, retry};

/// Of a path that was used before: a create is all it takes.
async fn known(stage: &Stage) -> LeaderLatch {
    for _ in 0..2 {
        stage.leads().await.close().await.unwrap();
    }
    stage.latch()
}

async fn behind(stage: &Stage) -> (LeaderLatch, LeaderLatch) {
    (stage.latch(), stage.rival_leads().await)
}

/// On the nodes of a mutex, which the rivals use.
async fn selector(stage: &Stage) -> LeaderSelector {
    for _ in 0..2 {
        stage.mutex().acquire().await.unwrap().release().await.unwrap();
    }
    LeaderSelector::new(&stage.curator, &stage.path).unwrap().with_retry(retry())
}

/// Runs until it is to step down; returns when it leads.
async fn run(selector: LeaderSelector) -> (Leadership, LeaderRun<()>) {
    let (began, leads) = oneshot::channel();
    let mut began = Some(began);
    let run = selector.run(move |leadership: Leadership| {
        if let Some(began) = began.take() {
            // The caller may have been dropped.
            let _ = began.send(leadership.clone());
        }
        async move { leadership.cancellation_token().cancelled().await }
    });
    (leads.await.expect("retries for longer than a case lasts"), run)
}

async fn leading(stage: &Stage) -> (Leadership, LeaderRun<()>) {
    run(selector(stage).await).await
}

async fn behind_a_holder(stage: &Stage) -> (LeaderSelector, MutexGuard) {
    (selector(stage).await, stage.rival_guard().await)
}

products! { product:
    await_leadership_timeout_behind_a_leader: behind, async |(latch, _leader)| {
        latch.start().unwrap();
        let led = latch.await_leadership_timeout(SOON).await.unwrap();
        assert!(led.is_none() && !latch.has_leadership(), "two lead");
        Told::Nothing
    };
    /// Closed on its way, whatever it has made by then.
    close_of_a_latch_that_starts: known, async |latch| {
        latch.start().unwrap();
        tokio::task::yield_now().await;
        Told::released(None, latch.close().await)
    };
    close_of_a_latch_that_leads: Stage::leads, async |latch| {
        let node = latch.leadership().map(|leadership| leadership.node().to_owned());
        Told::released(node, latch.close().await)
    };
    watch_of_a_latch: known, async |latch| {
        let mut watch = latch.watch();
        assert!(!watch.state().is_leader());
        latch.start().unwrap();
        let state = watch.changed().await.unwrap();
        let leadership = state.leadership().expect("it did not lead before").clone();
        Told::Leads(leadership, Box::new(latch))
    };
    participants_of_an_election: behind, async |(latch, leads)| {
        let node = leads.leadership().unwrap().node().to_owned();
        if let Ok(leader) = latch.leader().await {
            assert_eq!(leader.unwrap().path, node);
        }
        Told::listed(latch.participants().await, &node)
    };
    run_where_nobody_leads: selector, async |selector| {
        let (leadership, run) = run(selector).await;
        Told::Leads(leadership, Box::new(run))
    };
    run_behind_a_holder: behind_a_holder, async |(selector, holder)| {
        let release = async || holder.release().await.unwrap();
        let (leadership, run) = meanwhile(run(selector), release).await;
        Told::Leads(leadership, Box::new(run))
    };
    /// To its end: the node is deleted, or the report says that it was lost, or the session goes on deleting.
    run_that_is_awaited: selector, async |selector| {
        let led = selector.run(async |leadership: Leadership| leadership.node().to_owned());
        match led.await {
            Ok(_) | Err(TermError::Lost { .. }) => Told::Nothing,
            Err(other) => panic!("{other:?}"),
        }
    };
    close_of_a_run_that_leads: leading, async |(leadership, run)| {
        Told::released(Some(leadership.node().to_owned()), run.close().await)
    };
    close_of_a_run_that_waits: behind_a_holder, async |(selector, _holder)| {
        let run = selector.run(async |_| panic!("two lead"));
        tokio::task::yield_now().await;
        let told = Told::released(None, run.close().await);
        assert!(run.next().await.is_none(), "it never led");
        told
    };
    report_of_an_interrupted_term: leading, async |(leadership, run)| {
        assert!(run.interrupt_leadership());
        match run.next().await {
            Some(Ok(()) | Err(TermError::Lost { .. })) => assert!(!leadership.is_held()),
            other => panic!("{other:?}"),
        }
        assert!(run.requeue().unwrap());
        Told::Nothing
    };
    /// Up to the end of this leader.
    changed_of_an_observer: async |stage: &Stage| {
        (stage.curator.clone(), stage.path.clone(), stage.rival_guard().await)
    }, async |(curator, path, holder)| {
        let mut observer = LeaderObserver::of_selector(&curator, &path).unwrap();
        let node = holder.node().to_owned();
        let first = observer.changed().await.unwrap();
        assert_eq!(first.map(|leader| leader.path), Some(node.clone()));
        holder.release().await.unwrap();
        // Others may lead meanwhile, for a moment.
        while observer.leader().is_some_and(|leader| leader.path == node) {
            match observer.changed().await {
                Ok(Some(leader)) => assert_ne!(leader.path, node, "it was deleted"),
                Ok(None) => {}
                Err(error @ LeaderError::Ended(_)) => panic!("{error:?}"),
                Err(error) => panic!("{error}"),
            }
        }
        Told::Nothing
    };
}
