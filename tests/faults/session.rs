//! Connecting and closing under faults.

use zookeeper_recipes::{Curator, ErrorKind, Guard, Released};

use crate::product::{SOON, Told, products};
use crate::support::fixture::FaultFixture;

async fn held(fixture: &FaultFixture) -> (Curator, Guard) {
    let guard = fixture.mutex().acquire().await.unwrap();
    (fixture.curator.clone(), guard)
}

/// Told: a confirmed close has deleted the node.
fn closed(guard: &Guard, released: Released) -> Told {
    match released {
        Released::Confirmed => Told::Deleted(guard.node().to_owned()),
        _ => Told::Nothing,
    }
}

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
    close: held, async |(curator, guard)| {
        closed(&guard, curator.close().await)
    };
    close_timeout: held, async |(curator, guard)| {
        closed(&guard, curator.close_timeout(SOON).await)
    };
}
