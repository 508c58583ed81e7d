//! Connecting and closing under faults.

use zookeeper_recipes::SessionError;

use crate::product::{Told, product};
use crate::stage::Stage;

#[tokio::test]
async fn connect() {
    let ready = async |stage: &Stage| {
        let namespace = format!("{}-namespace/of/three", stage.path);
        (Stage::builder().namespace(&namespace), stage.proxy.connect_string().to_owned())
    };
    product("Curator::connect", ready, async |(builder, connect_string)| {
        match builder.connect(&connect_string).await {
            Ok(curator) => drop(curator.close().await),
            Err(SessionError::Unreachable { .. }) => {}
            Err(other) => panic!("{other:?}"),
        }
        Told::Nothing
    })
    .await;
}

#[tokio::test]
async fn close() {
    let ready = async |stage: &Stage| {
        let guard = stage.mutex().acquire().await.unwrap();
        (stage.curator.clone(), guard)
    };
    product("Curator::close", ready, async |(curator, guard)| {
        let node = guard.node().to_owned();
        match curator.close().await {
            Ok(()) => Told::Deleted(node),
            Err(SessionError::CloseUnconfirmed { .. }) => Told::Nothing,
            Err(other) => panic!("{other:?}"),
        }
    })
    .await;
}
