//! Connecting and closing under faults.

use zookeeper_recipes::{ErrorKind, Released};

use crate::product::{Told, products};
use crate::stage::Stage;

products! { product:
    connect: async |stage: &Stage| {
        let namespace = format!("{}-namespace/of/three", stage.path);
        (stage.builder().namespace(&namespace), stage.link.connect_string().to_owned())
    }, async |(builder, connect_string)| {
        match builder.connect(&connect_string).await {
            Ok(curator) => _ = curator.close().await,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}"),
        }
        Told::Nothing
    };
    close: async |stage: &Stage| {
        let guard = stage.mutex().acquire().await.unwrap();
        (stage.curator.clone(), guard)
    }, async |(curator, guard)| {
        let node = guard.node().to_owned();
        match curator.close().await {
            Released::Confirmed => Told::Deleted(node),
            _ => Told::Nothing,
        }
    };
}
