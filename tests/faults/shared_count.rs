//! The shared count under faults.

use zookeeper_recipes::{SharedCount, SharedCountError};
use zookeeper_testkit::Operation;

use crate::harness::eventually;
use crate::product::{Told, product, product_twice};
use crate::stage::Stage;

const ONE: &[u8] = &[0, 0, 0, 1];
const TWO: &[u8] = &[0, 0, 0, 2];

/// Of 1, with the watch on its node in place.
async fn counting(stage: &Stage) -> SharedCount {
    let read = stage.proxy.replies(Operation::GetData) + 1;
    let count = SharedCount::start(&stage.curator, &stage.data_path(), 1).await.unwrap();
    eventually("a watch", async || stage.proxy.replies(Operation::GetData) > read).await;
    count
}

async fn start(stage: &Stage) -> (zookeeper_recipes::Curator, String) {
    (stage.curator.clone(), stage.data_path())
}

fn started(started: Result<SharedCount, SharedCountError>) -> Told {
    match started {
        Ok(count) => {
            assert_eq!(count.value(), 1);
            Told::Data(Some(ONE))
        }
        Err(SharedCountError::TimedOut { .. } | SharedCountError::RetriesExhausted { .. }) => {
            Told::Nothing
        }
        Err(other) => panic!("{other:?}"),
    }
}

/// Told: what is there, if that is known.
fn wrote(outcome: Result<bool, SharedCountError>) -> Told {
    match outcome {
        Ok(true) => Told::Data(Some(TWO)),
        Ok(false) => panic!("nobody else wrote"),
        Err(SharedCountError::Unknown { .. }) => Told::Nothing,
        Err(SharedCountError::TimedOut { .. } | SharedCountError::RetriesExhausted { .. }) => {
            Told::Data(Some(ONE))
        }
        Err(other) => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn start_where_there_is_none() {
    product_twice("SharedCount::start", start, async |(curator, path)| {
        started(SharedCount::start(&curator, &path, 1).await)
    })
    .await;
}

#[tokio::test]
async fn start_where_there_is_one() {
    let ready = async |stage: &Stage| {
        drop(counting(stage).await);
        start(stage).await
    };
    product("SharedCount::start, made before", ready, async |(curator, path)| {
        started(SharedCount::start(&curator, &path, 7).await)
    })
    .await;
}

#[tokio::test]
async fn set() {
    product_twice("SharedCount::set", counting, async |count| {
        wrote(count.set(2).await.map(|()| true))
    })
    .await;
}

#[tokio::test]
async fn try_set() {
    product_twice("SharedCount::try_set", counting, async |count| {
        wrote(count.try_set(&count.versioned(), 2).await)
    })
    .await;
}
