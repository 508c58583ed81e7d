//! Connecting and closing under faults.

use zookeeper_recipes::{ErrorKind, Released};

use crate::product::{SOON, Told, products};
use crate::support::fixture::FaultFixture;

products! { product:
    connect: async |fixture: &FaultFixture| {
        let namespace = format!("{}-namespace/of/three", fixture.path);
        (fixture.builder().namespace(&namespace), fixture.link.connect_string().to_owned())
    }, async |(builder, connect_string)| {
        match builder.connect(&connect_string).await {
            Ok(curator) => _ = curator.close().await,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}"),
        }
        Told::Nothing
    };
    close: async |fixture: &FaultFixture| {
        let guard = fixture.mutex().acquire().await.unwrap();
        (fixture.curator.clone(), guard)
    }, async |(curator, guard)| {
        let node = guard.node().to_owned();
        match curator.close().await {
            Released::Confirmed => Told::Deleted(node),
            _ => Told::Nothing,
        }
    };
    close_timeout: async |fixture: &FaultFixture| {
        let guard = fixture.mutex().acquire().await.unwrap();
        (fixture.curator.clone(), guard)
    }, async |(curator, guard)| {
        let node = guard.node().to_owned();
        match curator.close_timeout(SOON).await {
            Released::Confirmed => Told::Deleted(node),
            _ => Told::Nothing,
        }
    };
}
