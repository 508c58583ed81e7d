//! The latch, the selector and the observer under faults. A latch that starts makes the requests of a mutex that acquires, so
//! [`mutex`](super::mutex) has its cases on a path that is missing, new or busy.

use tokio::sync::mpsc::unbounded_channel;
use tokio::time::timeout;
use zookeeper_recipes::leader::{LeaderLatch, LeaderRun, LeaderSelector};
use zookeeper_recipes::{ErrorKind, Guard, Hold, Released};

use crate::product::{SOON, Told, meanwhile, products};
use crate::support::fixture::{FaultFixture, retry};

/// A latch that takes part once it is asked for, on a path that was used before: a create is all it takes.
async fn known(fixture: &FaultFixture) -> impl FnOnce() -> LeaderLatch + use<> {
    let latch = fixture.latch();
    fixture.is_known().await;
    latch
}

async fn behind(fixture: &FaultFixture) -> (impl FnOnce() -> LeaderLatch + use<>, LeaderLatch) {
    (fixture.latch(), fixture.rival_leads().await)
}

/// On the nodes of a mutex, which the rivals use.
async fn selector(fixture: &FaultFixture) -> LeaderSelector {
    fixture.is_known().await;
    fixture.curator.with_retry(retry()).leader_selector(&fixture.path).unwrap()
}

/// Runs until it is to step down; returns when it leads.
async fn run(selector: LeaderSelector) -> (Hold, LeaderRun<()>) {
    let (begins, mut began) = unbounded_channel();
    let run = selector.run(async move |term: Hold| {
        // The caller may have been dropped.
        let _ = begins.send(term.view());
        term.cancellation_token().cancelled().await;
    });
    (began.recv().await.expect("retries for longer than a case lasts"), run)
}

async fn leading(fixture: &FaultFixture) -> (Hold, LeaderRun<()>) {
    run(selector(fixture).await).await
}

async fn behind_a_holder(fixture: &FaultFixture) -> (LeaderSelector, Guard) {
    (selector(fixture).await, fixture.rival_guard().await)
}

products! { product:
    leadership_behind_a_leader: behind, async |(enter, _leader)| {
        let latch = enter();
        let led = timeout(SOON, latch.leadership()).await;
        assert!(led.is_err() && !latch.is_leader(), "two lead");
        Told::Nothing
    };
    /// Closed on its way, whatever it has made by then.
    close_of_a_latch_that_starts: known, async |enter| {
        let latch = enter();
        tokio::task::yield_now().await;
        Told::released(None, latch.close().await)
    };
    close_of_a_latch_that_leads: FaultFixture::leads, async |latch| {
        let node = latch.leadership().await.unwrap().node().to_owned();
        Told::released(Some(node), latch.close().await)
    };
    close_timeout_of_a_latch_that_leads: FaultFixture::leads, async |latch| {
        let node = latch.leadership().await.unwrap().node().to_owned();
        Told::released(Some(node), latch.close_timeout(SOON).await)
    };
    leadership_of_a_latch: known, async |enter| {
        let latch = enter();
        let leadership = latch.leadership().await.unwrap();
        Told::Leads(leadership, Box::new(latch))
    };
    participants_of_an_election: behind, async |(enter, leads)| {
        let (latch, node) = (enter(), leads.leadership().await.unwrap().node().to_owned());
        if let Ok(leader) = latch.leader().await {
            assert_eq!(leader.unwrap().node, node);
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
        let led = selector.run(async |term: Hold| term.node().to_owned());
        match led.await {
            Err(ended) if ended.error.kind() != ErrorKind::Lost => panic!("{ended:?}"),
            _ => Told::Nothing,
        }
    };
    /// The body ends first, and its hold is released.
    close_of_a_curator_that_leads: async |fixture: &FaultFixture| {
        (fixture.curator.clone(), leading(fixture).await)
    }, async |(curator, (leadership, run))| {
        let closed = curator.close().await;
        assert!(!leadership.is_held() && !run.is_leader());
        match closed {
            Released::Confirmed => Told::Deleted(leadership.node().to_owned()),
            _ => Told::Nothing,
        }
    };
    close_of_a_run_that_leads: leading, async |(leadership, run)| {
        Told::released(Some(leadership.node().to_owned()), run.close().await)
    };
    close_of_a_run_that_waits: behind_a_holder, async |(selector, _holder)| {
        let run = selector.run(async |_| panic!("two lead"));
        tokio::task::yield_now().await;
        let told = Told::released(None, run.close().await);
        assert!(run.next_report().await.is_none(), "it never led");
        told
    };
    report_of_a_term_that_steps_down: leading, async |(leadership, run)| {
        assert!(run.step_down());
        match run.next_report().await {
            None => panic!("the term is over"),
            Some(Err(ended)) if ended.error.kind() != ErrorKind::Lost => panic!("{ended:?}"),
            Some(_) => assert!(!leadership.is_held()),
        }
        assert!(run.requeue().unwrap());
        Told::Nothing
    };
    /// Up to the end of this leader.
    changed_of_an_observer: async |fixture: &FaultFixture| {
        (fixture.curator.clone(), fixture.path.clone(), fixture.rival_guard().await)
    }, async |(curator, path, holder)| {
        let mut observer = curator.observe_leader(&path).unwrap();
        let node = holder.node().to_owned();
        let first = observer.changed().await.unwrap();
        assert_eq!(first.map(|leader| leader.node), Some(node.clone()));
        holder.release().await.unwrap();
        // Others may lead meanwhile, for a moment.
        while observer.leader().is_some_and(|leader| leader.node == node) {
            let leader = observer.changed().await.unwrap();
            assert!(leader.is_none_or(|leader| leader.node != node), "it was deleted");
        }
        Told::Nothing
    };
}
