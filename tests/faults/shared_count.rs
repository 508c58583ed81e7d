//! The shared count under faults.

use zookeeper_recipes::{SharedCount, SharedCountError};

use crate::harness::{Operation, eventually};
use crate::product::{Told, products};
use crate::stage::Stage;

const ONE: &[u8] = &[0, 0, 0, 1];
const TWO: &[u8] = &[0, 0, 0, 2];

/// Of 1, with the watch on its node in place.
async fn counting(stage: &Stage) -> SharedCount {
    let read = stage.link.replies(Operation::GetData) + 1;
    let count = SharedCount::start(&stage.curator, &stage.data_path(), 1).await.unwrap();
    eventually("a watch", async || stage.link.replies(Operation::GetData) > read).await;
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

products! { product:
    start_where_there_is_none: start, async |(curator, path)| {
        started(SharedCount::start(&curator, &path, 1).await)
    };
    start_where_there_is_one: async |stage: &Stage| {
        drop(counting(stage).await);
        start(stage).await
    }, async |(curator, path)| {
        started(SharedCount::start(&curator, &path, 7).await)
    };
    set: counting, async |count| {
        wrote(count.set(2).await.map(|()| true))
    };
    try_set: counting, async |count| {
        wrote(count.try_set(&count.versioned(), 2).await)
    };
}
