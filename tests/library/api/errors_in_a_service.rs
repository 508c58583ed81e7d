//! `anyhow` keeps the kind of an error, as docs/guide/in-a-service.md says.

use std::time::Duration;

use anyhow::Context;
use zookeeper_recipes::simulation::Ensemble;
use zookeeper_recipes::{Curator, ErrorKind};

const LIMIT: Duration = Duration::from_secs(2);

async fn report(curator: &Curator) -> anyhow::Result<u64> {
    let lock = curator.mutex("/locks/report").context("the lock of the report")?;
    lock.run_timeout(LIMIT, async |_hold| {
        let rows = "12".parse().context("the number of rows")?;
        anyhow::Ok(rows)
    })
    .await
}

/// Whether the same call may succeed later.
fn is_transient(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<zookeeper_recipes::Error>();
    error.is_some_and(|error| error.is_busy() || error.is_transient())
}

#[tokio::test(start_paused = true)]
async fn anyhow_keeps_the_kind() -> anyhow::Result<()> {
    let ensemble = Ensemble::start(1);
    let curator = Curator::connect(ensemble.connect_string()).await?;
    assert_eq!(report(&curator).await?, 12);

    let cut = ensemble.partition(&curator);
    let failed = report(&curator).await.unwrap_err();
    assert!(is_transient(&failed), "{failed:#}");
    cut.heal();
    curator.close().await;
    let failed = report(&curator).await.unwrap_err();
    let error = failed.downcast_ref::<zookeeper_recipes::Error>();
    assert_eq!(error.map(zookeeper_recipes::Error::kind), Some(ErrorKind::Closed));
    assert!(!is_transient(&failed));
    Ok(())
}
