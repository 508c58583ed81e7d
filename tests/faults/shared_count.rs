//! The shared count under faults.

use zookeeper_recipes::interop::SharedCount;
use zookeeper_recipes::{Curator, Error, ErrorKind};
use zookeeper_recipes_dev::{Operation, eventually};

use crate::product::{Told, products};
use crate::support::fixture::FaultFixture;

const ONE: &[u8] = &[0, 0, 0, 1];
const TWO: &[u8] = &[0, 0, 0, 2];

/// Of 1, with the watch on its node in place.
async fn counting(fixture: &FaultFixture) -> SharedCount {
    let read = fixture.link.replies(Operation::GetData) + 1;
    let count = SharedCount::start(&fixture.curator, &fixture.data_path(), 1).await.unwrap();
    eventually("a watch", async || fixture.link.replies(Operation::GetData) > read).await;
    count
}

async fn start(fixture: &FaultFixture) -> (Curator, String) {
    (fixture.curator.clone(), fixture.data_path())
}

fn started(started: Result<SharedCount, Error>) -> Told {
    match started {
        Ok(count) => {
            assert_eq!(count.value(), 1);
            Told::Data(Some(ONE))
        }
        Err(error) if error.kind() == ErrorKind::Unavailable => Told::Nothing,
        Err(error) => panic!("{error:?}"),
    }
}

/// Told: what is there, if that is known.
fn wrote(outcome: Result<bool, Error>) -> Told {
    match outcome {
        Ok(true) => Told::Data(Some(TWO)),
        Ok(false) => panic!("nobody else wrote"),
        Err(error) => match error.kind() {
            ErrorKind::OutcomeUnknown => Told::Nothing,
            ErrorKind::Unavailable => Told::Data(Some(ONE)),
            _ => panic!("{error:?}"),
        },
    }
}

products! { product:
    start_where_there_is_none: start, async |(curator, path)| {
        started(SharedCount::start(&curator, &path, 1).await)
    };
    start_where_there_is_one: async |fixture: &FaultFixture| {
        drop(counting(fixture).await);
        start(fixture).await
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
