//! A session whose tasks have a runtime of their own.

use tokio::runtime::{Builder, Handle, Runtime};
use zookeeper_recipes::simulation::Ensemble;

use crate::prelude::*;

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

#[tokio::test]
async fn it_outlasts_blocking_code_and_bodies_run_where_they_were_given() {
    const T: Duration = Duration::from_secs(10);
    let testbed = Testbed::real().await;
    let runtime = runtime();
    let builder = testbed.builder().session_timeout(T).runtime(runtime.handle().clone());
    let curator = testbed.connect(builder).await;
    let mutex = testbed.mutex(&curator);
    let guard = mutex.acquire().await.unwrap();
    let (renewed, renewals) = std::sync::mpsc::channel();
    let view = guard.view();
    runtime.spawn(async move {
        while view.session_lease_renewed().await.is_ok() && renewed.send(()).is_ok() {}
    });
    // This blocks the only thread of the test's runtime.
    for _ in 0..2 {
        renewals.recv_timeout(LONG).expect("a renewal");
    }
    assert!(guard.is_held(), "{:?}", guard.loss());
    let selector = curator.leader_selector(format!("{}/selector", testbed.path)).unwrap();
    let bodies = selector.run(async |_| Handle::current().id()).await.unwrap();
    assert_eq!(bodies, Handle::current().id());
    let waiter = mutex.clone();
    let waiting = tokio::spawn(async move { waiter.acquire().await });
    eventually("a waiter", async || mutex.participants().await.unwrap().len() == 2).await;
    runtime.shutdown_background();
    assert_eq!(within("the loss", guard.lost()).await, Loss::Closed);
    fails(within("the waiter", waiting).await.unwrap(), ErrorKind::Closed);
}

/// The delete is on its way, and nobody is left to hear of it.
#[tokio::test]
async fn a_release_whose_runtime_ends_is_pending_and_no_loss() {
    let testbed = Testbed::real().await;
    let runtime = runtime();
    let (link, curator) = testbed.linked(testbed.builder().runtime(runtime.handle().clone())).await;
    let guard = testbed.mutex(&curator).acquire().await.unwrap();
    let stalled = link.stall(Direction::Both);
    let releasing = tokio::spawn(guard.release());
    tokio::task::yield_now().await;
    runtime.shutdown_background();
    assert_eq!(within("the end", releasing).await.unwrap().unwrap(), Released::Pending);
    stalled.heal();
}

#[tokio::test(start_paused = true)]
async fn one_that_cannot_serve_a_new_session_is_refused() {
    let without_timers = Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let ensemble = Ensemble::start(1);
    let own = runtime();
    for (runtime, servers) in [(&without_timers, "127.0.0.1:1"), (&own, ensemble.connect_string())]
    {
        let builder = || Curator::builder().runtime(runtime.handle().clone());
        let refused = fails(builder().connect(servers).await, ErrorKind::InvalidInput);
        assert_eq!(refused.option(), Some("runtime"));
        fails(builder().connect_lazy(servers), ErrorKind::InvalidInput);
    }
    without_timers.shutdown_background();
    own.shutdown_background();
}

#[tokio::test]
async fn one_without_timers_is_refused_for_a_session_that_is_there() {
    let testbed = Testbed::real().await;
    let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let builder = Curator::builder().runtime(runtime.handle().clone());
    let refused = fails(builder.from_client(testbed.client().await), ErrorKind::InvalidInput);
    assert_eq!(refused.option(), Some("runtime"));
    runtime.shutdown_background();
}
