//! Connecting and closing under faults.

use zookeeper_recipes::SessionError;

use crate::product::{Told, products};
use crate::stage::Stage;

products! { product:
    connect: async |stage: &Stage| {
        let namespace = format!("{}-namespace/of/three", stage.path);
        (stage.builder().namespace(&namespace), stage.link.connect_string().to_owned())
    }, async |(builder, connect_string)| {
        match builder.connect(&connect_string).await {
            Ok(curator) => drop(curator.close().await),
            Err(SessionError::Unreachable { .. }) => {}
            Err(other) => panic!("{other:?}"),
        }
        Told::Nothing
    };
    close: async |stage: &Stage| {
        let guard = stage.mutex().acquire().await.unwrap();
        (stage.curator.clone(), guard)
    }, async |(curator, guard)| {
        let node = guard.node().to_owned();
        match curator.close().await {
            Ok(()) => Told::Deleted(node),
            Err(SessionError::CloseUnconfirmed { .. }) => Told::Nothing,
            Err(other) => panic!("{other:?}"),
        }
    };
}
