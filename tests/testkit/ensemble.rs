//! A quorum: who leads, and what becomes of it.

use zookeeper_recipes::testkit::{Backend, Role, TestEnsemble, TestkitError};

use crate::support::is_required;

macro_rules! on_each_backend {
    ($($test:ident),* $(,)?) => {
        mod docker {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                super::on(zookeeper_recipes::testkit::Backend::Docker, super::$test).await;
            })*
        }
        mod process {
            $(#[tokio::test]
            async fn $test() {
                super::on(zookeeper_recipes::testkit::Backend::Process, super::$test).await;
            })*
        }
    };
}

on_each_backend!(leaders_come_and_go);

async fn on(backend: Backend, test: impl AsyncFn(TestEnsemble)) {
    match TestEnsemble::builder(3).backend(backend).start().await {
        Ok(ensemble) => test(ensemble).await,
        Err(TestkitError::Unavailable { reason, .. }) if !is_required(backend) => {
            eprintln!("skipped on {backend}: {reason}");
        }
        Err(error) => panic!("no ensemble on {backend}: {error}: {error:?}"),
    }
}

async fn leaders_come_and_go(ensemble: TestEnsemble) {
    let first = ensemble.leader().await.expect("a leader");
    for (number, member) in ensemble.members().iter().enumerate() {
        let expected = if number == first { Role::Leader } else { Role::Follower };
        assert_eq!(member.role().await.expect("an answer"), expected);
    }

    ensemble.member(first).kill().await.expect("killed");
    let second = ensemble.leader().await.expect("a new leader");
    assert_ne!(second, first);
    ensemble.serving().await.expect("the two others serve");
    ensemble.member(first).role().await.expect_err("it is down");
    ensemble.member(first).start_again().await.expect("it serves again");
    assert_eq!(ensemble.member(first).role().await.expect("an answer"), Role::Follower);

    ensemble.member(second).pause().await.expect("paused");
    let third = ensemble.leader().await.expect("a new leader");
    assert_ne!(third, second);
    ensemble.member(second).resume().await.expect("resumed");
    ensemble.serving().await.expect("all three serve");
    assert_eq!(ensemble.leader().await.expect("the same leader"), third);
    assert_eq!(ensemble.member(second).role().await.expect("an answer"), Role::Follower);
}
